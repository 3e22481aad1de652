#include "bench/workloads/memory_workload.hpp"

namespace octet::bench {
namespace {

struct NormRopeTensors {
  struct Side {  // q or k
    Tensor x, g, out, rstd, d_out, dx, dg;
  };
  Side q, k;
  RotationTensors rotation;
};

class RmsNormRopeWorkload : public StepWorkload<RmsNormRopeProblem, NormRopeTensors> {
 public:
  RmsNormRopeWorkload(const RmsNormRopeProblem& problem, const DataOptions& options)
      : StepWorkload(problem, options, plan_rms_norm_rope_forward, plan_rms_norm_rope_backward) {
    const std::size_t heads = heads_bytes(problem);
    std::size_t rstd = 0;
    std::size_t g = 0;
    std::size_t dg = 0;
    for (const std::int64_t count : {problem.q_heads, problem.k_heads}) {
      if (count == 0) continue;
      rstd += tensor_bytes(Dtype::f32, {rstds(count)});
      g += tensor_bytes(problem.weight_dtype, {weights(count)});
      dg += tensor_bytes(problem.dg_dtype, {weights(count)});
    }
    add_call(forward_, 2 * heads + g + rstd + rotation_bytes(problem));
    add_call(backward_, 3 * heads + g + dg + rstd + rotation_bytes(problem));
  }

 private:
  bool by_row() const { return problem().norm == NormScope::row; }
  std::int64_t tokens() const { return problem().batch * problem().seq; }
  std::int64_t rstds(std::int64_t heads) const { return tokens() * (by_row() ? 1 : heads); }
  std::int64_t weights(std::int64_t heads) const {
    return problem().head_dim * (by_row() ? heads : 1);
  }

  NormRopeTensors::Side make_side(std::int64_t heads, std::uint32_t number) const {
    const RmsNormRopeProblem& p = problem();
    const std::int64_t cols = heads * p.head_dim;
    NormRopeTensors::Side side;
    if (heads == 0) return side;
    side.x = random_tensor(p.dtype, tokens(), cols, number);
    side.g = random_tensor(p.weight_dtype, 1, weights(heads), number + 1);
    side.d_out = random_tensor(p.dtype, tokens(), cols, number + 2);
    side.out = empty_tensor(p.dtype, tokens(), cols);
    side.rstd = empty_tensor(Dtype::f32, 1, rstds(heads));
    side.dx = empty_tensor(p.dtype, tokens(), cols);
    side.dg = empty_tensor(p.dg_dtype, 1, weights(heads));
    return side;
  }

  NormRopeTensors make_set() const override {
    return {make_side(problem().q_heads, 0), make_side(problem().k_heads, 3),
            rotation_tensors(problem(), 6)};
  }

  void forward(const NormRopeTensors& set, Workspace workspace, void* stream) const override {
    const auto& [q, k, rotation] = set;
    octet::run(forward_,
               {heads(q.x), heads(k.x), as_vector(q.g), as_vector(k.g), heads(q.out), heads(k.out),
                as_vector(q.rstd), as_vector(k.rstd), rotation.args()},
               workspace, stream);
  }

  void backward(const NormRopeTensors& set, Workspace workspace, void* stream) const override {
    const auto& [q, k, rotation] = set;
    octet::run(backward_,
               {heads(q.d_out), heads(k.d_out), heads(q.x), heads(k.x), as_vector(q.g),
                as_vector(k.g), as_vector(q.rstd), as_vector(k.rstd), heads(q.dx), heads(k.dx),
                as_vector(q.dg), as_vector(k.dg), rotation.args()},
               workspace, stream);
  }

  TensorView heads(const Tensor& matrix) const { return as_heads(matrix, problem()); }
};

}  // namespace

std::unique_ptr<Workload> make_workload(const RmsNormRopeProblem& problem,
                                        const DataOptions& options) {
  return std::make_unique<RmsNormRopeWorkload>(problem, options);
}

}  // namespace octet::bench
