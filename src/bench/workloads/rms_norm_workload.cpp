#include "bench/workloads/memory_workload.hpp"
#include "ops/fp8_output/unfused.hpp"
#include "ops/rms_norm/problem.hpp"

namespace octet::bench {
namespace {

struct NormTensors {
  Tensor x, residual, g, y, sum, rstd, dy, dsum, dx, dg;
  Fp8Tensors fp8;
};

RmsNormBackwardPlan plan_backward(const RmsNormProblem& problem, const PlanOptions& options) {
  PlanOptions own = options;
  own.backend = forced_for_backward(own.backend, rms_norm_forward_implementations(),
                                    rms_norm_backward_implementations());
  return plan_rms_norm_backward(problem, own);
}

// With a residual, forward adds it and writes the sum, and backward adds the gradient that reaches
// the sum by the other path, as in a layer that adds the residual before its norm.
class RmsNormWorkload : public StepWorkload<RmsNormProblem, NormTensors> {
 public:
  RmsNormWorkload(const RmsNormProblem& problem, const DataOptions& options)
      : StepWorkload(problem, options, plan_rms_norm_forward, plan_backward) {
    const auto& [rows, cols, dtype] = std::tie(problem.rows, problem.cols, problem.dtype);
    const std::size_t matrix = tensor_bytes(dtype, {rows, cols});
    const std::size_t g = tensor_bytes(problem.weight_dtype, {cols});
    const std::size_t rstd = tensor_bytes(Dtype::f32, {rows});
    const std::size_t y = problem.fp8 ? fp8_bytes(*problem.fp8, rows, cols) : matrix;
    const std::size_t residual_and_sum = problem.residual ? 2 * matrix : 0;
    const std::size_t dsum = problem.residual ? matrix : 0;
    add_call(forward_, matrix + g + y + rstd + residual_and_sum);
    add_call(backward_, 3 * matrix + g + rstd + tensor_bytes(problem.dg_dtype, {cols}) + dsum);
  }

 private:
  NormTensors make_set() const override {
    const RmsNormProblem& p = problem();
    NormTensors set;
    set.x = random_tensor(p.dtype, p.rows, p.cols, 0);
    set.g = random_tensor(p.weight_dtype, 1, p.cols, 1);
    set.dy = random_tensor(p.dtype, p.rows, p.cols, 2);
    set.rstd = empty_tensor(Dtype::f32, 1, p.rows);
    set.dx = empty_tensor(p.dtype, p.rows, p.cols);
    set.dg = empty_tensor(p.dg_dtype, 1, p.cols);
    if (p.residual) {
      set.residual = random_tensor(p.dtype, p.rows, p.cols, 3);
      set.sum = empty_tensor(p.dtype, p.rows, p.cols);
      set.dsum = random_tensor(p.dtype, p.rows, p.cols, 4);
    }
    if (p.fp8) {
      set.fp8 = Fp8Tensors(*p.fp8, p.rows, p.cols, p.device);
    } else {
      set.y = empty_tensor(p.dtype, p.rows, p.cols);
    }
    return set;
  }

  void forward(const NormTensors& set, Workspace workspace, void* stream) const override {
    octet::run(forward_,
               {set.x, set.residual, as_vector(set.g), set.y, set.fp8.views(), set.sum,
                as_vector(set.rstd)},
               workspace, stream);
  }

  void backward(const NormTensors& set, Workspace workspace, void* stream) const override {
    const TensorView& h = problem().residual ? set.sum : set.x;
    octet::run(
        backward_,
        {set.dy, h, as_vector(set.g), as_vector(set.rstd), set.dsum, set.dx, {}, as_vector(set.dg)},
        workspace, stream);
  }
};

}  // namespace

std::unique_ptr<Workload> make_workload(const RmsNormProblem& problem, const DataOptions& options) {
  return std::make_unique<RmsNormWorkload>(problem, options);
}

}  // namespace octet::bench
