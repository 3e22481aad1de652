// The products of the layer alone: the very plans of the layer, taken out of it.
#include "bench/workloads/layer_outputs.hpp"
#include "bench/workloads/workload.hpp"
#include "device/cuda_runtime.hpp"
#include "ops/fp8_linear/state.hpp"

#include <algorithm>
#include <array>

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

  // The inputs are there until their copies are made.
  std::size_t bytes() const override {
    return LayerInputs::bytes(shape(), problem_.dtype) + set_bytes() +
           LayerOutputs::bytes(problem_, workspace_bytes());
  }

  void allocate(std::int64_t uses) override {
    const Device device = problem_.device;
    require_free(bytes(), free_bytes(device), device);
    outputs_ = LayerOutputs(problem_, workspace_bytes());
    const std::vector<LayerInputs> inputs =
        make_layer_inputs(shape(), problem_.dtype, device, options_, 1);
    const std::size_t forward_bytes =
        forward_state().x_layout.bytes + forward_state().w_layout.bytes;
    const std::int64_t sets = input_set_count(std::min(forward_bytes, set_bytes() - forward_bytes),
                                              set_bytes(), device, uses);
    for (std::int64_t i = 0; i < sets; ++i) operands_.push_back(quantize(inputs[0]));
    // The inputs are released here: the casts must have read them.
    if (device.type == DeviceType::cuda) cuda::synchronize(device.index);
  }

  void forward(std::int64_t iteration) override {
    const Operands& set = operands(iteration);
    run(forward_state().product, {set.x, set.w, outputs_.y}, workspace(), stream_);
  }

  void backward(std::int64_t iteration) override {
    const Operands& set = operands(iteration);
    run(*backward_state().dx_product, {set.dy, set.w_t, outputs_.dx}, workspace(), stream_);
    run(*backward_state().dw_product, {set.dy_t, set.x_t, outputs_.dw}, workspace(), stream_);
  }

 private:
  const ForwardState& forward_state() const {
    return *static_cast<const ForwardState*>(forward_plan_.state.get());
  }
  const BackwardState& backward_state() const {
    return *static_cast<const BackwardState*>(backward_plan_.state.get());
  }
  LayerShape shape() const { return {problem_.m, problem_.n, problem_.k}; }
  std::size_t workspace_bytes() const {
    return std::max(forward_plan_.workspace_bytes, backward_plan_.workspace_bytes);
  }
  Workspace workspace() const { return outputs_.scratch(); }
  const Operands& operands(std::int64_t iteration) const {
    return operands_[static_cast<std::size_t>(iteration) % operands_.size()];
  }

  // In the order of Operands.
  std::array<QuantizedLayout, 6> layouts() const {
    const Fp8LinearSavedLayout saved = fp8_linear_saved_layout(problem_);
    return {forward_state().x_layout,   forward_state().w_layout,    saved.x_t, saved.w_t,
            backward_state().dy_layout, backward_state().dy_t_layout};
  }
  std::size_t set_bytes() const {
    std::size_t bytes = 0;
    for (const QuantizedLayout& layout : layouts()) bytes += layout.bytes;
    return bytes;
  }

  Operands quantize(const LayerInputs& inputs) const {
    const auto made = [&, all = layouts()](std::size_t i) {
      return allocate_quantized(all[i], problem_.device);
    };
    Operands set{made(0), made(1), made(2), made(3), made(4), made(5)};
    run(forward_state().quantize_x, {inputs.x, set.x, set.x_t}, workspace(), stream_);
    run(*forward_state().quantize_w, {inputs.w, set.w, set.w_t}, workspace(), stream_);
    run(backward_state().quantize_dy, {inputs.dy, set.dy, set.dy_t}, workspace(), stream_);
    return set;
  }

  Fp8LinearProblem problem_;
  WorkloadOptions options_;
  Fp8LinearForwardPlan forward_plan_;
  Fp8LinearBackwardPlan backward_plan_;
  std::vector<Operands> operands_;
  LayerOutputs outputs_;
};

}  // namespace

std::unique_ptr<Workload> make_fp8_products(const Fp8LinearProblem& problem,
                                            const WorkloadOptions& options) {
  return std::make_unique<Fp8Products>(problem, options);
}

}  // namespace octet::bench
