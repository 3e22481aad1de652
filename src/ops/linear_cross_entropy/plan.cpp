// Plans the parts: how the tokens are cut, the products and casts of every size, and the pieces of
// the workspace.
#include "core/checks.hpp"
#include "core/message.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/linear_cross_entropy/state.hpp"

#include <initializer_list>
#include <memory>
#include <utility>

namespace octet {
namespace {

// Logits of a chunk. At 512 MiB the products are as fast as over all tokens (2048 of 128256 words
// each), and the chunk is a fourth of what 8192 tokens would take.
constexpr std::int64_t kChunkBytes = std::int64_t{512} << 20;
// So that every row starts on a 128-byte boundary, for vectors and for any product.
constexpr std::int64_t kPitchStep = 64;
// Scales of 128x128 blocks of x^T, four to 16 bytes, are cut at multiples of 512 tokens.
constexpr std::int64_t kSquareScalesStep = 4 * kBlock;

// Several chunks of a plain layer sum a 16-bit dw in f32. All logits at once are better where they
// take no more bytes: dw of 8192 tokens, 128256x4096 in bf16, took 15.6 ms in four chunks and 10.6 ms
// as one product (H200, train_llama.py --profile).
bool fits_one_chunk(const LinearCrossEntropyProblem& problem, bool gradient) {
  const bool sums_in_f32 = gradient && problem.need_dw && problem.dw_dtype != Dtype::f32;
  return !problem.fp8 && sums_in_f32 &&
         problem.m * static_cast<std::int64_t>(size_bytes(problem.dtype)) <= 4 * problem.k;
}

std::int64_t chunk_rows_of(const LinearCrossEntropyProblem& problem, bool gradient) {
  std::int64_t rows = problem.max_chunk_rows;
  if (rows == 0 && fits_one_chunk(problem, gradient)) return problem.m;
  if (rows == 0) {
    rows = kChunkBytes / (problem.v * size_bytes(problem.dtype)) / kBlock * kBlock;
    rows = std::max(rows, kBlock);
  }
  return std::min(rows, problem.m);
}

// Tokens whose dlogits^T are kept in FP8: all, or as many whole chunks as take no more bytes than an
// f32 dw. A product per chunk would read and write that dw each time: 4.2 GB for 128256x4096, half
// as long as the product of 2048 tokens itself.
std::int64_t wgrad_rows_of(const LinearCrossEntropyProblem& problem, std::int64_t chunk_rows) {
  if (!problem.fp8) return chunk_rows;
  std::int64_t rows = std::max(4 * problem.k / chunk_rows * chunk_rows, chunk_rows);
  if (rows < problem.m && problem.wgrad_blocks == WgradBlocks::square) {
    while (rows % kSquareScalesStep != 0) rows += chunk_rows;
  }
  return std::min(rows, problem.m);
}

// Plans parts and keeps the largest scratch memory any of them needs, since they run one after the
// other.
class Planner {
 public:
  explicit Planner(const Fp8LinearOptions& options) : options_(options) {}

  QuantizePlan plan(const QuantizeProblem& problem) {
    QuantizePlan result = plan_quantize(problem, {options_.quantize_backend, options_.threads});
    count(result.workspace_bytes);
    quantize_ = result.implementation;
    return result;
  }
  GemmPlan plan(const GemmProblem& problem) {
    GemmPlan result = plan_gemm(problem, {options_.gemm_backend, options_.threads});
    count(result.workspace_bytes);
    gemm_ = result.implementation;
    return result;
  }
  LossRowsPlan plan(const LinearCrossEntropyProblem& problem) {
    PlanOptions options;
    options.threads = options_.threads;
    LossRowsPlan result = make_plan(
        loss_rows_implementations(), loss_rows_problem(problem),
        make_request("linear_cross_entropy", problem.fp8 ? "fp8" : "other", describe(problem), ""),
        options);
    count(result.workspace_bytes);
    loss_ = result.implementation;
    return result;
  }
  // A part for pieces of `rows` tokens and for what is left; `problem_of` takes the tokens.
  template <class ProblemOf>
  auto plan_pieces(std::int64_t tokens, std::int64_t rows, const ProblemOf& problem_of) {
    PiecePlans<decltype(plan(problem_of(rows)))> result;
    result.rows = rows;
    result.full = plan(problem_of(rows));
    if (tokens % rows != 0) result.last = plan(problem_of(tokens % rows));
    return result;
  }

  std::size_t scratch_bytes() const { return scratch_bytes_; }
  // "quantize=cpu_simd loss=cpu_simd gemm=cpu_simd"
  std::string implementations() const {
    return text(quantize_.empty() ? "" : "quantize=" + quantize_ + " ", "loss=", loss_,
                " gemm=", gemm_);
  }

 private:
  void count(std::size_t bytes) { scratch_bytes_ = std::max(scratch_bytes_, bytes); }

