#include "bench/workloads/memory_workload.hpp"
#include "core/views.hpp"
#include "ops/fp8_output/unfused.hpp"
#include "ops/gated_activation/problem.hpp"

#include <numeric>

namespace octet::bench {
namespace {

// gate and up are the halves of one tensor, as a product stores them, and so are their gradients.
struct GateTensors {
  Tensor gate_up, row_weight, y, dy, d_gate_up, d_row_weight, table;
  Fp8Tensors y_fp8, d_gate_up_fp8;
};

GatedActivationBackwardPlan plan_backward(const GatedActivationProblem& problem,
                                          const PlanOptions& options) {
  PlanOptions own = options;
  own.backend = forced_for_backward(own.backend, gated_activation_forward_implementations(),
                                    gated_activation_backward_implementations());
  return plan_gated_activation_backward(problem, own);
}

class GatedActivationWorkload : public StepWorkload<GatedActivationProblem, GateTensors> {
 public:
  GatedActivationWorkload(const GatedActivationProblem& problem, const DataOptions& options)
      : StepWorkload(problem, options, plan_gated_activation_forward, plan_backward) {
    if (problem.groups > 0) {
      sizes_ = group_sizes(options.group_spread, problem.groups, problem.rows, options.seed);
    }
    add_call(forward_, 2 * row_bytes(read_rows()) + weight_bytes(read_rows()) + table_bytes() +
                           output_bytes(problem.cols));
    add_call(backward_, 3 * row_bytes(read_rows()) + weight_bytes(read_rows()) +
                            weight_bytes(written_rows()) + table_bytes() +
                            output_bytes(2 * problem.cols));
  }

 private:
  // Of groups, only rows and token blocks that are read or written count.
  std::int64_t read_rows() const {
    return sizes_.empty() ? problem().rows
                          : std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0});
  }
  std::int64_t written_rows() const {
    return problem().tail == GroupTail::zero ? problem().rows : read_rows();
  }
  std::size_t row_bytes(std::int64_t rows) const {
    return tensor_bytes(problem().dtype, {rows, problem().cols});
  }
  std::size_t weight_bytes(std::int64_t rows) const {
    return problem().row_weight ? tensor_bytes(Dtype::f32, {rows}) : 0;
  }
  std::size_t table_bytes() const {
    if (sizes_.empty()) return 0;
    return tensor_bytes(Dtype::i32, {group_table_words(problem().groups, problem().rows)});
  }
  std::size_t output_bytes(std::int64_t cols) const {
    const std::optional<Fp8Output>& fp8 = problem().fp8;
    if (!fp8) return tensor_bytes(problem().dtype, {written_rows(), cols});
    if (sizes_.empty()) return fp8_bytes(*fp8, problem().rows, cols);
    return grouped_fp8_bytes(*fp8, sizes_, written_rows(), cols);
  }

  GateTensors make_set() const override {
    const GatedActivationProblem& p = problem();
    GateTensors set;
    set.gate_up = random_tensor(p.dtype, p.rows, 2 * p.cols, 0);
    set.dy = random_tensor(p.dtype, p.rows, p.cols, 1);
    if (p.row_weight) {
      set.row_weight = random_tensor(Dtype::f32, 1, p.rows, 2);
      set.d_row_weight = empty_tensor(Dtype::f32, 1, p.rows);
    }
    if (!sizes_.empty()) set.table = make_group_table(sizes_, p.rows, p.device);
    if (p.fp8 && p.groups > 0) {
      set.y_fp8 = Fp8Tensors(*p.fp8, p.groups, p.rows, p.cols, p.device);
      set.d_gate_up_fp8 = Fp8Tensors(*p.fp8, p.groups, p.rows, 2 * p.cols, p.device);
    } else if (p.fp8) {
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
    octet::run(forward_, {gate, up, as_vector(set.row_weight), set.y, set.y_fp8.views(), set.table},
               workspace, stream);
  }

  void backward(const GateTensors& set, Workspace workspace, void* stream) const override {
    const auto [gate, up] = Halves(set.gate_up);
    const auto [dgate, dup] = Halves(set.d_gate_up);
    octet::run(backward_,
               {set.dy, gate, up, as_vector(set.row_weight), dgate, dup, set.d_gate_up_fp8.views(),
                as_vector(set.d_row_weight), set.table},
               workspace, stream);
  }

  std::vector<std::int64_t> sizes_;  // of groups
};

}  // namespace

std::unique_ptr<Workload> make_workload(const GatedActivationProblem& problem,
                                        const DataOptions& options) {
  return std::make_unique<GatedActivationWorkload>(problem, options);
}

}  // namespace octet::bench
