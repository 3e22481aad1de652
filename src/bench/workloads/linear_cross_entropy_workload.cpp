// The loss alone, and the step: the loss and the gradients of x and w.
#include "bench/workloads/tensors.hpp"
#include "bench/workloads/workload.hpp"

namespace octet::bench {
namespace {

LinearCrossEntropyProblem loss_only(LinearCrossEntropyProblem problem) {
  problem.training = false;
  return problem;
}

class LinearCrossEntropyWorkload : public Workload {
 public:
  LinearCrossEntropyWorkload(const LinearCrossEntropyProblem& problem, const DataOptions& options)
      : problem_(problem),
        options_(options),
        loss_plan_(plan_linear_cross_entropy_forward(loss_only(problem), plan_options())),
        step_plan_(plan_linear_cross_entropy_forward(problem, plan_options())) {
    calls_ = {call_of(loss_plan_), call_of(step_plan_)};
    if (problem.reduction != LossReduction::none) return;
    backward_plan_ = plan_linear_cross_entropy_backward(problem, plan_options());
    calls_[1] = call_of(*backward_plan_);
  }

  std::size_t bytes() const override { return set_bytes() + output_bytes() + workspace_bytes(); }

  void allocate(std::int64_t uses) override {
    const Device device = problem_.device;
    require_free(bytes(), free_bytes(device), device);
    workspace_ = Buffer(workspace_bytes(), device);
    loss_ = Tensor(Dtype::f32, {losses()}, device);
    lse_ = Tensor(Dtype::f32, {problem_.m}, device);
    dx_ = Tensor(problem_.dtype, {problem_.m, problem_.k}, device);
    dw_ = Tensor(problem_.dw_dtype, {problem_.v, problem_.k}, device);
    const std::int64_t count = input_set_count(set_bytes(), set_bytes(), device, uses);
    for (std::int64_t i = 0; i < count; ++i) sets_.push_back(make_set());
  }

  Task task() override {
    return {[this](std::int64_t i) { forward(loss_plan_, set_of(i)); },
            [this](std::int64_t i) { step(set_of(i)); }};
  }

 private:
  struct Set {
    Tensor x, w, targets, loss_grad;
  };

  Fp8LinearOptions plan_options() const { return {options_.backend, "", options_.threads}; }
  std::int64_t losses() const { return problem_.reduction == LossReduction::none ? problem_.m : 1; }

  template <class Plan>
  static Call call_of(const Plan& plan) {
    return {plan.implementation, plan.configuration, plan.workspace_bytes};
  }

  const Set& set_of(std::int64_t iteration) const {
    return sets_[static_cast<std::size_t>(iteration) % sets_.size()];
  }
  Workspace scratch() const { return {workspace_.data(), workspace_.bytes()}; }

  void forward(const LinearCrossEntropyForwardPlan& plan, const Set& set) const {
    LinearCrossEntropyForwardArgs args;
    args.x = set.x;
    args.w = set.w;
    args.targets = set.targets;
    args.loss = loss_;
    args.lse = lse_;
    args.dx = dx_;
    args.dw = dw_;
    run(plan, args, scratch(), stream_);
  }

  void step(const Set& set) const {
    forward(step_plan_, set);
    if (!backward_plan_) return;
    LinearCrossEntropyBackwardArgs args;
    args.x = set.x;
    args.w = set.w;
    args.targets = set.targets;
    args.loss_grad = set.loss_grad;
    args.lse = lse_;
    args.dx = dx_;
    args.dw = dw_;
    run(*backward_plan_, args, scratch(), stream_);
  }

  Set make_set() const {
    const Device device = problem_.device;
    Set set;
    set.x = Tensor(problem_.dtype, {problem_.m, problem_.k}, device);
    fill_input(set.x, options_, 0);
    set.w = Tensor(problem_.dtype, {problem_.v, problem_.k}, device);
    fill_input(set.w, options_, 1);
    const Tensor targets(problem_.target_dtype, {problem_.m});
    for (std::int64_t i = 0; i < problem_.m; ++i) {
      const std::int64_t word = (i * 7919 + 3) % problem_.v;
      if (problem_.target_dtype == Dtype::i32) {
        static_cast<std::int32_t*>(targets.data())[i] = static_cast<std::int32_t>(word);
      } else {
        static_cast<std::int64_t*>(targets.data())[i] = word;
      }
    }
    set.targets = Tensor(problem_.target_dtype, {problem_.m}, device);
    copy(targets, set.targets);
    const Tensor grad(Dtype::f32, {losses()});
    for (std::int64_t i = 0; i < losses(); ++i) static_cast<float*>(grad.data())[i] = 1;
    set.loss_grad = Tensor(Dtype::f32, {losses()}, device);
    copy(grad, set.loss_grad);
    return set;
  }

  std::size_t set_bytes() const {
    return tensor_bytes(problem_.dtype, {problem_.m + problem_.v, problem_.k}) +
           tensor_bytes(problem_.target_dtype, {problem_.m}) + tensor_bytes(Dtype::f32, {losses()});
  }
  std::size_t output_bytes() const {
    return tensor_bytes(problem_.dtype, {problem_.m, problem_.k}) +
           tensor_bytes(problem_.dw_dtype, {problem_.v, problem_.k}) +
           tensor_bytes(Dtype::f32, {problem_.m + losses()});
  }

  LinearCrossEntropyProblem problem_;
  DataOptions options_;
  LinearCrossEntropyForwardPlan loss_plan_;
  LinearCrossEntropyForwardPlan step_plan_;
  std::optional<LinearCrossEntropyBackwardPlan> backward_plan_;  // without a reduction
  std::vector<Set> sets_;
  Tensor loss_, lse_, dx_, dw_;
  Buffer workspace_;
};

}  // namespace

std::unique_ptr<Workload> make_workload(const LinearCrossEntropyProblem& problem,
                                        const DataOptions& options) {
  return std::make_unique<LinearCrossEntropyWorkload>(problem, options);
}

}  // namespace octet::bench