  Fp8LinearOptions options_;
  std::size_t scratch_bytes_ = 0;
  std::string quantize_;
  std::string gemm_;
  std::string loss_;
};

LinearProducts products(const LinearCrossEntropyProblem& problem, const Fp8LinearProblem& layer) {
  return problem.fp8 ? fp8_products(layer) : plain_products(layer);
}

// x and w in FP8.
void plan_casts(const LinearCrossEntropyProblem& problem, Planner& planner,
                LinearCrossEntropyState& state) {
  const Fp8LinearProblem layer = head_layer(problem, problem.m, state.gradient);
  state.quantize_x = planner.plan(cast_of_x(layer));
  state.x_layout = out_layout(state.quantize_x->problem);
  state.x_t_layout = transposed_layout(state.quantize_x->problem);
  if (problem.weights_quantized) return;
  state.quantize_w = planner.plan(cast_of_w(layer));
  state.w_layout = out_layout(state.quantize_w->problem);
  state.w_t_layout = transposed_layout(state.quantize_w->problem);
}

// The products that give dw: of the first tokens, and of those that follow.
void plan_dw(const LinearCrossEntropyProblem& problem, Planner& planner,
             LinearCrossEntropyState& state) {
  const bool several = state.wgrad_rows < problem.m;
  // cuBLASLt gives dtype and f32; the other 16-bit dtype is rounded from f32.
  const bool rounds = !problem.fp8 && problem.dw_dtype != problem.dtype;
  const bool sums_apart = (several || rounds) && problem.dw_dtype != Dtype::f32;
  const auto product = [&](bool accumulate) {
    return [&, accumulate](std::int64_t rows) {
      Fp8LinearProblem layer = head_layer(problem, rows, true);
      if (sums_apart) layer.dw_dtype = Dtype::f32;
      layer.accumulate_dw = accumulate;
      return products(problem, layer).dw;
    };
  };
  state.dw = planner.plan(product(problem.accumulate_dw)(state.wgrad_rows));
  if (several) state.more_dw = planner.plan_pieces(problem.m, state.wgrad_rows, product(true));
  if (sums_apart) {
    state.dw_sum_bytes = static_cast<std::size_t>(problem.v * problem.k) * sizeof(float);
  }
  if (problem.fp8) state.dlogits_t_bytes = dlogits_t_layout(problem, state.wgrad_rows).bytes;
}

void plan_gradients(const LinearCrossEntropyProblem& problem, Planner& planner,
                    LinearCrossEntropyState& state) {
  const auto layer = [&](std::int64_t rows) { return head_layer(problem, rows, true); };
  if (problem.fp8) {
    state.quantize_dlogits = planner.plan_pieces(
        problem.m, state.chunk_rows, [&](std::int64_t rows) { return cast_of_dy(layer(rows)); });
  }
  if (problem.need_dx) {
    state.dx = planner.plan_pieces(problem.m, state.chunk_rows, [&](std::int64_t rows) {
      return products(problem, layer(rows)).dx;
    });
    if (problem.fp8) state.dlogits_bytes = dlogits_layout(problem, state.chunk_rows).bytes;
  }
  if (problem.need_dw) plan_dw(problem, planner, state);
}

template <class ResultPlan>
ResultPlan plan_pass(const LinearCrossEntropyProblem& problem, const Fp8LinearOptions& options,
                     bool gradient, bool reduces_losses) {
  auto state = std::make_shared<LinearCrossEntropyState>();
  state->gradient = gradient;
  state->chunk_rows = chunk_rows_of(problem, gradient);
  state->wgrad_rows = wgrad_rows_of(problem, state->chunk_rows);
  Planner planner(options);
  state->loss_rows = planner.plan(problem);
  if (problem.fp8) plan_casts(problem, planner, *state);
  state->logits = planner.plan_pieces(problem.m, state->chunk_rows, [&](std::int64_t rows) {
    return products(problem, head_layer(problem, rows, gradient)).y;
  });
  if (problem.fp8 && state->chunk_rows < problem.m &&
      state->logits.full.implementation == kGemmCublasLt.name) {
    fail(ErrorCode::unsupported,
         "linear_cross_entropy: cublaslt reads scales without gaps, so its ",
         "FP8 head is one chunk: max_chunk_rows must be at least ", round_up(problem.m, kBlock),
         ", the chunks have ", state->chunk_rows, " tokens");
  }
  state->logits_pitch = (problem.v + kPitchStep - 1) / kPitchStep * kPitchStep;
  state->logits_bytes =
      static_cast<std::size_t>(state->chunk_rows * state->logits_pitch * size_bytes(problem.dtype));
  if (gradient) plan_gradients(problem, planner, *state);
  state->totals_bytes = sizeof(LossTotals);
  if (reduces_losses) state->losses_bytes = static_cast<std::size_t>(problem.m) * sizeof(float);

  ResultPlan plan;
  plan.problem = {problem};
  plan.implementation = planner.implementations();
  plan.configuration = text(state->logits.full.configuration, " chunk=", state->chunk_rows);
  plan.why = state->logits.full.why;
  for (const std::size_t bytes :
       {state->x_layout.bytes, state->x_t_layout.bytes, state->w_layout.bytes,
        state->w_t_layout.bytes, state->logits_bytes, state->dlogits_bytes, state->dlogits_t_bytes,
        state->losses_bytes, state->totals_bytes, state->dw_sum_bytes, planner.scratch_bytes()}) {
    plan.workspace_bytes += aligned_bytes(bytes);
  }
  plan.state = std::move(state);
  return plan;
}

}  // namespace

LinearCrossEntropyForwardPlan plan_linear_cross_entropy_forward(
    const LinearCrossEntropyProblem& problem, const Fp8LinearOptions& options) {
  check(problem);
  return plan_pass<LinearCrossEntropyForwardPlan>(problem, options, forward_has_gradient(problem),
                                                  problem.reduction != LossReduction::none);
}

LinearCrossEntropyBackwardPlan plan_linear_cross_entropy_backward(
    const LinearCrossEntropyProblem& problem, const Fp8LinearOptions& options) {
  check(problem);
  if (!needs_gradient(problem)) {
    refuse_argument("linear_cross_entropy: backward needs training = true and need_dx or need_dw");
  }
  return plan_pass<LinearCrossEntropyBackwardPlan>(problem, options, true, false);
}

}  // namespace octet
