// Linear layers over groups of rows, forward and backward: the FP8 layer, its products only, and the
// products of plain operands.
#include "bench/workloads/tensors.hpp"
#include "bench/workloads/workload.hpp"
#include "core/views.hpp"
#include "device/cuda_runtime.hpp"
#include "ops/fp8_grouped_linear/parts.hpp"

#include <algorithm>
#include <utility>

namespace octet::bench {
namespace {

using Problem = Fp8GroupedLinearProblem;

// [groups, rows, cols], filled as one matrix.
Tensor random_batch(Dtype dtype, std::int64_t groups, std::int64_t rows, std::int64_t cols,
                    const DataOptions& options, std::uint32_t stream, Device device) {
  Tensor batch(dtype, {groups, rows, cols}, device);
  fill_input(make_matrix(batch.data(), dtype, groups * rows, cols, cols, device), options, stream);
  return batch;
}

struct Inputs {
  Tensor x;   // [T, K]
  Tensor w;   // [groups, N, K]
  Tensor dy;  // [T, N]

  Inputs(const Problem& p, const DataOptions& options)
      : x(p.dtype, {p.rows, p.k}, p.device),
        w(random_batch(p.dtype, p.groups, p.n, p.k, options, 1, p.device)),
        dy(p.dtype, {p.rows, p.n}, p.device) {
    fill_input(x, options, 0);
    fill_input(dy, options, 2);
  }
  static std::size_t bytes(const Problem& p) {
    return tensor_bytes(p.dtype, {p.rows, p.k}) + tensor_bytes(p.dtype, {p.groups, p.n, p.k}) +
           tensor_bytes(p.dtype, {p.rows, p.n});
  }
};

struct Outputs {
  Tensor y;   // [T, N]
  Tensor dx;  // [T, K]
  Tensor dw;  // [groups, N, K]
  Buffer workspace;

  Outputs() = default;
  Outputs(const Problem& p, std::size_t workspace_bytes)
      : y(p.dtype, {p.rows, p.n}, p.device),
        dx(p.dtype, {p.rows, p.k}, p.device),
        dw(p.dw_dtype, {p.groups, p.n, p.k}, p.device),
        workspace(workspace_bytes, p.device) {}
  static std::size_t bytes(const Problem& p, std::size_t workspace_bytes) {
    return tensor_bytes(p.dtype, {p.rows, p.n}) + tensor_bytes(p.dtype, {p.rows, p.k}) +
           tensor_bytes(p.dw_dtype, {p.groups, p.n, p.k}) + workspace_bytes;
  }
};

// "grouped_gemm=cpu_simd", followed by those of dx and dw if they differ.
std::string implementations(const GroupedGemmPlan& y, const GroupedGemmPlan& dx,
                            const GroupedGemmPlan& dw) {
  std::string result = "grouped_gemm=" + y.implementation;
  for (const GroupedGemmPlan* plan : {&dx, &dw}) {
    if (plan->implementation != y.implementation) result += "," + plan->implementation;
  }
  return result;
}

class GroupedWorkload : public Workload {
 public:
  Task task() override {
    return {[this](std::int64_t i) { forward(set_of(i)); },
            [this](std::int64_t i) { backward(set_of(i)); }};
  }

  std::size_t bytes() const override {
    return set_bytes() + Outputs::bytes(problem_, workspace_bytes());
  }

  void allocate(std::int64_t uses) override {
    require_free(bytes(), free_bytes(problem_.device), problem_.device);
    outputs_ = Outputs(problem_, workspace_bytes());
    table_ = make_group_table(
        group_sizes(options_.group_spread, problem_.groups, problem_.rows, options_.seed),
        problem_.rows, problem_.device);
    // Weights are what every call reads most of.
    sets_ = input_set_count(tensor_bytes(problem_.dtype, {problem_.groups, problem_.n, problem_.k}),
                            set_bytes(), problem_.device, uses);
    for (std::int64_t i = 0; i < sets_; ++i) add_set();
    if (problem_.device.type == DeviceType::cuda) cuda::synchronize(problem_.device.index);
  }

 protected:
  GroupedWorkload(const Problem& problem, const DataOptions& options)
      : problem_(problem), options_(options) {}

  virtual std::size_t set_bytes() const = 0;
  virtual void add_set() = 0;
  virtual void forward(std::size_t set) = 0;
  virtual void backward(std::size_t set) = 0;

  std::size_t set_of(std::int64_t iteration) const {
    return static_cast<std::size_t>(iteration % sets_);
  }
  Workspace workspace() const { return {outputs_.workspace.data(), outputs_.workspace.bytes()}; }

