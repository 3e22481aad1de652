#include "bench/workloads/memory_workload.hpp"
#include "bench/workloads/tensors.hpp"

namespace octet::bench {
namespace {

// Backward rotates the same tensors the other way.
class RopeWorkload : public MemoryWorkload {
 public:
  RopeWorkload(const RopeProblem& problem, const DataOptions& options)
      : MemoryWorkload(problem.device, options),
        forward_(plan_rope_forward(problem, plan_options())),
        backward_(plan_rope_backward(problem, plan_options())) {
    const std::size_t bytes = 2 * heads_bytes(problem) + rotation_bytes(problem);
    add_call(forward_, bytes);
    add_call(backward_, bytes);
  }

 private:
  struct Set {
    Tensor q, k, q_out, k_out, cos, sin, positions;
  };

  void add_set() override {
    const RopeProblem& p = forward_.problem;
    const std::int64_t tokens = p.batch * p.seq;
    Set set;
    set.q = random_tensor(p.dtype, tokens, p.q_heads * p.head_dim, 0);
    set.q_out = empty_tensor(p.dtype, tokens, p.q_heads * p.head_dim);
    if (p.k_heads > 0) {
      set.k = random_tensor(p.dtype, tokens, p.k_heads * p.head_dim, 1);
      set.k_out = empty_tensor(p.dtype, tokens, p.k_heads * p.head_dim);
    }
    set.cos = random_tensor(p.rotation.cache_dtype, cache_rows(p), cache_cols(p), 2);
    set.sin = random_tensor(p.rotation.cache_dtype, cache_rows(p), cache_cols(p), 3);
    if (p.rotation.positions_dtype) {
      set.positions = make_positions(*p.rotation.positions_dtype, p.batch, p.seq, p.device);
    }
    sets_.push_back(std::move(set));
  }

  void run(std::size_t call, std::size_t number, Workspace workspace, void* stream) override {
    const Set& set = sets_[number];
    const RopeProblem& p = forward_.problem;
    const TensorView q = as_heads(set.q, p);
    const TensorView k = as_heads(set.k, p);
    const TensorView q_out = as_heads(set.q_out, p);
    const TensorView k_out = as_heads(set.k_out, p);
    const RotationArgs rotation{set.cos, set.sin, set.positions};
    if (call == 0) {
      octet::run(forward_, {q, k, q_out, k_out, rotation}, workspace, stream);
    } else {
      octet::run(backward_, {q, k, q_out, k_out, rotation}, workspace, stream);
    }
  }

  RopeForwardPlan forward_;
  RopeBackwardPlan backward_;
  std::vector<Set> sets_;
};

}  // namespace

std::unique_ptr<Workload> make_workload(const RopeProblem& problem, const DataOptions& options) {
  return std::make_unique<RopeWorkload>(problem, options);
}

}  // namespace octet::bench
