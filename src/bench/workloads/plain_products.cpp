#include "bench/workloads/memory.hpp"
#include "bench/workloads/workload.hpp"
#include "ops/fp8_linear/parts.hpp"

#include <algorithm>

namespace octet::bench {
namespace {

class PlainProducts : public Workload {
 public:
  PlainProducts(const LayerProducts& products, const WorkloadOptions& options)
      : options_(options),
        forward_(plan_gemm(products.forward, {options.gemm_backend, options.threads})),
        dx_plan_(plan_gemm(products.dx, {options.gemm_backend, options.threads})),
        dw_plan_(plan_gemm(products.dw, {options.gemm_backend, options.threads})) {
    implementation_ = "gemm=" + forward_.implementation;
    configuration_ = forward_.configuration;
    for (const GemmPlan* plan : {&dx_plan_, &dw_plan_}) {
      if (plan->implementation != forward_.implementation) {
        implementation_ += "," + plan->implementation;
      }
      if (plan->configuration != forward_.configuration) {
        configuration_ += "; " + plan->configuration;
      }
    }
  }

  std::size_t bytes() const override {
    const auto [m, n, k] = shape();
    return LayerInputs::bytes(shape(), forward_.problem.a.dtype) +
           tensor_bytes(forward_.problem.out, {m, n}) + tensor_bytes(dx_plan_.problem.out, {m, k}) +
           tensor_bytes(dw_plan_.problem.out, {n, k}) + workspace_bytes();
  }

  void allocate(std::int64_t uses) override {
    const auto [m, n, k] = shape();
    const Device device = forward_.problem.device;
    const Dtype dtype = forward_.problem.a.dtype;
    require_free(bytes(), free_bytes(device), device);
    y_ = Tensor(forward_.problem.out, {m, n}, device);
    dx_ = Tensor(dx_plan_.problem.out, {m, k}, device);
    dw_ = Tensor(dw_plan_.problem.out, {n, k}, device);
    workspace_ = Buffer(workspace_bytes(), device);
    const std::size_t forward_bytes =
        tensor_bytes(dtype, {m, k}) + tensor_bytes(dtype, {n, k});  // backward reads dy as well
    const std::int64_t sets =
        input_set_count(forward_bytes, LayerInputs::bytes(shape(), dtype), device, uses);
    inputs_ = make_layer_inputs(shape(), dtype, device, options_, sets);
  }

  void forward(std::int64_t iteration) override {
    const LayerInputs& set = inputs(iteration);
    run(forward_, {set.x.view(), set.w.view(), y_}, workspace(), stream_);
  }

  void backward(std::int64_t iteration) override {
    const LayerInputs& set = inputs(iteration);
    run(dx_plan_, {set.dy.view(), transposed(set.w), dx_}, workspace(), stream_);
    run(dw_plan_, {transposed(set.dy), transposed(set.x), dw_}, workspace(), stream_);
  }

 private:
  LayerShape shape() const { return {forward_.problem.m, forward_.problem.n, forward_.problem.k}; }
  std::size_t workspace_bytes() const {
    return std::max({forward_.workspace_bytes, dx_plan_.workspace_bytes, dw_plan_.workspace_bytes});
  }
  Workspace workspace() const { return {workspace_.data(), workspace_.bytes()}; }
  const LayerInputs& inputs(std::int64_t iteration) const {
    return inputs_[static_cast<std::size_t>(iteration) % inputs_.size()];
  }

  WorkloadOptions options_;
  GemmPlan forward_;
  GemmPlan dx_plan_;
  GemmPlan dw_plan_;
  std::vector<LayerInputs> inputs_;
  Tensor y_;
  Tensor dx_;
  Tensor dw_;
  Buffer workspace_;
};

}  // namespace

LayerProducts plain_layer_products(const LayerShape& shape, Dtype dtype, Dtype dw,
                                   bool accumulate_dw, Device device) {
  Fp8LinearProblem layer;
  layer.m = shape.m;
  layer.n = shape.n;
  layer.k = shape.k;
  layer.dtype = dtype;
  layer.dw = dw;
  layer.accumulate_dw = accumulate_dw;
  layer.device = device;
  const LinearProducts products = plain_products(layer);
  return {products.y, products.dx, products.dw};
}

std::unique_ptr<Workload> make_plain_products(const LayerProducts& products,
                                              const WorkloadOptions& options) {
  return std::make_unique<PlainProducts>(products, options);
}

}  // namespace octet::bench
