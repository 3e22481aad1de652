// The problem, its parts and the convenience class.
#include <octet/ops/fp8_grouped_linear.hpp>

#include "core/checks.hpp"
#include "core/message.hpp"
#include "ops/fp8_grouped_linear/parts.hpp"
#include "ops/fp8_linear/parts.hpp"
#include "ops/group_table/problem.hpp"
#include "ops/grouped_gemm/problem.hpp"

#include <algorithm>

namespace octet {
namespace {

constexpr std::string_view kOp = "fp8_grouped_linear";

const Fp8GroupedLinearProblem& training_problem(const Fp8GroupedLinearProblem& problem) {
  check_trains(kOp, "Fp8GroupedLinear", problem.training, problem.weights_quantized);
  return problem;
}

GroupedGemmProblem grouped(const Fp8GroupedLinearProblem& layer, GroupedOver over, std::int64_t n,
                           std::int64_t k, const GemmOperand& a, const GemmOperand& b) {
  GroupedGemmProblem result;
  result.over = over;
  result.groups = layer.groups;
  result.rows = layer.rows;
  result.n = n;
  result.k = k;
  result.a = a;
  result.b = b;
  result.out_dtype = layer.dtype;
  result.tail = layer.tail;
  result.expected_rows = layer.expected_rows;
  result.max_multiprocessors = layer.max_multiprocessors;
  result.device = layer.device;
  return result;
}

// The products over groups, with the operands of the dense layer.
GroupedLinearProducts over_groups(const Fp8GroupedLinearProblem& layer,
                                  const LinearProducts& products) {
  const auto& [n, k] = std::tie(layer.n, layer.k);
  GroupedLinearProducts result{
      grouped(layer, GroupedOver::rows, n, k, products.y.a, products.y.b),
      grouped(layer, GroupedOver::rows, k, n, products.dx.a, products.dx.b),
      grouped(layer, GroupedOver::contraction, n, k, products.dw.a, products.dw.b)};
  result.dw.out_dtype = layer.dw_dtype;
  result.dw.accumulate = layer.accumulate_dw;
  return result;
}

// Products never use rows behind the last group, so a cast need not clear them.
QuantizeProblem over_groups(const Fp8GroupedLinearProblem& layer, QuantizeProblem cast) {
  cast.groups = layer.groups;
  cast.tail = GroupTail::untouched;
  return cast;
}

QuantizedTensor allocate(const QuantizedBatchLayout& layout, Device device,
                         const Allocator& allocator) {
  if (layout.bytes == 0) return {};
  return QuantizedTensor(layout, device, allocator);
}

}  // namespace

Fp8LinearProblem dense_layer(const Fp8GroupedLinearProblem& layer) {
  Fp8LinearProblem result;
  result.m = layer.rows;
  result.n = layer.n;
  result.k = layer.k;
  result.dtype = layer.dtype;
  result.format = layer.format;
  result.grad_format = layer.grad_format;
  result.weights_quantized = layer.weights_quantized;
  result.training = layer.training;
  result.need_dx = layer.need_dx;
  result.need_dw = layer.need_dw;
  result.dw_dtype = layer.dw_dtype;
  result.accumulate_dw = layer.accumulate_dw;
  result.wgrad_blocks = layer.wgrad_blocks;
  result.amax_floor = layer.amax_floor;
  result.pow2_scales = layer.pow2_scales;
  result.max_multiprocessors = layer.max_multiprocessors;
  result.device = layer.device;
  return result;
}

void check(const Fp8GroupedLinearProblem& problem) { check_grouped_layer(kOp, problem); }

void check_grouped_layer(std::string_view op, const Fp8GroupedLinearProblem& layer) {
  check_groups(op, layer.groups, layer.rows);
  check_extent(op, "N", layer.n);
  check_extent(op, "K", layer.k);
  check_numerics(op, dense_layer(layer));
  check_tail(op, layer.tail);
  check_expected_rows(op, layer.expected_rows, layer.rows);
  check_grouped_sizes(op, layer.groups, layer.rows, layer.n, layer.k);
  check_device(op, layer.device);
}

std::string describe(const Fp8GroupedLinearProblem& problem) {
  std::string result =
      text("grouped-gemm --dtype fp8 --granularity blockwise --groups ", problem.groups,
           " --shape ", problem.rows, "x", problem.n, "x", problem.k, " --format ",
           name(problem.format), " --grad-format ", name(problem.grad_format), " --wgrad-blocks ",
           problem.wgrad_blocks == WgradBlocks::square ? "2d" : "1d");
  if (problem.dtype != Dtype::bf16) result += text(" --input ", name(problem.dtype));
  if (problem.dw_dtype != Dtype::bf16) result += text(" --dw ", name(problem.dw_dtype));
  if (problem.accumulate_dw) result += " --accumulate-dw";
  if (problem.weights_quantized) result += " --weights-quantized";
  if (problem.amax_floor != 0) result += " --amax-floor " + exact_text(problem.amax_floor);
  if (problem.pow2_scales) result += " --pow2-scales";
  if (problem.tail == GroupTail::untouched) result += " --tail untouched";
  if (problem.expected_rows != 0) result += text(" --expected-rows ", problem.expected_rows);
  if (problem.max_multiprocessors != 0) {
    result += text(" --max-multiprocessors ", problem.max_multiprocessors);
  }
  return result + " --device " + name(problem.device);
}

GroupedLinearProducts fp8_products(const Fp8GroupedLinearProblem& layer) {
  return over_groups(layer, fp8_products(dense_layer(layer)));
}

GroupedLinearProducts plain_products(const Fp8GroupedLinearProblem& layer) {
  return over_groups(layer, plain_products(dense_layer(layer)));
}

QuantizeProblem cast_of_x(const Fp8GroupedLinearProblem& layer) {
  return over_groups(layer, cast_of_x(dense_layer(layer)));
}

QuantizeProblem cast_of_w(const Fp8GroupedLinearProblem& layer) {
  QuantizeProblem cast = cast_of_w(dense_layer(layer));
  cast.batch = layer.groups;
  return cast;
}

QuantizeProblem cast_of_dy(const Fp8GroupedLinearProblem& layer) {
  return over_groups(layer, cast_of_dy(dense_layer(layer)));
}

GroupedCopies copies_of(const QuantizeProblem& cast) {
  GroupedCopies copies;
  if (cast.block) copies.rows = out_layout(cast);
  if (cast.transposed_block) {
    copies.token_blocks = QuantizedBatchLayout::token_blocks(
        max_token_blocks(cast.groups, cast.rows), cast.cols, cast.format, *cast.transposed_block);
  }
  return copies;
}

Fp8GroupedLinearWeightsLayout weight_copies_of(const QuantizeProblem& cast) {
  Fp8GroupedLinearWeightsLayout copies;
  copies.w = QuantizedBatchLayout(cast.batch, cast.rows, cast.cols, cast.format, *cast.block);
  if (cast.transposed_block) {
    copies.w_t =
        QuantizedBatchLayout(cast.batch, cast.cols, cast.rows, cast.format, *cast.transposed_block);
  }
  return copies;
}

Fp8GroupedLinearSavedLayout fp8_grouped_linear_saved_layout(
    const Fp8GroupedLinearProblem& problem) {
  check(problem);
  Fp8GroupedLinearSavedLayout layout;
  layout.x_t = copies_of(cast_of_x(problem)).token_blocks;
  if (!problem.weights_quantized) layout.w_t = weight_copies_of(cast_of_w(problem)).w_t;
  return layout;
}

Fp8GroupedLinearWeightsLayout fp8_grouped_linear_weights_layout(
    const Fp8GroupedLinearProblem& problem) {
  check(problem);
  return {
      QuantizedBatchLayout(problem.groups, problem.n, problem.k, problem.format, kBlock128x128),
      QuantizedBatchLayout(problem.groups, problem.k, problem.n, problem.format, kBlock128x128)};
}

Fp8GroupedLinear::Fp8GroupedLinear(const Fp8GroupedLinearProblem& problem,
                                   const Fp8LinearOptions& options, const Allocator& allocator)
    : forward_(plan_fp8_grouped_linear_forward(training_problem(problem), options)),
      backward_(plan_fp8_grouped_linear_backward(problem, options)) {
  const Fp8GroupedLinearSavedLayout layout = fp8_grouped_linear_saved_layout(problem);
  x_t_ = allocate(layout.x_t, problem.device, allocator);
  w_t_ = allocate(layout.w_t, problem.device, allocator);
  workspace_ = Buffer(std::max(forward_.workspace_bytes, backward_.workspace_bytes), problem.device,
                      allocator);
}

void Fp8GroupedLinear::forward(const TensorView& x, const TensorView& w, const TensorView& table,
                               const TensorView& y, void* stream) {
  Fp8GroupedLinearForwardArgs args;
  args.x = x;
  args.w = w;
  args.y = y;
  args.saved = saved();
  args.table = table;
  run(forward_, args, {workspace_.data(), workspace_.bytes()}, stream);
  has_saved_ = true;
}

void Fp8GroupedLinear::backward(const TensorView& dy, const TensorView& table, const TensorView& dx,
                                const TensorView& dw, void* stream) {
  check_has_saved(kOp, has_saved_);
  Fp8GroupedLinearBackwardArgs args;
  args.dy = dy;
  args.saved = saved();
  args.dx = dx;
  args.dw = dw;
  args.table = table;
  run(backward_, args, {workspace_.data(), workspace_.bytes()}, stream);
}

}  // namespace octet
