#include "bench/workloads/layer_outputs.hpp"
#include "bench/workloads/workload.hpp"

#include <algorithm>

namespace octet::bench {
namespace {

// What forward leaves for backward belongs to a set of inputs, or backward would read it from the
// cache.
struct Saved {
  QuantizedTensor x_t;
  QuantizedTensor w_t;
};

class Fp8Layer : public Workload {
 public:
  Fp8Layer(const Fp8LinearProblem& problem, const WorkloadOptions& options)
      : problem_(problem),
        options_(options),
        forward_(plan_fp8_linear_forward(
            problem, {options.gemm_backend, options.quantize_backend, options.threads})),
        backward_(plan_fp8_linear_backward(
            problem, {options.gemm_backend, options.quantize_backend, options.threads})),
        saved_(fp8_linear_saved_layout(problem)) {
    implementation_ = forward_.implementation;
    if (backward_.implementation != implementation_) {
      implementation_ += " backward: " + backward_.implementation;
    }
    configuration_ = forward_.configuration;
    if (backward_.configuration != configuration_) {
      configuration_ += "; backward: " + backward_.configuration;
    }
  }

  std::size_t bytes() const override {
    return LayerInputs::bytes(shape(), problem_.dtype) + saved_.x_t.bytes + saved_.w_t.bytes +
           LayerOutputs::bytes(problem_, workspace_bytes());
  }

  void allocate(std::int64_t uses) override {
    const Device device = problem_.device;
    require_free(bytes(), free_bytes(device), device);
    outputs_ = LayerOutputs(problem_, workspace_bytes());

    const std::size_t dy_bytes = tensor_bytes(problem_.dtype, {problem_.m, problem_.n});
    const std::size_t inputs_bytes = LayerInputs::bytes(shape(), problem_.dtype);
    const std::size_t saved_bytes = saved_.x_t.bytes + saved_.w_t.bytes;
    const std::int64_t sets =
        input_set_count(std::min(inputs_bytes - dy_bytes, dy_bytes + saved_bytes),
                        inputs_bytes + saved_bytes, device, uses);
    inputs_ = make_layer_inputs(shape(), problem_.dtype, device, options_, sets);
    for (std::int64_t i = 0; i < sets; ++i) {
      kept_.push_back(
          {allocate_quantized(saved_.x_t, device), allocate_quantized(saved_.w_t, device)});
    }
  }

  void forward(std::int64_t iteration) override {
    const std::size_t set = static_cast<std::size_t>(iteration) % inputs_.size();
    Fp8LinearForwardArgs args;
    args.x = inputs_[set].x;
    args.w = inputs_[set].w;
    args.y = outputs_.y;
    args.saved = {kept_[set].x_t, kept_[set].w_t};
    run(forward_, args, outputs_.scratch(), stream_);
  }

  void backward(std::int64_t iteration) override {
    const std::size_t set = static_cast<std::size_t>(iteration) % inputs_.size();
    Fp8LinearBackwardArgs args;
    args.dy = inputs_[set].dy;
    args.saved = {kept_[set].x_t, kept_[set].w_t};
    args.dx = outputs_.dx;
    args.dw = outputs_.dw;
    run(backward_, args, outputs_.scratch(), stream_);
  }

 private:
  LayerShape shape() const { return {problem_.m, problem_.n, problem_.k}; }
  std::size_t workspace_bytes() const {
    return std::max(forward_.workspace_bytes, backward_.workspace_bytes);
  }

  Fp8LinearProblem problem_;
  WorkloadOptions options_;
  Fp8LinearForwardPlan forward_;
  Fp8LinearBackwardPlan backward_;
  Fp8LinearSavedLayout saved_;
  std::vector<LayerInputs> inputs_;
  std::vector<Saved> kept_;  // one of each set
  LayerOutputs outputs_;
};

}  // namespace

std::unique_ptr<Workload> make_fp8_layer(const Fp8LinearProblem& problem,
                                         const WorkloadOptions& options) {
  return std::make_unique<Fp8Layer>(problem, options);
}

}  // namespace octet::bench
