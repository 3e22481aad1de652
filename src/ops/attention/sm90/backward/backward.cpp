// cuda_sm90_wgmma, backward: which problems it takes and how it is planned, known with and without CUDA in the
// build.
#include "ops/attention/sm90/backward/backward.hpp"

#include "ops/attention/sm90/backward/kernels.hpp"

#include <limits>

namespace octet {
namespace {

using attention::BackwardPlan;

std::string refuse_shape(const AttentionProblem& problem) {
  if (!attention::has_backward_kernels(problem.dtype, problem.dim_qk, problem.dim_v)) {
    return text(
        "takes bf16 and f16 heads of multiples of 8, up to 192 for q and k and 128 for v, not ",
        name(problem.dtype), " of ", problem.dim_qk, "/", problem.dim_v);
  }
  if (*problem.out_dtype != problem.dtype) {
    return text("takes out and dout in ", name(problem.dtype), ", the dtype of q, not ",
                name(*problem.out_dtype));
  }
  constexpr std::int64_t kMostRows = std::int64_t{1} << 29;  // of the copy engine's ragged boxes
  const std::int64_t rows_q =
      problem.offsets_dtype ? problem.total_q : problem.batch * problem.seq_q;
  const std::int64_t rows_kv =
      problem.offsets_dtype ? problem.total_kv : problem.batch * problem.seq_kv;
  if (rows_q > kMostRows || rows_kv > kMostRows || problem.batch > kMostRows ||
      problem.seq_q > kMostRows || problem.seq_kv > kMostRows) {
    return "more than 2^29 queries, keys or sequences";
  }
  // Tiles of dS and group rows are counted in 32 bits.
  const double rows =
      static_cast<double>(rows_q) / attention::kRow + static_cast<double>(problem.batch) + 1;
  const std::int64_t key_tiles = problem.seq_kv / attention::kTile + 1;
  const double tiles = rows * attention::kRowUnits * static_cast<double>(problem.heads_q) *
                       static_cast<double>(key_tiles);
  if (tiles > std::numeric_limits<std::int32_t>::max()) return "more than 2^31 tiles of scores";
  return "";
}

std::string refuse(const AttentionProblem& problem, const Machine& machine) {
  if (std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  if (std::string refusal = refuse_shape(problem); !refusal.empty()) return refusal;
  const BackwardPlan plan =
      attention::plan_backward(problem, problem.workspace_limit, machine.multiprocessors);
  if (plan.pieces.bytes > problem.workspace_limit) {
    return text("needs a workspace of at least ", plan.pieces.bytes, " bytes, the problem allows ",
                problem.workspace_limit);
  }
  return "";
}

Planned<AttentionBackwardArgs> plan(const AttentionProblem& problem, const Machine& machine) {
  const BackwardPlan plan =
      attention::plan_backward(problem, problem.workspace_limit, machine.multiprocessors);
  const std::size_t bytes = plan.pieces.bytes;
  const std::int32_t chunks = plan.count(problem.heads_kv);
  return {text("dS stored, ", problem.offsets_dtype ? "at most " : "", chunks,
               chunks == 1 ? " chunk" : " chunks"),
          bytes, sm90_attention_backward_run(problem, plan)};
}

}  // namespace

constinit const AttentionBackwardImplementation kAttentionBackwardCudaSm90Wgmma{"cuda_sm90_wgmma",
                                                                                refuse, plan};

}  // namespace octet
