// A linear layer, forward and backward: the FP8 layer, its products only, and the products of plain
// operands.
#include "bench/workloads/tensors.hpp"
#include "bench/workloads/workload.hpp"
#include "core/views.hpp"
#include "device/cuda_runtime.hpp"
#include "ops/fp8_linear/parts.hpp"

#include <algorithm>
#include <array>

namespace octet::bench {
namespace {

class LayerWorkload : public Workload {
 public:
  Task task() override {
    return {[this](std::int64_t i) { forward(i); }, [this](std::int64_t i) { backward(i); }};
  }

 protected:
  LayerWorkload(const Fp8LinearProblem& problem, const DataOptions& options)
      : problem_(problem), options_(options) {}

  virtual void forward(std::int64_t iteration) = 0;
  virtual void backward(std::int64_t iteration) = 0;

  std::size_t inputs_bytes() const { return LayerInputs::bytes(problem_, problem_.dtype); }
  std::size_t outputs_bytes() const { return LayerOutputs::bytes(problem_, workspace_bytes()); }
  void make_outputs() {
    require_free(bytes(), free_bytes(problem_.device), problem_.device);
    outputs_ = LayerOutputs(problem_, workspace_bytes());
    if (!problem_.bias_dtype) return;
    bias_ = Tensor(*problem_.bias_dtype, {problem_.n}, problem_.device);
    fill_input(as_row(bias_), options_, 3);
  }
  Workspace workspace() const { return outputs_.scratch(); }

  // "gemm=cpu_simd", followed by those of dx and dw if they differ.
  static std::string implementations(const GemmPlan& y, const GemmPlan& dx, const GemmPlan& dw) {
    std::string result = "gemm=" + y.implementation;
    for (const GemmPlan* plan : {&dx, &dw}) {
      if (plan->implementation != y.implementation) result += "," + plan->implementation;
    }
    return result;
  }

  Fp8LinearProblem problem_;
  DataOptions options_;
  LayerOutputs outputs_;
  Tensor bias_;  // [N], if the layer has one
};

// The plans of the FP8 layer.
class Fp8Workload : public LayerWorkload {
 public:
  Fp8Workload(const Fp8LinearProblem& problem, const DataOptions& options)
      : LayerWorkload(problem, options),
        forward_(plan_fp8_linear_forward(problem, backends())),
        backward_(plan_fp8_linear_backward(problem, backends())),
        saved_(fp8_linear_saved_layout(problem)) {
    calls_ = {{forward_.implementation, forward_.configuration, forward_.workspace_bytes},
              {backward_.implementation, backward_.configuration, backward_.workspace_bytes}};
  }

 protected:
  Fp8LinearForwardPlan forward_;
  Fp8LinearBackwardPlan backward_;
  Fp8LinearSavedLayout saved_;

 private:
  Fp8LinearOptions backends() const {
    return {options_.backend, options_.quantize_backend, options_.threads};
  }
};

class Fp8Layer : public Fp8Workload {
 public:
  using Fp8Workload::Fp8Workload;

  std::string implementation() const override {
    return forward_.implementation == backward_.implementation
               ? forward_.implementation
               : forward_.implementation + " backward: " + backward_.implementation;
  }

  std::size_t bytes() const override { return inputs_bytes() + saved_bytes() + outputs_bytes(); }

  void allocate(std::int64_t uses) override {
    make_outputs();
    const Device device = problem_.device;
    const std::size_t dy_bytes = tensor_bytes(problem_.dtype, {problem_.m, problem_.n});
    const std::int64_t sets =
        input_set_count(std::min(inputs_bytes() - dy_bytes, dy_bytes + saved_bytes()),
                        inputs_bytes() + saved_bytes(), device, uses);
    inputs_ = make_layer_inputs(problem_, options_, sets);
    for (std::int64_t i = 0; i < sets; ++i) {
      kept_.push_back(
          {allocate_quantized(saved_.x_t, device), allocate_quantized(saved_.w_t, device)});
    }
  }

 private:
  // The views that forward saves for backward belong to a set of inputs, or backward would read
  // them from the cache.
  struct Saved {
    QuantizedTensor x_t;
    QuantizedTensor w_t;
  };

  void forward(std::int64_t iteration) override {
    const std::size_t set = static_cast<std::size_t>(iteration) % inputs_.size();
    Fp8LinearForwardArgs args;
    args.x = inputs_[set].x;
    args.w = inputs_[set].w;
    args.y = outputs_.y;
    args.saved = {kept_[set].x_t, kept_[set].w_t};
    args.bias = bias_;
    run(forward_, args, workspace(), stream_);
  }

  void backward(std::int64_t iteration) override {
    const std::size_t set = static_cast<std::size_t>(iteration) % inputs_.size();
    Fp8LinearBackwardArgs args;
    args.dy = inputs_[set].dy;
    args.saved = {kept_[set].x_t, kept_[set].w_t};
    args.dx = outputs_.dx;
    args.dw = outputs_.dw;
    args.dbias = outputs_.dbias;
    run(backward_, args, workspace(), stream_);
  }

  std::size_t saved_bytes() const { return saved_.x_t.bytes + saved_.w_t.bytes; }

  std::vector<LayerInputs> inputs_;
  std::vector<Saved> kept_;  // one per set
};

// The layer's own product plans, run without its casts.
class Fp8Products : public Fp8Workload {
 public:
  using Fp8Workload::Fp8Workload;

  std::string implementation() const override {
    return implementations(forward_state().product, *backward_state().dx_product,
                           *backward_state().dw_product);
  }

