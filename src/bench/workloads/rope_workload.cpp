#include "bench/workloads/memory_workload.hpp"

namespace octet::bench {
namespace {

struct RopeTensors {
  Tensor q, k, q_out, k_out;
  RotationTensors rotation;
};

// Backward rotates the same tensors the other way.
class RopeWorkload : public StepWorkload<RopeProblem, RopeTensors> {
 public:
  RopeWorkload(const RopeProblem& problem, const DataOptions& options)
      : StepWorkload(problem, options, plan_rope_forward, plan_rope_backward) {
    const std::size_t bytes = 2 * heads_bytes(problem) + rotation_bytes(problem);
    add_call(forward_, bytes);
    add_call(backward_, bytes);
  }

 private:
  RopeTensors make_set() const override {
    const RopeProblem& p = problem();
    const std::int64_t tokens = p.batch * p.seq;
    RopeTensors set;
    set.q = random_tensor(p.dtype, tokens, p.q_heads * p.head_dim, 0);
    set.q_out = empty_tensor(p.dtype, tokens, p.q_heads * p.head_dim);
    if (p.k_heads > 0) {
      set.k = random_tensor(p.dtype, tokens, p.k_heads * p.head_dim, 1);
      set.k_out = empty_tensor(p.dtype, tokens, p.k_heads * p.head_dim);
    }
    set.rotation = rotation_tensors(p, 2);
    return set;
  }

  void forward(const RopeTensors& set, Workspace workspace, void* stream) const override {
    rotate(forward_, set, workspace, stream);
  }
  void backward(const RopeTensors& set, Workspace workspace, void* stream) const override {
    rotate(backward_, set, workspace, stream);
  }

  template <class Plan>
  void rotate(const Plan& plan, const RopeTensors& set, Workspace workspace, void* stream) const {
    const auto heads = [&](const Tensor& matrix) { return as_heads(matrix, problem()); };
    octet::run(
        plan, {heads(set.q), heads(set.k), heads(set.q_out), heads(set.k_out), set.rotation.args()},
        workspace, stream);
  }
};

}  // namespace

std::unique_ptr<Workload> make_workload(const RopeProblem& problem, const DataOptions& options) {
  return std::make_unique<RopeWorkload>(problem, options);
}

}  // namespace octet::bench