  Problem problem_;
  DataOptions options_;
  Outputs outputs_;
  Tensor table_;
  std::int64_t sets_ = 0;
};

// The plans of the FP8 layers.
class Fp8GroupedWorkload : public GroupedWorkload {
 public:
  Fp8GroupedWorkload(const Problem& problem, const DataOptions& options)
      : GroupedWorkload(problem, options),
        forward_(plan_fp8_grouped_linear_forward(problem, backends())),
        backward_(plan_fp8_grouped_linear_backward(problem, backends())) {
    calls_ = {{forward_.implementation, forward_.configuration, forward_.workspace_bytes},
              {backward_.implementation, backward_.configuration, backward_.workspace_bytes}};
  }

 protected:
  Fp8GroupedLinearForwardPlan forward_;
  Fp8GroupedLinearBackwardPlan backward_;

 private:
  Fp8LinearOptions backends() const {
    return {options_.backend, options_.quantize_backend, options_.threads};
  }
};

class Fp8GroupedLayer : public Fp8GroupedWorkload {
 public:
  Fp8GroupedLayer(const Problem& problem, const DataOptions& options)
      : Fp8GroupedWorkload(problem, options),
        saved_(fp8_grouped_linear_saved_layout(problem)),
        weights_(fp8_grouped_linear_weights_layout(problem)) {}

  std::string implementation() const override {
    return forward_.implementation == backward_.implementation
               ? forward_.implementation
               : forward_.implementation + " backward: " + backward_.implementation;
  }

 private:
  struct Set {
    Inputs inputs;
    QuantizedTensor x_t;
    QuantizedTensor w_t;
    QuantizedTensor w;  // if quantised ahead of time
  };

  std::size_t set_bytes() const override {
    return Inputs::bytes(problem_) + saved_.x_t.bytes +
           (problem_.weights_quantized ? weights_.w.bytes + weights_.w_t.bytes : saved_.w_t.bytes);
  }

  void add_set() override {
    const Device device = problem_.device;
    Set set{Inputs(problem_, options_), QuantizedTensor(saved_.x_t, device), {}, {}};
    if (problem_.weights_quantized) {
      set.w = QuantizedTensor(weights_.w, device);
      set.w_t = QuantizedTensor(weights_.w_t, device);
      const QuantizePlan cast =
          plan_quantize(cast_of_w(problem_), {options_.quantize_backend, options_.threads});
      const Buffer scratch(cast.workspace_bytes, device);
      run(cast, {set.inputs.w, set.w, set.w_t}, {scratch.data(), scratch.bytes()}, stream_);
      if (device.type == DeviceType::cuda) cuda::synchronize(device.index);
    } else {
      set.w_t = QuantizedTensor(saved_.w_t, device);
    }
    data_.push_back(std::move(set));
  }

  void forward(std::size_t index) override {
    const Set& set = data_[index];
    Fp8GroupedLinearForwardArgs args;
    args.x = set.inputs.x;
    args.w = set.inputs.w;
    args.weights = {set.w, set.w_t};
    args.y = outputs_.y;
    args.saved = {set.x_t, set.w_t};
    args.table = table_;
    run(forward_, args, workspace(), stream_);
  }

  void backward(std::size_t index) override {
    const Set& set = data_[index];
    Fp8GroupedLinearBackwardArgs args;
    args.dy = set.inputs.dy;
    args.saved = {set.x_t, set.w_t};
    args.dx = outputs_.dx;
    args.dw = outputs_.dw;
    args.table = table_;
    run(backward_, args, workspace(), stream_);
  }

  Fp8GroupedLinearSavedLayout saved_;
  Fp8GroupedLinearWeightsLayout weights_;
  std::vector<Set> data_;
};

// The layers' own product plans, run without their casts.
class Fp8GroupedProducts : public Fp8GroupedWorkload {
 public:
  using Fp8GroupedWorkload::Fp8GroupedWorkload;

  std::string implementation() const override {
    return implementations(forward_state().product, *backward_state().dx_product,
                           *backward_state().dw_product);
  }

 private:
  struct Set {
    QuantizedTensor x;     // [T, K]
    QuantizedTensor x_t;   // token blocks
    QuantizedTensor w;     // [groups, N, K]
    QuantizedTensor w_t;   // [groups, K, N]
    QuantizedTensor dy;    // [T, N]
    QuantizedTensor dy_t;  // token blocks
  };

  const Fp8GroupedLinearForwardState& forward_state() const {
    return *static_cast<const Fp8GroupedLinearForwardState*>(forward_.state.get());
  }
  const Fp8GroupedLinearBackwardState& backward_state() const {
    return *static_cast<const Fp8GroupedLinearBackwardState*>(backward_.state.get());
  }

  std::size_t set_bytes() const override {
    const GroupedCopies x = copies_of(forward_state().quantize_x.problem);
    const Fp8GroupedLinearWeightsLayout w = fp8_grouped_linear_weights_layout(problem_);
    const GroupedCopies& dy = backward_state().dy;
    return x.rows.bytes + x.token_blocks.bytes + w.w.bytes + w.w_t.bytes + dy.rows.bytes +
           dy.token_blocks.bytes + Inputs::bytes(problem_);  // until the copies are made
  }

