// Forward, and backward on what it wrote.
#include "bench/workloads/tensors.hpp"
#include "bench/workloads/workload.hpp"
#include "core/views.hpp"

namespace octet::bench {
namespace {

class AttentionWorkload : public Workload {
 public:
  AttentionWorkload(const AttentionProblem& problem, const DataOptions& options)
      : options_(options),
        forward_plan_(plan_attention_forward(problem, plan_options())),
        backward_plan_(plan_attention_backward(problem, plan_options())),
        problem_(forward_plan_.problem),
        forms_(problem_, options.head_layout),
        lengths_(sequence_lengths(options.sequence_spread, problem_, options.seed)) {
    calls_ = {call_of(forward_plan_), call_of(backward_plan_)};
  }

  std::size_t bytes() const override { return set_bytes() + gradient_bytes() + workspace_bytes(); }

  void allocate(std::int64_t uses) override {
    const Device device = problem_.device;
    require_free(bytes(), free_bytes(device), device);
    workspace_ = Buffer(workspace_bytes(), device);
    dq_ = matrix(problem_.dtype, forms_.q);
    if (!forms_.packed) {
      dk_ = matrix(problem_.dtype, forms_.k);
      dv_ = matrix(problem_.dtype, forms_.v);
    }
    if (problem_.sink) dsink_ = Tensor(Dtype::f32, {problem_.heads_q}, device);
    const std::int64_t count = input_set_count(set_bytes() / 2, set_bytes(), device, uses);
    for (std::int64_t i = 0; i < count; ++i) {
      sets_.push_back(make_set());
      forward(sets_.back());  // backward reads what it writes
    }
  }

  Task task() override {
    return {[this](std::int64_t i) { forward(set_of(i)); },
            [this](std::int64_t i) { backward(set_of(i)); }};
  }

 private:
  struct Set {
    AttentionTensors tensors;
    Tensor out, lse;  // matrices
  };

  PlanOptions plan_options() const { return {options_.backend, options_.threads}; }

  template <class Plan>
  static Call call_of(const Plan& plan) {
    return {plan.implementation, plan.configuration, plan.workspace_bytes};
  }

  Tensor matrix(Dtype dtype, const HeadsForm& form) const {
    return {dtype, {form.rows, form.cols}, problem_.device};
  }
  const Set& set_of(std::int64_t iteration) const {
    return sets_[static_cast<std::size_t>(iteration) % sets_.size()];
  }
  Workspace scratch() const { return {workspace_.data(), workspace_.bytes()}; }

  Set make_set() const {
    Set set{AttentionTensors(problem_, options_.head_layout, lengths_),
            matrix(*problem_.out_dtype, forms_.out),
            Tensor(Dtype::f32, {lse_rows(problem_), lse_cols(problem_)}, problem_.device)};
    std::uint32_t stream = 0;
    for (const TensorView& input : set.tensors.matrices()) fill_input(input, options_, stream++);
    if (problem_.sink) fill_input(as_row(set.tensors.sink), options_, stream);
    return set;
  }

  void forward(const Set& set) const {
    AttentionForwardArgs args;
    args.inputs = set.tensors.inputs();
    args.out = forms_.out.view(set.out);
    args.lse = lse_view(problem_, set.lse);
    run(forward_plan_, args, scratch(), stream_);
  }

  void backward(const Set& set) const {
    AttentionBackwardArgs args;
    args.inputs = set.tensors.inputs();
    args.out = forms_.out.view(set.out);
    args.lse = lse_view(problem_, set.lse);
    args.dout = set.tensors.dout_view();
    args.dq = forms_.q.view(dq_);
    args.dk = forms_.k.view(forms_.packed ? dq_ : dk_);
    args.dv = forms_.v.view(forms_.packed ? dq_ : dv_);
    args.dsink = dsink_;
    run(backward_plan_, args, scratch(), stream_);
  }

  std::size_t gradient_bytes() const {
    std::size_t all = tensor_bytes(problem_.dtype, {forms_.q.rows, forms_.q.cols});
    if (forms_.packed) return all;
    for (const HeadsForm* form : {&forms_.k, &forms_.v}) {
      all += tensor_bytes(problem_.dtype, {form->rows, form->cols});
    }
    return all;
  }
  // q, k, v, out, dout and lse; offsets and sinks are nothing beside them.
  std::size_t set_bytes() const {
    return gradient_bytes() +
           2 * tensor_bytes(*problem_.out_dtype, {forms_.out.rows, forms_.out.cols}) +
           tensor_bytes(Dtype::f32, {lse_rows(problem_), lse_cols(problem_)});
  }

  DataOptions options_;
  AttentionForwardPlan forward_plan_;
  AttentionBackwardPlan backward_plan_;
  AttentionProblem problem_;  // with its defaults
  AttentionForms forms_;
  std::vector<SequenceLength> lengths_;
  std::vector<Set> sets_;
  Tensor dq_, dk_, dv_, dsink_;
  Buffer workspace_;
};

}  // namespace

std::unique_ptr<Workload> make_workload(const AttentionProblem& problem,
                                        const DataOptions& options) {
  return std::make_unique<AttentionWorkload>(problem, options);
}

}  // namespace octet::bench
