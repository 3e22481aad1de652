// What octet tune runs of attention: a pass on random heads.
#include "bench/tune/operator_tunable.hpp"
#include "bench/workloads/tensors.hpp"
#include "core/views.hpp"
#include "ops/attention/problem.hpp"

#include <array>

namespace octet::bench {
namespace {

// Both passes: backward reads what forward wrote.
template <class Pass>
class AttentionData {
 public:
  static constexpr bool kBackward = std::is_same_v<Pass, BackwardPass>;
  using Args = std::conditional_t<kBackward, AttentionBackwardArgs, AttentionForwardArgs>;

  AttentionData(const AttentionProblem& problem, const DataOptions& options)
      : problem_(completed(problem)),
        options_(options),
        forms_(problem_, options.head_layout),
        lengths_(sequence_lengths(options.sequence_spread, problem_, options.seed)) {}

  // q, k, v, out, dout and lse.
  std::size_t bytes() const {
    std::size_t all = lse_bytes();
    for (const HeadsForm* form : {&forms_.q, &forms_.k, &forms_.v, &forms_.out, &forms_.out}) {
      all += tensor_bytes(problem_.dtype, {form->rows, form->cols});
    }
    return all;
  }

  // Half of that: out and lse, or dq, dk and dv.
  std::size_t output_bytes() const { return bytes() / 2; }

  void make(std::int64_t sets) {
    for (Outputs& outputs : outputs_) outputs = make_outputs();
    for (std::int64_t i = 0; i < sets; ++i) sets_.push_back(make_set());
    if (kBackward) {
      for (const Set& set : sets_) forward(set);
    }
  }

  std::vector<TensorView> outputs(int which) const {
    const Outputs& all = outputs_[static_cast<std::size_t>(which)];
    std::vector<TensorView> result;
    for (const Tensor* output : {&all.first, &all.second, &all.third}) {
      if (output->view().data != nullptr) result.push_back(*output);
    }
    if (all.dsink.view().data != nullptr) result.push_back(as_row(all.dsink));
    return result;
  }

  Args args(std::int64_t index, int which) const {
    const Set& set = sets_[static_cast<std::size_t>(index)];
    const Outputs& to = outputs_[static_cast<std::size_t>(which)];
    Args args;
    args.inputs = set.tensors.inputs();
    if constexpr (kBackward) {
      args.out = forms_.out.view(set.out);
      args.lse = lse_view(problem_, set.lse);
      args.dout = set.tensors.dout_view();
      args.dq = forms_.q.view(to.first);
      args.dk = forms_.k.view(forms_.packed ? to.first : to.second);
      args.dv = forms_.v.view(forms_.packed ? to.first : to.third);
      args.dsink = to.dsink;
    } else {
      args.out = forms_.out.view(to.first);
      args.lse = lse_view(problem_, to.second);
    }
    return args;
  }

 private:
  struct Set {
    AttentionTensors tensors;
    Tensor out, lse;  // what forward wrote, for backward
  };
  // Matrices: out and lse of forward; dq, dk and dv of backward, in one matrix where heads are packed.
  struct Outputs {
    Tensor first, second, third, dsink;
  };

  Tensor matrix(Dtype dtype, const HeadsForm& form) const {
    return {dtype, {form.rows, form.cols}, problem_.device};
  }
  Tensor lse() const {
    return {Dtype::f32, {lse_rows(problem_), lse_cols(problem_)}, problem_.device};
  }
  std::size_t lse_bytes() const {
    return tensor_bytes(Dtype::f32, {lse_rows(problem_), lse_cols(problem_)});
  }

  Outputs make_outputs() const {
    Outputs outputs;
    if constexpr (kBackward) {
      outputs.first = matrix(problem_.dtype, forms_.q);
      if (!forms_.packed) {
        outputs.second = matrix(problem_.dtype, forms_.k);
        outputs.third = matrix(problem_.dtype, forms_.v);
      }
      if (problem_.sink) outputs.dsink = Tensor(Dtype::f32, {problem_.heads_q}, problem_.device);
    } else {
      outputs.first = matrix(*problem_.out_dtype, forms_.out);
      outputs.second = lse();
    }
    return outputs;
  }

  Set make_set() const {
    Set set{AttentionTensors(problem_, options_.head_layout, lengths_), {}, {}};
    std::uint32_t stream = 0;
    for (const TensorView& input : set.tensors.matrices()) fill_input(input, options_, stream++);
    if (problem_.sink) fill_input(as_row(set.tensors.sink), options_, stream);
    if (kBackward) {
      set.out = matrix(*problem_.out_dtype, forms_.out);
      set.lse = lse();
    }
    return set;
  }

  void forward(const Set& set) const {
    const AttentionForwardPlan plan =
        plan_attention_forward(problem_, {.threads = options_.threads});
    const Buffer scratch(plan.workspace_bytes, problem_.device);
    AttentionForwardArgs args;
    args.inputs = set.tensors.inputs();
    args.out = forms_.out.view(set.out);
    args.lse = lse_view(problem_, set.lse);
    run(plan, args, {scratch.data(), scratch.bytes()});
    if (problem_.device.type == DeviceType::cuda) cuda::synchronize(problem_.device.index);
  }

  AttentionProblem problem_;  // with its defaults
  DataOptions options_;
  AttentionForms forms_;
  std::vector<SequenceLength> lengths_;
  std::array<Outputs, 2> outputs_;
  std::vector<Set> sets_;
};

}  // namespace

std::unique_ptr<Tunable> make_tunable_forward(const AttentionProblem& problem,
                                              const DataOptions& options) {
  check(problem);
  return std::make_unique<
      OperatorTunable<AttentionProblem, ForwardPass, AttentionData<ForwardPass>>>(
      "attention", attention_forward_implementations(), problem, completed(problem),
      plan_attention_forward, check_attention, options);
}

std::unique_ptr<Tunable> make_tunable_backward(const AttentionProblem& problem,
                                               const DataOptions& options) {
  check(problem);
  return std::make_unique<
      OperatorTunable<AttentionProblem, BackwardPass, AttentionData<BackwardPass>>>(
      "attention", attention_backward_implementations(), problem, completed(problem),
      plan_attention_backward, check_attention, options);
}

}  // namespace octet::bench
