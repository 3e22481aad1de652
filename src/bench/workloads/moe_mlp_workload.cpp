// A layer of experts, forward and backward, with weights that are cast in every step.
#include "bench/workloads/tensors.hpp"
#include "bench/workloads/workload.hpp"
#include "check/data/expert_maps.hpp"
#include "core/checks.hpp"
#include "ops/moe_mlp/parts.hpp"

namespace octet::bench {
namespace {

class MoeMlpWorkload : public Workload {
 public:
  MoeMlpWorkload(const MoeMlpProblem& problem, const DataOptions& options)
      : problem_(problem),
        options_(options),
        forward_(plan_moe_mlp_forward(problem, backends())),
        backward_(plan_moe_mlp_backward(problem, backends())),
        layout_(moe_mlp_saved_layout(problem)) {
    calls_ = {call_of(forward_, forward_bytes(), problem.routing ? 10 : 9),
              call_of(backward_, backward_bytes(), problem.routing ? 9 : 8)};
  }

  std::size_t bytes() const override { return set_bytes() + output_bytes() + workspace_bytes(); }

  void allocate(std::int64_t uses) override {
    const Device device = problem_.device;
    require_free(bytes(), free_bytes(device), device);
    workspace_ = Buffer(workspace_bytes(), device);
    const auto& [f, k, tokens] = std::tie(problem_.f, problem_.k, problem_.tokens);
    const std::int64_t experts = groups_of(problem_);
    y_ = Tensor(problem_.dtype, {tokens, k}, device);
    dx_ = Tensor(problem_.dtype, {tokens, k}, device);
    if (problem_.routing)
      dlogits_ = Tensor(problem_.routing->dtype, {tokens, problem_.experts}, device);
    dweights_ = Tensor(Dtype::f32, {tokens, problem_.top_k}, device);
    dw_gate_up_ = Tensor(problem_.dw_dtype, {experts, 2 * f, k}, device);
    dw_down_ = Tensor(problem_.dw_dtype, {experts, k, f}, device);
    const std::int64_t count = input_set_count(weight_bytes(), set_bytes(), device, uses);
    for (std::int64_t i = 0; i < count; ++i) sets_.push_back(make_set());
  }

  Task task() override {
    return {[this](std::int64_t i) { forward(set_of(i)); },
            [this](std::int64_t i) { backward(set_of(i)); }};
  }

 private:
  struct Set {
    Tensor x, logits, bias, indices, weights, w_gate_up, w_down, dy;
    Buffer saved;
  };

  Fp8LinearOptions backends() const {
    return {options_.backend, options_.quantize_backend, options_.threads};
  }
  template <class Plan>
  static Call call_of(const Plan& plan, std::size_t bytes, std::int64_t launches) {
    return {plan.implementation, plan.configuration, plan.workspace_bytes, bytes, launches};
  }
  const Set& set_of(std::int64_t iteration) const {
    return sets_[static_cast<std::size_t>(iteration) % sets_.size()];
  }

  void forward(const Set& set) const {
    MoeMlpForwardArgs args;
    args.x = set.x;
    args.logits = set.logits;
    if (set.bias.data() != nullptr) {
      args.bias = make_view(set.bias.data(), Dtype::f32, {problem_.experts}, problem_.device);
    }
    args.indices = set.indices;
    args.weights = set.weights;
    args.w_gate_up = set.w_gate_up;
    args.w_down = set.w_down;
    args.y = y_;
    args.saved = layout_.view(set.saved.data());
    run(forward_, args, {workspace_.data(), workspace_.bytes()}, stream_);
  }
  void backward(const Set& set) const {
    MoeMlpBackwardArgs args;
    args.dy = set.dy;
    args.saved = layout_.view(set.saved.data());
    args.dx = dx_;
    args.dlogits = dlogits_;
    args.dweights = dweights_;
    args.dw_gate_up = dw_gate_up_;
    args.dw_down = dw_down_;
    run(backward_, args, {workspace_.data(), workspace_.bytes()}, stream_);
  }

  Tensor random(Dtype dtype, std::int64_t rows, std::int64_t cols, std::uint32_t number) const {
    Tensor tensor(dtype, {rows, cols}, problem_.device);
    fill_input(tensor, options_, number);
    return tensor;
  }
  Tensor random_experts_of(std::int64_t rows, std::int64_t cols, std::uint32_t number) const {
    Tensor tensor(problem_.dtype, {groups_of(problem_), rows, cols}, problem_.device);
    fill_input(make_matrix(tensor.data(), problem_.dtype, groups_of(problem_) * rows, cols, cols,
                           problem_.device),
               options_, number);
    return tensor;
  }

