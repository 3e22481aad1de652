#include "bench/workloads/memory_workload.hpp"
#include "core/views.hpp"

namespace octet::bench {
namespace {

// gate and up are the halves of one tensor, as a product stores them, and so are their gradients.
struct GateTensors {
  Tensor gate_up, row_weight, y, dy, d_gate_up, d_row_weight;
  Fp8Tensors y_fp8, d_gate_up_fp8;
};

class GatedActivationWorkload : public StepWorkload<GatedActivationProblem, GateTensors> {
 public:
  GatedActivationWorkload(const GatedActivationProblem& problem, const DataOptions& options)
      : StepWorkload(problem, options, plan_gated_activation_forward,
                     plan_gated_activation_backward) {
    const auto& [rows, cols, fp8] = std::tie(problem.rows, problem.cols, problem.fp8);
    const std::size_t half = tensor_bytes(problem.dtype, {rows, cols});
    const std::size_t weight = problem.row_weight ? tensor_bytes(Dtype::f32, {rows}) : 0;
    add_call(forward_, 2 * half + weight + (fp8 ? fp8_bytes(*fp8, rows, cols) : half));
    add_call(backward_, 3 * half + 2 * weight + (fp8 ? fp8_bytes(*fp8, rows, 2 * cols) : 2 * half));
  }

 private:
  GateTensors make_set() const override {
    const GatedActivationProblem& p = problem();
    GateTensors set;
    set.gate_up = random_tensor(p.dtype, p.rows, 2 * p.cols, 0);
    set.dy = random_tensor(p.dtype, p.rows, p.cols, 1);
    if (p.row_weight) {
      set.row_weight = random_tensor(Dtype::f32, 1, p.rows, 2);
      set.d_row_weight = empty_tensor(Dtype::f32, 1, p.rows);
    }
    if (p.fp8) {
      set.y_fp8 = Fp8Tensors(*p.fp8, p.rows, p.cols, p.device);
      set.d_gate_up_fp8 = Fp8Tensors(*p.fp8, p.rows, 2 * p.cols, p.device);
    } else {
      set.y = empty_tensor(p.dtype, p.rows, p.cols);
      set.d_gate_up = empty_tensor(p.dtype, p.rows, 2 * p.cols);
    }
    return set;
  }

  void forward(const GateTensors& set, Workspace workspace, void* stream) const override {
    const auto [gate, up] = Halves(set.gate_up);
    octet::run(forward_, {gate, up, as_vector(set.row_weight), set.y, set.y_fp8.views()}, workspace,
               stream);
  }

  void backward(const GateTensors& set, Workspace workspace, void* stream) const override {
    const auto [gate, up] = Halves(set.gate_up);
    const auto [dgate, dup] = Halves(set.d_gate_up);
    octet::run(backward_,
               {set.dy, gate, up, as_vector(set.row_weight), dgate, dup, set.d_gate_up_fp8.views(),
                as_vector(set.d_row_weight)},
               workspace, stream);
  }
};

}  // namespace

std::unique_ptr<Workload> make_workload(const GatedActivationProblem& problem,
                                        const DataOptions& options) {
  return std::make_unique<GatedActivationWorkload>(problem, options);
}

}  // namespace octet::bench
