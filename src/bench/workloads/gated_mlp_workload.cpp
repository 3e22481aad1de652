#include "bench/workloads/tensors.hpp"
#include "bench/workloads/workload.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/gated_mlp/state.hpp"

namespace octet::bench {
namespace {

// Both ways to the same result. They take the same arguments, so one set of tensors serves both.
struct Plans {
  GatedMlpForwardPlan forward;
  GatedMlpBackwardPlan backward;

  Plans(const GatedMlpProblem& problem, const DataOptions& options)
      : forward(plan_gated_mlp_forward(problem, {options.backend, "", options.threads})),
        backward(plan_gated_mlp_backward(problem, {options.backend, "", options.threads})) {}

  std::vector<Workload::Call> calls() const { return {call_of(forward), call_of(backward)}; }

  template <class Plan>
  static Workload::Call call_of(const Plan& plan) {
    const GatedMlpCost moved = cost(plan);
    return {plan.implementation, plan.configuration, plan.workspace_bytes,
            static_cast<std::size_t>(moved.bytes), moved.launches};
  }
};

GatedMlpProblem unfused(GatedMlpProblem problem) {
  problem.unfused = true;
  return problem;
}

class GatedMlpWorkload : public Workload {
 public:
  GatedMlpWorkload(const GatedMlpProblem& problem, const DataOptions& options)
      : problem_(problem), options_(options), saved_(gated_mlp_saved_layout(problem)) {
    ways_.emplace_back(problem, options);
    calls_ = ways_[0].calls();
    // Other granularities have no other chain.
    if (!problem.fp8 || problem.unfused || problem.granularity != Granularity::blockwise) return;
    ways_.emplace_back(unfused(problem), options);
    peer_calls_ = ways_[1].calls();
  }

  std::size_t bytes() const override { return set_bytes() + output_bytes() + workspace_bytes(); }

  void allocate(std::int64_t uses) override {
    const Device device = problem_.device;
    require_free(bytes(), free_bytes(device), device);
    workspace_ = Buffer(workspace_bytes(), device);
    make_outputs();
    // Backward reads the saved views and one more gradient: at least as much as forward's weights.
    const std::int64_t count = input_set_count(weight_bytes(), set_bytes(), device, uses);
    for (std::int64_t i = 0; i < count; ++i) sets_.push_back(make_set());
  }

  Task task() override { return parts_of(0); }
  Task peer() override { return ways_.size() > 1 ? parts_of(1) : Task(); }

 private:
  struct Set {
    Tensor x, w_gate_up, w_down, d_out;  // d_out: dy with down, dh without
    Tensor gate_up, h;                   // saved
    QuantizedTensor x_t, w_gate_up_t, h_t, w_down_t;
  };

  Task parts_of(std::size_t way) {
    return {[this, way](std::int64_t i) { forward(ways_[way].forward, set_of(i)); },
            [this, way](std::int64_t i) { backward(ways_[way].backward, set_of(i)); }};
  }

  const Set& set_of(std::int64_t iteration) const {
    return sets_[static_cast<std::size_t>(iteration) % sets_.size()];
  }

  GatedMlpSaved saved(const Set& set) const {
    return {problem_.fp8 ? TensorView{} : set.x.view(),
            set.gate_up,
            set.x_t,
            set.w_gate_up_t,
            set.h,
            set.h_t,
            set.w_down_t};
  }

  void forward(const GatedMlpForwardPlan& plan, const Set& set) const {
    GatedMlpForwardArgs args;
    args.x = set.x;
    args.w_gate_up = set.w_gate_up;
    args.w_down = set.w_down;
    args.h = h_;
    args.h_fp8 = h_fp8_.views();
    args.y = y_;
    args.saved = saved(set);
    run(plan, args, {workspace_.data(), workspace_.bytes()}, stream_);
  }