  void add_set() override {
    const Device device = problem_.device;
    const Inputs inputs(problem_, options_);
    const auto rows = [&](const GroupedCopies& copies) {
      return allocate_quantized(copies.rows, device);
    };
    const auto blocks = [&](const QuantizedBatchLayout& layout) {
      return QuantizedTensor(layout, device);
    };
    const GroupedCopies x = copies_of(forward_state().quantize_x.problem);
    const GroupedCopies& dy = backward_state().dy;
    const Fp8GroupedLinearWeightsLayout w = fp8_grouped_linear_weights_layout(problem_);
    Set set{rows(x),  blocks(x.token_blocks), blocks(w.w), blocks(w.w_t),
            rows(dy), blocks(dy.token_blocks)};
    const QuantizePlan cast_w =
        plan_quantize(cast_of_w(problem_), {options_.quantize_backend, options_.threads});
    const Buffer scratch(cast_w.workspace_bytes, device);
    run(forward_state().quantize_x, {inputs.x, set.x, set.x_t, table_}, workspace(), stream_);
    run(cast_w, {inputs.w, set.w, set.w_t}, {scratch.data(), scratch.bytes()}, stream_);
    run(backward_state().quantize_dy, {inputs.dy, set.dy, set.dy_t, table_}, workspace(), stream_);
    // The inputs are released here: the casts must have read them.
    if (device.type == DeviceType::cuda) cuda::synchronize(device.index);
    data_.push_back(std::move(set));
  }

  void forward(std::size_t index) override {
    const Set& set = data_[index];
    run(forward_state().product, {set.x, set.w, outputs_.y, table_}, workspace(), stream_);
  }

  void backward(std::size_t index) override {
    const Set& set = data_[index];
    run(*backward_state().dx_product, {set.dy, set.w_t, outputs_.dx, table_}, workspace(), stream_);
    run(*backward_state().dw_product, {set.dy_t, set.x_t, outputs_.dw, table_}, workspace(),
        stream_);
  }

  std::vector<Set> data_;
};

// y = x w_g^T, dx = dy w_g with w_g^T a view of w_g, dw_g = dy_g^T x_g.
class PlainGroupedProducts : public GroupedWorkload {
 public:
  PlainGroupedProducts(const Problem& problem, const DataOptions& options)
      : GroupedWorkload(problem, options) {
    const GroupedLinearProducts products = plain_products(problem);
    y_ = plan_grouped_gemm(products.y, {options.backend, options.threads});
    dx_ = plan_grouped_gemm(products.dx, {options.backend, options.threads});
    dw_ = plan_grouped_gemm(products.dw, {options.backend, options.threads});
    calls_ = {{y_.implementation, y_.configuration, y_.workspace_bytes},
              {dx_.implementation, dx_.configuration,
               std::max(dx_.workspace_bytes, dw_.workspace_bytes)}};
  }

  std::string implementation() const override { return implementations(y_, dx_, dw_); }

 private:
  std::size_t set_bytes() const override { return Inputs::bytes(problem_); }
  void add_set() override { data_.emplace_back(problem_, options_); }

  void forward(std::size_t index) override {
    const Inputs& set = data_[index];
    run(y_, {set.x.view(), set.w.view(), outputs_.y, table_}, workspace(), stream_);
  }

  void backward(std::size_t index) override {
    const Inputs& set = data_[index];
    TensorView w_t = set.w;  // [groups, K, N]
    std::swap(w_t.shape[1], w_t.shape[2]);
    std::swap(w_t.strides[1], w_t.strides[2]);
    run(dx_, {set.dy.view(), w_t, outputs_.dx, table_}, workspace(), stream_);
    run(dw_, {set.dy.view(), set.x.view(), outputs_.dw, table_}, workspace(), stream_);
  }

  GroupedGemmPlan y_;
  GroupedGemmPlan dx_;
  GroupedGemmPlan dw_;
  std::vector<Inputs> data_;
};

}  // namespace

std::unique_ptr<Workload> make_workload(const Fp8GroupedLinearProblem& problem,
                                        const DataOptions& options) {
  return std::make_unique<Fp8GroupedLayer>(problem, options);
}

std::unique_ptr<Workload> make_fp8_products(const Fp8GroupedLinearProblem& problem,
                                            const DataOptions& options) {
  return std::make_unique<Fp8GroupedProducts>(problem, options);
}

std::unique_ptr<Workload> make_plain_products(const Fp8GroupedLinearProblem& problem,
                                              const DataOptions& options) {
  return std::make_unique<PlainGroupedProducts>(problem, options);
}

}  // namespace octet::bench
