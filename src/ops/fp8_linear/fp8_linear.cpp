#include <octet/ops/fp8_linear.hpp>

#include "core/checks.hpp"
#include "core/message.hpp"
#include "ops/fp8_linear/parts.hpp"
#include "ops/quantize/forms.hpp"

#include <algorithm>
#include <array>

namespace octet {
namespace {

constexpr std::string_view kOp = "fp8_linear";
constexpr std::array kGranularities{Granularity::blockwise, Granularity::tensorwise,
                                    Granularity::rowwise, Granularity::mxfp8};

const Fp8LinearProblem& training_problem(const Fp8LinearProblem& problem) {
  check_trains(kOp, "Fp8Linear", problem.training, problem.weights_quantized);
  return problem;
}

void check_bias(const Fp8LinearProblem& problem) {
  const auto [bias, dbias] = std::array{problem.bias_dtype, problem.dbias_dtype};
  if (bias && *bias != Dtype::f32 && *bias != problem.dtype) {
    fail(ErrorCode::unsupported, kOp, ": bias_dtype must be f32 or that of y, ",
         name(problem.dtype), ", got ", name(*bias));
  }
  if (!dbias) return;
  check_float({kOp, "dbias_dtype"}, *dbias);
  if (problem.accumulate_dw && *dbias == Dtype::f16) {
    fail(ErrorCode::unsupported, kOp, ": accumulate_dw needs an f32 or bf16 dbias, got f16");
  }
}

}  // namespace

std::string_view name(Granularity granularity) {
  switch (granularity) {
    case Granularity::blockwise: return "blockwise";
    case Granularity::tensorwise: return "tensorwise";
    case Granularity::rowwise: return "rowwise";
    case Granularity::mxfp8: return "mxfp8";
  }
  return "";
}

std::optional<Granularity> parse_granularity(std::string_view text) {
  for (const Granularity granularity : kGranularities) {
    if (name(granularity) == text) return granularity;
  }
  return std::nullopt;
}

void check(const Fp8LinearProblem& problem) {
  check_extent(kOp, "M", problem.m);
  check_extent(kOp, "N", problem.n);
  check_extent(kOp, "K", problem.k);
  check_numerics(kOp, problem);
  check_bias(problem);
  check_size(kOp, problem.m, problem.k, Dtype::f32);
  check_size(kOp, problem.n, problem.k, Dtype::f32);
  check_size(kOp, problem.m, problem.n, Dtype::f32);
  check_device(kOp, problem.device);
}

std::string describe(const Fp8LinearProblem& problem) {
  std::string result = text("gemm --dtype fp8 --granularity ", name(problem.granularity),
                            " --shape ", problem.m, "x", problem.n, "x", problem.k, " --format ",
                            name(problem.format), " --grad-format ", name(problem.grad_format));
  if (!has_end_scales(problem)) {
    result += text(" --wgrad-blocks ", problem.wgrad_blocks == WgradBlocks::square ? "2d" : "1d");
  }
  if (problem.mx_scale != MxScale::floor) result += text(" --mx-scale ", name(problem.mx_scale));
  if (problem.fast_accumulation) result += " --fast-accumulation";
  if (problem.dtype != Dtype::bf16) result += text(" --input ", name(problem.dtype));
  if (problem.dw_dtype != Dtype::bf16) result += text(" --dw ", name(problem.dw_dtype));
  if (problem.accumulate_dw) result += " --accumulate-dw";
  if (problem.bias_dtype) result += text(" --bias ", name(*problem.bias_dtype));
  if (problem.dbias_dtype) result += text(" --dbias ", name(*problem.dbias_dtype));
  if (problem.amax_floor != 0) result += " --amax-floor " + exact_text(problem.amax_floor);
  if (problem.pow2_scales) result += " --pow2-scales";
  if (problem.max_multiprocessors != 0) {
    result += text(" --max-multiprocessors ", problem.max_multiprocessors);
  }
  return result + " --device " + name(problem.device);
}

Fp8LinearSavedLayout fp8_linear_saved_layout(const Fp8LinearProblem& problem) {
  check(problem);
  Fp8LinearSavedLayout layout;
  if (saves_x(problem)) {
    layout.x_t = QuantizedLayout(problem.k, problem.m, problem.format, x_t_block(problem));
  }
  if (saves_w(problem) && !problem.weights_quantized) {
    layout.w_t = QuantizedLayout(problem.k, problem.n, problem.format, weight_block(problem));
  }
  return layout;
}

Fp8LinearWeightsLayout fp8_linear_weights_layout(const Fp8LinearProblem& problem) {
  check(problem);
  const BlockShape block = weight_block(problem);
  return {QuantizedLayout(problem.n, problem.k, problem.format, block),
          QuantizedLayout(problem.k, problem.n, problem.format, block)};
}

Fp8Linear::Fp8Linear(const Fp8LinearProblem& problem, const Fp8LinearOptions& options,
                     const Allocator& allocator)
    : forward_(plan_fp8_linear_forward(training_problem(problem), options)),
      backward_(plan_fp8_linear_backward(problem, options)) {
  const Fp8LinearSavedLayout layout = fp8_linear_saved_layout(problem);
  x_t_ = allocate(layout.x_t, problem.device, allocator);
  w_t_ = allocate(layout.w_t, problem.device, allocator);
  workspace_ = Buffer(std::max(forward_.workspace_bytes, backward_.workspace_bytes), problem.device,
                      allocator);
}

void Fp8Linear::forward(const TensorView& x, const TensorView& w, const TensorView& y,
                        void* stream) {
  forward(x, w, {}, y, stream);
}

void Fp8Linear::forward(const TensorView& x, const TensorView& w, const TensorView& bias,
                        const TensorView& y, void* stream) {
  Fp8LinearForwardArgs args;
  args.x = x;
  args.w = w;
  args.y = y;
  args.bias = bias;
  args.saved = saved();
  run(forward_, args, {workspace_.data(), workspace_.bytes()}, stream);
  has_saved_ = true;
}

void Fp8Linear::backward(const TensorView& dy, const TensorView& dx, const TensorView& dw,
                         void* stream) {
  backward(dy, dx, dw, {}, stream);
}

void Fp8Linear::backward(const TensorView& dy, const TensorView& dx, const TensorView& dw,
                         const TensorView& dbias, void* stream) {
  check_has_saved(kOp, has_saved_);
  Fp8LinearBackwardArgs args;
  args.dy = dy;
  args.saved = saved();
  args.dx = dx;
  args.dw = dw;
  args.dbias = dbias;
  run(backward_, args, {workspace_.data(), workspace_.bytes()}, stream);
}

}  // namespace octet