  void backward(const GatedMlpBackwardPlan& plan, const Set& set) const {
    GatedMlpBackwardArgs args;
    (problem_.down ? args.dy : args.dh) = set.d_out;
    args.w_gate_up = set.w_gate_up;
    args.w_down = set.w_down;
    args.saved = saved(set);
    args.dx = dx_;
    args.dw_gate_up = dw_gate_up_;
    args.dw_down = dw_down_;
    run(plan, args, {workspace_.data(), workspace_.bytes()}, stream_);
  }

  Tensor random(std::int64_t rows, std::int64_t cols, std::uint32_t number) const {
    Tensor tensor(problem_.dtype, {rows, cols}, problem_.device);
    fill_input(tensor, options_, number);
    return tensor;
  }

  Set make_set() const {
    const auto& [m, f, k] = std::tie(problem_.m, problem_.f, problem_.k);
    const Device device = problem_.device;
    Set set;
    set.x = random(m, k, 0);
    set.w_gate_up = random(2 * f, k, 1);
    if (problem_.down) set.w_down = random(k, f, 2);
    set.d_out = random(m, problem_.down ? k : f, 3);
    set.gate_up = Tensor(problem_.dtype, {m, 2 * f}, device);
    if (saved_.h_bytes != 0) set.h = Tensor(problem_.dtype, {m, f}, device);
    const auto keep = [&](QuantizedTensor& tensor, const QuantizedLayout& layout) {
      if (layout.bytes != 0) tensor = allocate_quantized(layout, device);
    };
    keep(set.x_t, saved_.x_t);
    keep(set.w_gate_up_t, saved_.w_gate_up_t);
    keep(set.h_t, saved_.h_t);
    keep(set.w_down_t, saved_.w_down_t);
    return set;
  }

  void make_outputs() {
    const auto& [m, f, k, dtype] = std::tie(problem_.m, problem_.f, problem_.k, problem_.dtype);
    const Device device = problem_.device;
    if (problem_.down) {
      y_ = Tensor(dtype, {m, k}, device);
      dw_down_ = Tensor(problem_.dw_dtype, {k, f}, device);
    } else if (problem_.fp8) {
      h_fp8_ = Fp8Tensors(options_of(cast_of_x(down_layer(problem_))), m, f, device);
    } else {
      h_ = Tensor(dtype, {m, f}, device);
    }
    dx_ = Tensor(dtype, {m, k}, device);
    dw_gate_up_ = Tensor(problem_.dw_dtype, {2 * f, k}, device);
  }

  std::size_t weight_bytes() const {
    return tensor_bytes(problem_.dtype, {problem_.down ? 3 : 2, problem_.f, problem_.k});
  }
  std::size_t set_bytes() const {
    const std::size_t x = tensor_bytes(problem_.dtype, {problem_.m, problem_.k});
    const std::size_t d_out =
        tensor_bytes(problem_.dtype, {problem_.m, problem_.down ? problem_.k : problem_.f});
    return x + weight_bytes() + d_out + saved_.gate_up_bytes + saved_.h_bytes + saved_.x_t.bytes +
           saved_.w_gate_up_t.bytes + saved_.h_t.bytes + saved_.w_down_t.bytes;
  }
  // At least the bytes of y or h, dx and the gradients of the weights.
  std::size_t output_bytes() const {
    return tensor_bytes(problem_.dtype, {problem_.m, 2 * problem_.k + problem_.f}) +
           tensor_bytes(problem_.dw_dtype, {problem_.down ? 3 : 2, problem_.f, problem_.k});
  }

  GatedMlpProblem problem_;
  DataOptions options_;
  GatedMlpSavedLayout saved_;
  std::vector<Plans> ways_;  // ours, then the unfused chain if it differs
  std::vector<Set> sets_;
  Tensor h_, y_, dx_, dw_gate_up_, dw_down_;
  Fp8Tensors h_fp8_;
  Buffer workspace_;
};

}  // namespace

std::unique_ptr<Workload> make_workload(const GatedMlpProblem& problem,
                                        const DataOptions& options) {
  return std::make_unique<GatedMlpWorkload>(problem, options);
}

}  // namespace octet::bench