  // The inputs exist until their copies are made.
  std::size_t bytes() const override { return inputs_bytes() + set_bytes() + outputs_bytes(); }

  void allocate(std::int64_t uses) override {
    make_outputs();
    const Device device = problem_.device;
    const std::vector<LayerInputs> inputs = make_layer_inputs(problem_, options_, 1);
    const std::size_t forward_bytes =
        forward_state().x_layout.bytes + forward_state().w_layout.bytes;
    const std::int64_t sets = input_set_count(std::min(forward_bytes, set_bytes() - forward_bytes),
                                              set_bytes(), device, uses);
    for (std::int64_t i = 0; i < sets; ++i) operands_.push_back(quantize(inputs[0]));
    // The inputs are released here: the casts must have read them.
    if (device.type == DeviceType::cuda) cuda::synchronize(device.index);
  }

 private:
  struct Operands {
    QuantizedTensor x;     // [M, K] 1x128
    QuantizedTensor w;     // [N, K] 128x128
    QuantizedTensor x_t;   // [K, M] 1x128 or 128x128
    QuantizedTensor w_t;   // [K, N] 128x128
    QuantizedTensor dy;    // [M, N] 1x128
    QuantizedTensor dy_t;  // [N, M] 1x128
  };

  void forward(std::int64_t iteration) override {
    const Operands& set = operands(iteration);
    run(forward_state().product, {set.x, set.w, outputs_.y, bias_}, workspace(), stream_);
  }

  void backward(std::int64_t iteration) override {
    const Operands& set = operands(iteration);
    run(*backward_state().dx_product, {set.dy, set.w_t, outputs_.dx}, workspace(), stream_);
    run(*backward_state().dw_product, {set.dy_t, set.x_t, outputs_.dw}, workspace(), stream_);
  }

  const Fp8LinearForwardState& forward_state() const {
    return *static_cast<const Fp8LinearForwardState*>(forward_.state.get());
  }
  const Fp8LinearBackwardState& backward_state() const {
    return *static_cast<const Fp8LinearBackwardState*>(backward_.state.get());
  }
  const Operands& operands(std::int64_t iteration) const {
    return operands_[static_cast<std::size_t>(iteration) % operands_.size()];
  }

  // In the order of Operands.
  std::array<QuantizedLayout, 6> layouts() const {
    return {forward_state().x_layout,   forward_state().w_layout,    saved_.x_t, saved_.w_t,
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
    run(*backward_state().quantize_dy, {inputs.dy, set.dy, set.dy_t}, workspace(), stream_);
    return set;
  }

  std::vector<Operands> operands_;
};

// y = x w^T, dx = dy w with w^T a view of w, dw = dy^T x with both operands views.
class PlainProducts : public LayerWorkload {
 public:
  PlainProducts(const Fp8LinearProblem& problem, const DataOptions& options)
      : LayerWorkload(problem, options) {
    const LinearProducts products = plain_products(problem);
    y_ = plan_gemm(products.y, {options.backend, options.threads});
    dx_ = plan_gemm(products.dx, {options.backend, options.threads});
    dw_ = plan_gemm(products.dw, {options.backend, options.threads});
    calls_ = {{y_.implementation, y_.configuration, y_.workspace_bytes},
              {dx_.implementation, dx_.configuration,
               std::max(dx_.workspace_bytes, dw_.workspace_bytes)}};
  }

  std::string implementation() const override { return implementations(y_, dx_, dw_); }
  std::string configuration() const override {
    std::string result = y_.configuration;
    for (const GemmPlan* plan : {&dx_, &dw_}) {
      if (plan->configuration != y_.configuration) result += "; " + plan->configuration;
    }
    return result;
  }

  std::size_t bytes() const override { return inputs_bytes() + outputs_bytes(); }

  void allocate(std::int64_t uses) override {
    make_outputs();
    const auto& [m, n, k, dtype] = std::tie(problem_.m, problem_.n, problem_.k, problem_.dtype);
    const std::size_t forward_bytes =
        tensor_bytes(dtype, {m, k}) + tensor_bytes(dtype, {n, k});  // backward reads dy as well
    inputs_ = make_layer_inputs(
        problem_, options_, input_set_count(forward_bytes, inputs_bytes(), problem_.device, uses));
  }

 private:
  void forward(std::int64_t iteration) override {
    const LayerInputs& set = inputs(iteration);
    run(y_, {set.x.view(), set.w.view(), outputs_.y, bias_}, workspace(), stream_);
  }

  void backward(std::int64_t iteration) override {
    const LayerInputs& set = inputs(iteration);
    run(dx_, {set.dy.view(), transposed(set.w), outputs_.dx}, workspace(), stream_);
    run(dw_, {transposed(set.dy), transposed(set.x), outputs_.dw}, workspace(), stream_);
  }

  const LayerInputs& inputs(std::int64_t iteration) const {
    return inputs_[static_cast<std::size_t>(iteration) % inputs_.size()];
  }

  GemmPlan y_;
  GemmPlan dx_;
  GemmPlan dw_;
  std::vector<LayerInputs> inputs_;
};

}  // namespace

std::unique_ptr<Workload> make_workload(const Fp8LinearProblem& problem,
                                        const DataOptions& options) {
  return std::make_unique<Fp8Layer>(problem, options);
}

std::unique_ptr<Workload> make_fp8_products(const Fp8LinearProblem& problem,
                                            const DataOptions& options) {
  return std::make_unique<Fp8Products>(problem, options);
}

std::unique_ptr<Workload> make_plain_products(const Fp8LinearProblem& problem,
                                              const DataOptions& options) {
  return std::make_unique<PlainProducts>(problem, options);
}

}  // namespace octet::bench
