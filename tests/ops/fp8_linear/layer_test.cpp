// The layer gives the same bits as quantize and gemm called one by one, in every variant.
#include <gtest/gtest.h>

#include "core/numeric.hpp"
#include "device/cuda_runtime.hpp"
#include "ops/fp8_linear/parts.hpp"
#include "ops/fp8_linear/random_tensor.hpp"

#include <octet/octet.hpp>

#include <cmath>
#include <cstring>

namespace octet::testing {
namespace {

bool equal(const Tensor& x, const Tensor& y) {
  return x.bytes() == y.bytes() && std::memcmp(x.data(), y.data(), x.bytes()) == 0;
}

void multiply(const QuantizedView& a, const QuantizedView& b, const TensorView& d) {
  GemmProblem problem{.m = a.values.rows(),
                      .n = b.values.rows(),
                      .k = a.values.cols(),
                      .a = {a.values.dtype, a.block},
                      .b = {b.values.dtype, b.block},
                      .out_dtype = d.dtype};
  const GemmPlan plan = plan_gemm(problem);
  const Buffer workspace(plan.workspace_bytes);
  run(plan, {a, b, d}, {workspace.data(), workspace.bytes()});
}

struct BothWays {
  QuantizedTensor out;
  QuantizedTensor transposed;

  BothWays(const Tensor& input, Dtype format, BlockShape block, BlockShape transposed_block,
           const Fp8LinearProblem& layer = {})
      : out(input.view().rows(), input.view().cols(), format, block),
        transposed(input.view().cols(), input.view().rows(), format, transposed_block) {
    QuantizeProblem problem{.rows = input.view().rows(),
                            .cols = input.view().cols(),
                            .format = format,
                            .block = block,
                            .transposed_block = transposed_block,
                            .pow2_scales = layer.pow2_scales};
    problem.fold_mx = layer.granularity == Granularity::mxfp8;
    problem.mx_scale = layer.mx_scale;
    const QuantizePlan plan = plan_quantize(problem);
    const Buffer workspace(plan.workspace_bytes);
    run(plan, {input, out, transposed}, {workspace.data(), workspace.bytes()});
  }
};

// The blocks of a layer's operands.
struct Blocks {
  BlockShape activations = kBlock1x128;
  BlockShape weights = kBlock128x128;
  BlockShape x_t = kBlock1x128;

  explicit Blocks(const Fp8LinearProblem& layer) {
    if (layer.wgrad_blocks == WgradBlocks::square) x_t = kBlock128x128;
    if (layer.granularity == Granularity::tensorwise) activations = weights = x_t = kWholeTensor;
    if (layer.granularity == Granularity::rowwise) activations = weights = x_t = kEachRow;
  }
};

struct Layer {
  Fp8LinearProblem problem;
  Tensor x, w, dy, y, dx, dw;

  explicit Layer(const Fp8LinearProblem& given)
      : problem(given),
        x(random_tensor(given.m, given.k, 1)),
        w(random_tensor(given.n, given.k, 2)),
        dy(random_tensor(given.m, given.n, 3)),
        y(Dtype::bf16, {given.m, given.n}),
        dx(Dtype::bf16, {given.m, given.k}),
        dw(Dtype::bf16, {given.n, given.k}) {}

  void run_parts() const {
    const Blocks blocks(problem);
    const BothWays x_q(x, problem.format, blocks.activations, blocks.x_t, problem);
    const BothWays w_q(w, problem.format, blocks.weights, blocks.weights, problem);
    const BothWays dy_q(dy, problem.grad_format, blocks.activations, blocks.activations, problem);
    multiply(x_q.out, w_q.out, y);
    multiply(dy_q.out, w_q.transposed, dx);
    multiply(dy_q.transposed, x_q.transposed, dw);
  }

