#include "bench/workload.hpp"

#include <algorithm>

namespace octet::bench {
namespace {

QuantizedTensor allocate_quantized(const QuantizedLayout& layout) {
  return {layout.rows, layout.cols, layout.dtype, layout.block};
}

class Fp8Layer : public Workload {
 public:
  Fp8Layer(const Fp8LinearProblem& problem, const WorkloadOptions& options)
      : problem_(problem),
        options_(options),
        forward_(plan_fp8_linear_forward(
            problem, {options.gemm_backend, options.quantize_backend, options.threads})),
        backward_(plan_fp8_linear_backward(
            problem, {options.gemm_backend, options.quantize_backend, options.threads})) {
    implementation_ = forward_.implementation;
    if (backward_.implementation != implementation_) {
      implementation_ += " backward: " + backward_.implementation;
    }
    configuration_ = forward_.configuration;
    if (backward_.configuration != configuration_) {
      configuration_ += "; backward: " + backward_.configuration;
    }
  }

  void allocate(std::int64_t uses) override {
    inputs_ =
        make_layer_inputs({problem_.m, problem_.n, problem_.k}, problem_.dtype, options_, uses);
    const Fp8LinearSavedLayout saved = fp8_linear_saved_layout(problem_);
    x_t_ = allocate_quantized(saved.x_t);
    w_t_ = allocate_quantized(saved.w_t);
    y_ = Tensor(problem_.dtype, {problem_.m, problem_.n});
    dx_ = Tensor(problem_.dtype, {problem_.m, problem_.k});
    dw_ = Tensor(problem_.dw, {problem_.n, problem_.k});
    workspace_ = Buffer(std::max(forward_.workspace_bytes, backward_.workspace_bytes));
  }

  void forward(std::int64_t iteration) override {
    const LayerInputs& set = inputs(iteration);
    Fp8LinearForwardArgs args;
    args.x = set.x;
    args.w = set.w;
    args.y = y_;
    args.saved = {x_t_, w_t_};
    run(forward_, args, {workspace_.data(), workspace_.bytes()});
  }

  void backward(std::int64_t iteration) override {
    Fp8LinearBackwardArgs args;
    args.dy = inputs(iteration).dy;
    args.saved = {x_t_, w_t_};
    args.dx = dx_;
    args.dw = dw_;
    run(backward_, args, {workspace_.data(), workspace_.bytes()});
  }

 private:
  const LayerInputs& inputs(std::int64_t iteration) const {
    return inputs_[static_cast<std::size_t>(iteration) % inputs_.size()];
  }

  Fp8LinearProblem problem_;
  WorkloadOptions options_;
  Fp8LinearForwardPlan forward_;
  Fp8LinearBackwardPlan backward_;
  std::vector<LayerInputs> inputs_;
  QuantizedTensor x_t_;
  QuantizedTensor w_t_;
  Tensor y_;
  Tensor dx_;
  Tensor dw_;
  Buffer workspace_;
};

}  // namespace

std::unique_ptr<Workload> make_fp8_layer(const Fp8LinearProblem& problem,
                                         const WorkloadOptions& options) {
  return std::make_unique<Fp8Layer>(problem, options);
}

}  // namespace octet::bench
