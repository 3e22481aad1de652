#include "bench/workloads/memory_workload.hpp"
#include "bench/workloads/tensors.hpp"

namespace octet::bench {
namespace {

// With a residual, forward adds it and writes the sum, and backward adds the gradient that reaches
// the sum by the other path, as in a layer that adds the residual before its norm.
class RmsNormWorkload : public MemoryWorkload {
 public:
  RmsNormWorkload(const RmsNormProblem& problem, const DataOptions& options)
      : MemoryWorkload(problem.device, options),
        forward_(plan_rms_norm_forward(problem, plan_options())),
        backward_(plan_rms_norm_backward(problem, plan_options())) {
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
  struct Set {
    Tensor x, residual, g, y, sum, rstd, dy, dsum, dx, dg;
    Fp8Tensors fp8;
  };
  const RmsNormProblem& problem() const { return forward_.problem; }

  void add_set() override {
    const RmsNormProblem& p = problem();
    Set set;
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
    sets_.push_back(std::move(set));
  }

  void run(std::size_t call, std::size_t number, Workspace workspace, void* stream) override {
    const Set& set = sets_[number];
    const TensorView g = as_vector(set.g);
    const TensorView rstd = as_vector(set.rstd);
    if (call == 0) {
      octet::run(forward_, {set.x, set.residual, g, set.y, set.fp8.views(), set.sum, rstd},
                 workspace, stream);
    } else {
      const TensorView& h = problem().residual ? set.sum : set.x;
      octet::run(backward_, {set.dy, h, g, rstd, set.dsum, set.dx, {}, as_vector(set.dg)},
                 workspace, stream);
    }
  }

  RmsNormForwardPlan forward_;
  RmsNormBackwardPlan backward_;
  std::vector<Set> sets_;
};

}  // namespace

std::unique_ptr<Workload> make_workload(const RmsNormProblem& problem, const DataOptions& options) {
  return std::make_unique<RmsNormWorkload>(problem, options);
}

}  // namespace octet::bench
