// The products of the layer alone: the very plans of the layer, taken out of it.
#include "bench/host.hpp"
#include "bench/workload.hpp"
#include "ops/fp8_linear/state.hpp"

#include <algorithm>

namespace octet::bench {
namespace {

struct Operands {
  QuantizedTensor x;     // [M, K] 1x128
  QuantizedTensor w;     // [N, K] 128x128
  QuantizedTensor x_t;   // [K, M] 1x128 or 128x128
  QuantizedTensor w_t;   // [K, N] 128x128
  QuantizedTensor dy;    // [M, N] 1x128
  QuantizedTensor dy_t;  // [N, M] 1x128
};

QuantizedTensor allocate_quantized(const QuantizedLayout& layout) {
  return {layout.rows, layout.cols, layout.dtype, layout.block};
}

class Fp8Products : public Workload {
 public:
  Fp8Products(const Fp8LinearProblem& problem, const WorkloadOptions& options)
      : problem_(problem), options_(options) {
    const Fp8LinearOptions backends{options.gemm_backend, options.quantize_backend,
                                    options.threads};
    forward_plan_ = plan_fp8_linear_forward(problem, backends);
    backward_plan_ = plan_fp8_linear_backward(problem, backends);
    implementation_ = "gemm=" + forward_state().product.implementation;
    for (const GemmPlan* plan : {&*backward_state().dx_product, &*backward_state().dw_product}) {
      if ("gemm=" + plan->implementation != implementation_) {
        implementation_ += "," + plan->implementation;
      }
    }
    configuration_ = forward_plan_.configuration;
    if (backward_plan_.configuration != configuration_) {
      configuration_ += "; backward: " + backward_plan_.configuration;
    }
  }

  void allocate(std::int64_t uses) override {
    workspace_ = Buffer(std::max(forward_plan_.workspace_bytes, backward_plan_.workspace_bytes));
    const std::vector<LayerInputs> inputs =
        make_layer_inputs({problem_.m, problem_.n, problem_.k}, problem_.dtype, options_, 1);
    std::size_t set_bytes = 0;
    const std::int64_t count = [&] {
      operands_.push_back(quantize(inputs[0], set_bytes));
      return input_set_count(set_bytes, last_level_cache_bytes(), uses);
    }();
    while (static_cast<std::int64_t>(operands_.size()) < count) {
      operands_.push_back(quantize(inputs[0], set_bytes));
    }
    y_ = Tensor(problem_.dtype, {problem_.m, problem_.n});
    dx_ = Tensor(problem_.dtype, {problem_.m, problem_.k});
    dw_ = Tensor(problem_.dw, {problem_.n, problem_.k});
  }

  void forward(std::int64_t iteration) override {
    const Operands& set = operands(iteration);
    run(forward_state().product, {set.x, set.w, y_}, workspace());
  }

  void backward(std::int64_t iteration) override {
    const Operands& set = operands(iteration);
    run(*backward_state().dx_product, {set.dy, set.w_t, dx_}, workspace());
    run(*backward_state().dw_product, {set.dy_t, set.x_t, dw_}, workspace());
  }

 private:
  const ForwardState& forward_state() const {
    return *static_cast<const ForwardState*>(forward_plan_.state.get());
  }
  const BackwardState& backward_state() const {
    return *static_cast<const BackwardState*>(backward_plan_.state.get());
  }
  Workspace workspace() const { return {workspace_.data(), workspace_.bytes()}; }
  const Operands& operands(std::int64_t iteration) const {
    return operands_[static_cast<std::size_t>(iteration) % operands_.size()];
  }

  Operands quantize(const LayerInputs& inputs, std::size_t& bytes) const {
    const Fp8LinearSavedLayout saved = fp8_linear_saved_layout(problem_);
    const QuantizedLayout* layouts[] = {
        &forward_state().x_layout,   &forward_state().w_layout,    &saved.x_t, &saved.w_t,
        &backward_state().dy_layout, &backward_state().dy_t_layout};
    bytes = 0;
    for (const QuantizedLayout* layout : layouts) bytes += layout->bytes;
    Operands set{allocate_quantized(*layouts[0]), allocate_quantized(*layouts[1]),
                 allocate_quantized(*layouts[2]), allocate_quantized(*layouts[3]),
                 allocate_quantized(*layouts[4]), allocate_quantized(*layouts[5])};
    run(forward_state().quantize_x, {inputs.x, set.x, set.x_t}, workspace());
    run(*forward_state().quantize_w, {inputs.w, set.w, set.w_t}, workspace());
    run(backward_state().quantize_dy, {inputs.dy, set.dy, set.dy_t}, workspace());
    return set;
  }

  Fp8LinearProblem problem_;
  WorkloadOptions options_;
  Fp8LinearForwardPlan forward_plan_;
  Fp8LinearBackwardPlan backward_plan_;
  std::vector<Operands> operands_;
  Tensor y_;
  Tensor dx_;
  Tensor dw_;
  Buffer workspace_;
};

}  // namespace

std::unique_ptr<Workload> make_fp8_products(const Fp8LinearProblem& problem,
                                            const WorkloadOptions& options) {
  return std::make_unique<Fp8Products>(problem, options);
}

}  // namespace octet::bench