  Set make_set() const {
    const auto& p = problem_;
    Set set;
    set.x = random(p.dtype, p.tokens, p.k, 0);
    set.dy = random(p.dtype, p.tokens, p.k, 1);
    set.w_gate_up = random_experts_of(2 * p.f, p.k, 2);
    set.w_down = random_experts_of(p.k, p.f, 3);
    if (p.routing) {
      set.logits = random(p.routing->dtype, p.tokens, p.experts, 4);
      if (p.routing->bias) set.bias = random(Dtype::f32, 1, p.experts, 5);
    } else {
      set.indices =
          integer_tensor(random_experts(p.tokens * p.top_k, p.experts, AbsentSlots::none, options_),
                         Dtype::i32, {p.tokens, p.top_k}, p.device);
      set.weights = random(Dtype::f32, p.tokens, p.top_k, 6);
    }
    set.saved = Buffer(layout_.bytes, p.device);
    return set;
  }

  // Bytes that casts and products over groups move, for groups of equal size. A copy in FP8 counts
  // where it is written and where it is read.
  std::int64_t rows() const { return buffer_rows(problem_); }
  std::size_t plain(std::int64_t height, std::int64_t width) const {
    return tensor_bytes(problem_.dtype, {height, width});
  }
  std::size_t fp8(std::int64_t height, std::int64_t width) const {  // 1x128
    return static_cast<std::size_t>(height * width + height * ceil_div(width, kBlock) * 4);
  }
  std::size_t weights_fp8() const {
    return static_cast<std::size_t>(3 * groups_of(problem_) * problem_.f * problem_.k);
  }
  std::size_t weight_bytes() const {
    return tensor_bytes(problem_.dtype, {3 * groups_of(problem_), problem_.f, problem_.k});
  }
  std::size_t forward_bytes() const {
    const auto& [f, k] = std::tie(problem_.f, problem_.k);
    const std::size_t casts =
        plain(rows(), k) + 2 * fp8(rows(), k) + weight_bytes() + 2 * weights_fp8();
    const std::size_t products =
        fp8(rows(), k) + plain(rows(), 2 * f) + fp8(rows(), f) + plain(rows(), k) + weights_fp8();
    const std::size_t glue =
        plain(rows(), 2 * f) + 2 * fp8(rows(), f) + plain(rows(), k) + plain(problem_.tokens, k);
    return casts + products + glue;
  }
  std::size_t backward_bytes() const {
    const auto& [f, k] = std::tie(problem_.f, problem_.k);
    const std::size_t casts = plain(rows(), k) + 2 * fp8(rows(), k);
    const std::size_t dw = tensor_bytes(problem_.dw_dtype, {3 * groups_of(problem_), f, k});
    const std::size_t products = 2 * fp8(rows(), k) + plain(rows(), f) + fp8(rows(), f) +
                                 2 * fp8(rows(), 2 * f) + plain(rows(), k) + fp8(rows(), k) +
                                 weights_fp8() + (problem_.accumulate_dw ? 2 : 1) * dw;
    const std::size_t glue = plain(rows(), 3 * f) + 2 * fp8(rows(), 2 * f) + plain(rows(), k) +
                             plain(problem_.tokens, k);
    return casts + products + glue;
  }
  std::size_t set_bytes() const {
    return 2 * plain(problem_.tokens, problem_.k) + weight_bytes() + layout_.bytes +
           tensor_bytes(Dtype::f32, {problem_.tokens, problem_.experts});
  }
  std::size_t output_bytes() const {
    return 2 * plain(problem_.tokens, problem_.k) +
           tensor_bytes(problem_.dw_dtype, {3 * groups_of(problem_), problem_.f, problem_.k});
  }

  MoeMlpProblem problem_;
  DataOptions options_;
  MoeMlpForwardPlan forward_;
  MoeMlpBackwardPlan backward_;
  MoeMlpSavedLayout layout_;
  std::vector<Set> sets_;
  Tensor y_, dx_, dlogits_, dweights_, dw_gate_up_, dw_down_;
  Buffer workspace_;
};

}  // namespace

std::unique_ptr<Workload> make_workload(const MoeMlpProblem& problem, const DataOptions& options) {
  return std::make_unique<MoeMlpWorkload>(problem, options);
}

}  // namespace octet::bench