  void run_layer() const {
    Fp8Linear layer(problem);
    layer.forward(x, w, y);
    layer.backward(dy, dx, dw);
  }
};

Fp8LinearProblem small_problem() {
  Fp8LinearProblem problem{.m = 140, .n = 270, .k = 200};
  return problem;
}

void expect_bits_of_parts(const Fp8LinearProblem& problem) {
  const Layer parts(problem);
  const Layer whole(problem);
  parts.run_parts();
  whole.run_layer();
  EXPECT_TRUE(equal(parts.y, whole.y)) << describe(problem);
  EXPECT_TRUE(equal(parts.dx, whole.dx)) << describe(problem);
  EXPECT_TRUE(equal(parts.dw, whole.dw)) << describe(problem);
}

TEST(Fp8Linear, IsQuantizeAndGemmInEveryBit) {
  for (const Dtype grad_format : {Dtype::e4m3, Dtype::e5m2}) {
    for (const WgradBlocks blocks : {WgradBlocks::rows, WgradBlocks::square}) {
      Fp8LinearProblem problem = small_problem();
      problem.grad_format = grad_format;
      problem.wgrad_blocks = blocks;
      expect_bits_of_parts(problem);
    }
  }
}

TEST(Fp8Linear, IsQuantizeAndGemmInEveryGranularity) {
  for (const Dtype grad_format : {Dtype::e4m3, Dtype::e5m2}) {
    Fp8LinearProblem problem = small_problem();
    problem.grad_format = grad_format;
    for (const Granularity granularity : {Granularity::tensorwise, Granularity::rowwise}) {
      problem.granularity = granularity;
      problem.pow2_scales = false;
      expect_bits_of_parts(problem);
      problem.fast_accumulation = true;  // which the CPU ignores
      problem.pow2_scales = true;
      expect_bits_of_parts(problem);
    }
    problem.granularity = Granularity::mxfp8;
    problem.pow2_scales = problem.fast_accumulation = false;
    for (const WgradBlocks blocks : {WgradBlocks::rows, WgradBlocks::square}) {
      for (const MxScale scale : {MxScale::floor, MxScale::even, MxScale::up}) {
        problem.wgrad_blocks = blocks;
        problem.mx_scale = scale;
        expect_bits_of_parts(problem);
      }
    }
  }
}

// A layer that shares scales otherwise has other results: the granularity reaches the casts.
TEST(Fp8Linear, GranularitiesDiffer) {
  std::vector<Layer> layers;
  for (const Granularity granularity : {Granularity::blockwise, Granularity::tensorwise,
                                        Granularity::rowwise, Granularity::mxfp8}) {
    Fp8LinearProblem problem = small_problem();
    problem.granularity = granularity;
    layers.emplace_back(problem);
    layers.back().run_layer();
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(equal(layers[i].y, layers[j].y)) << i << ", " << j;
      EXPECT_FALSE(equal(layers[i].dx, layers[j].dx)) << i << ", " << j;
      EXPECT_FALSE(equal(layers[i].dw, layers[j].dw)) << i << ", " << j;
    }
  }
}

TEST(Fp8Linear, NamesItsGranularity) {
  Fp8LinearProblem problem = small_problem();
  EXPECT_EQ(describe(problem),
            "gemm --dtype fp8 --granularity blockwise --shape 140x270x200 --format e4m3 "
            "--grad-format e4m3 --wgrad-blocks 1d --device cpu");
  problem.granularity = Granularity::rowwise;
  problem.grad_format = Dtype::e5m2;
  problem.fast_accumulation = true;
  EXPECT_EQ(describe(problem),
            "gemm --dtype fp8 --granularity rowwise --shape 140x270x200 --format e4m3 "
            "--grad-format e5m2 --fast-accumulation --device cpu");
  problem = small_problem();
  problem.granularity = Granularity::mxfp8;
  problem.mx_scale = MxScale::up;
  EXPECT_EQ(describe(problem),
            "gemm --dtype fp8 --granularity mxfp8 --shape 140x270x200 --format e4m3 "
            "--grad-format e4m3 --wgrad-blocks 1d --mx-scale up --device cpu");
  EXPECT_EQ(parse_granularity("tensorwise"), Granularity::tensorwise);
  EXPECT_EQ(parse_granularity("tensor"), std::nullopt);
}

TEST(Fp8Linear, TheClassShowsItsPlansAndWhatItSaved) {
  const Fp8LinearProblem problem = small_problem();
  const Layer data(problem);
  Fp8Linear layer(problem, {.gemm_backend = "cpu_reference", .threads = 1});
  const Fp8LinearForwardPlan forced =
      plan_fp8_linear_forward(problem, {.gemm_backend = "cpu_reference", .threads = 1});
  EXPECT_EQ(layer.forward_plan().implementation, forced.implementation);
  EXPECT_EQ(layer.forward_plan().configuration, forced.configuration);
  EXPECT_NE(layer.forward_plan().configuration, plan_fp8_linear_forward(problem).configuration);
  EXPECT_EQ(layer.backward_plan().problem.n, problem.n);
  layer.forward(data.x, data.w, data.y);
  const BothWays x(data.x, problem.format, kBlock1x128, kBlock1x128);
  const QuantizedView saved = layer.saved().x_t;
  const QuantizedView wanted = x.transposed;
  ASSERT_EQ(describe(saved), describe(wanted));
  for (std::int64_t row = 0; row < saved.values.rows(); ++row) {
    const auto* a = static_cast<const char*>(saved.values.data) + row * saved.values.strides[0];
    const auto* b = static_cast<const char*>(wanted.values.data) + row * wanted.values.strides[0];
    ASSERT_EQ(std::memcmp(a, b, static_cast<std::size_t>(saved.values.cols())), 0) << row;
  }
}

void expect_bits_with_weights_ahead(Fp8LinearProblem problem) {
  SCOPED_TRACE(describe(problem));
  const Layer on_the_fly(problem);
  on_the_fly.run_layer();

  problem.weights_quantized = true;
  const Layer ahead(problem);
  const BlockShape block = Blocks(problem).weights;
  EXPECT_EQ(fp8_linear_weights_layout(problem).w.block, block);
  EXPECT_EQ(fp8_linear_weights_layout(problem).w_t.block, block);
  const BothWays weights(ahead.w, problem.format, block, block, problem);
  const Fp8LinearSavedLayout layout = fp8_linear_saved_layout(problem);
  EXPECT_EQ(layout.w_t.bytes, 0u);
  const Buffer x_t(layout.x_t.bytes);
  const Fp8LinearForwardPlan forward = plan_fp8_linear_forward(problem);
  const Fp8LinearBackwardPlan backward = plan_fp8_linear_backward(problem);
  const Buffer workspace(std::max(forward.workspace_bytes, backward.workspace_bytes));
  const Fp8LinearSaved saved{layout.x_t.view(x_t.data()), weights.transposed};
  Fp8LinearForwardArgs forward_args;
  forward_args.x = ahead.x;
  forward_args.weights = {weights.out, weights.transposed};
  forward_args.y = ahead.y;
  forward_args.saved = saved;
  run(forward, forward_args, {workspace.data(), workspace.bytes()});
  run(backward, {ahead.dy, saved, ahead.dx, ahead.dw}, {workspace.data(), workspace.bytes()});
  EXPECT_TRUE(equal(on_the_fly.y, ahead.y));
  EXPECT_TRUE(equal(on_the_fly.dx, ahead.dx));
  EXPECT_TRUE(equal(on_the_fly.dw, ahead.dw));
}

TEST(Fp8Linear, WeightsQuantizedAheadGiveTheSameBits) {
  for (const Granularity granularity : {Granularity::blockwise, Granularity::tensorwise,
                                        Granularity::rowwise, Granularity::mxfp8}) {
    Fp8LinearProblem problem = small_problem();
    problem.granularity = granularity;
    expect_bits_with_weights_ahead(problem);
  }
}

void expect_bits_of_single_gradients(Fp8LinearProblem problem) {
  SCOPED_TRACE(describe(problem));
  const Layer both(problem);
  both.run_layer();
  for (const bool need_dx : {false, true}) {
    problem.need_dx = need_dx;
    problem.need_dw = !need_dx;
    const Layer one(problem);
    Fp8Linear layer(problem);
    layer.forward(one.x, one.w, one.y);
    layer.backward(one.dy, need_dx ? one.dx.view() : TensorView{},
                   need_dx ? TensorView{} : one.dw.view());
    EXPECT_TRUE(equal(one.y, both.y));
    EXPECT_TRUE(need_dx ? equal(one.dx, both.dx) : equal(one.dw, both.dw));
    const Fp8LinearSavedLayout layout = fp8_linear_saved_layout(problem);
    EXPECT_EQ(layout.x_t.bytes == 0, need_dx);
    EXPECT_EQ(layout.w_t.bytes == 0, !need_dx);
  }
}

TEST(Fp8Linear, ComputesOnlyTheGradientsAskedFor) {
  for (const Granularity granularity : {Granularity::blockwise, Granularity::tensorwise,
                                        Granularity::rowwise, Granularity::mxfp8}) {
    Fp8LinearProblem problem = small_problem();
    problem.granularity = granularity;
    expect_bits_of_single_gradients(problem);
  }
}

TEST(Fp8Linear, EveryProductLeavesMultiprocessorsFree) {
  const cuda::Pretend h200(cuda::kH200);
  Fp8LinearProblem problem{.m = 4096, .n = 4096, .k = 4096, .device = {DeviceType::cuda, 0}};
  const std::string usual = plan_fp8_linear_forward(problem).configuration;
  problem.max_multiprocessors = 1;
  const Fp8LinearForwardPlan forward = plan_fp8_linear_forward(problem);
  const Fp8LinearBackwardPlan backward = plan_fp8_linear_backward(problem);
  EXPECT_NE(forward.configuration, usual);
  const auto& forward_state = *static_cast<const Fp8LinearForwardState*>(forward.state.get());
  const auto& backward_state = *static_cast<const Fp8LinearBackwardState*>(backward.state.get());
  for (const GemmPlan* product :
       {&forward_state.product, &*backward_state.dx_product, &*backward_state.dw_product}) {
    EXPECT_EQ(product->problem.max_multiprocessors, 1) << describe(product->problem);
  }
}

TEST(Fp8Linear, InferenceSavesNothing) {
  const Layer training(small_problem());
  training.run_layer();
  Fp8LinearProblem problem = small_problem();
  problem.training = false;
  const Fp8LinearSavedLayout layout = fp8_linear_saved_layout(problem);
  EXPECT_EQ(layout.x_t.bytes + layout.w_t.bytes, 0u);
  const Layer inference(problem);
  const Fp8LinearForwardPlan plan = plan_fp8_linear_forward(problem);
  const Buffer workspace(plan.workspace_bytes);
  Fp8LinearForwardArgs args;
  args.x = inference.x;
  args.w = inference.w;
  args.y = inference.y;
  run(plan, args, {workspace.data(), workspace.bytes()});
  EXPECT_TRUE(equal(training.y, inference.y));
  EXPECT_THROW(plan_fp8_linear_backward(problem), Error);
}

TEST(Fp8Linear, APoisonedInputPoisonsExactlyItsOwnOutputs) {
  const Layer clean(small_problem());
  clean.run_layer();
  const Layer poisoned(small_problem());
  constexpr std::int64_t kRow = 17;
  constexpr std::int64_t kColumn = 150;
  store_f32(poisoned.x.data(), kRow * poisoned.problem.k + kColumn, Dtype::bf16, INFINITY);
  poisoned.run_layer();
  for (std::int64_t m = 0; m < poisoned.problem.m; ++m) {
    for (std::int64_t n = 0; n < poisoned.problem.n; ++n) {
      const float value = load_f32(poisoned.y.data(), m * poisoned.problem.n + n, Dtype::bf16);
      EXPECT_EQ(std::isfinite(value), m != kRow) << m << ", " << n;
    }
  }
  for (std::int64_t n = 0; n < poisoned.problem.n; ++n) {
    for (std::int64_t k = 0; k < poisoned.problem.k; ++k) {
      const float value = load_f32(poisoned.dw.data(), n * poisoned.problem.k + k, Dtype::bf16);
      EXPECT_EQ(std::isfinite(value), k != kColumn) << n << ", " << k;
    }
  }
  EXPECT_TRUE(equal(clean.dx, poisoned.dx));
}

}  // namespace
}  // namespace octet::testing
