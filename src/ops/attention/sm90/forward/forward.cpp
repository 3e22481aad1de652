// cuda_sm90_wgmma: which problems attention's Hopper forward takes and how it is planned, known with and
// without CUDA in the build.
#include "ops/attention/sm90/forward/forward.hpp"

#include "core/checks.hpp"
#include "ops/attention/sm90/forward/work.hpp"

#include <algorithm>

namespace octet {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 28;   // of a sequence, or of all ragged ones
constexpr std::int64_t kMostItems = std::int64_t{1} << 30;  // tiles of all heads

std::string refuse_extents(const AttentionProblem& problem) {
  for (const auto& [name, dim, most] :
       {std::tuple<const char*, std::int64_t, std::int64_t>("dim_qk", problem.dim_qk, 192),
        {"dim_v", problem.dim_v, 128}}) {
    if (dim % 8 != 0) return text(name, " must be a multiple of 8 (16 bytes), it is ", dim);
    if (dim > most) return text(name, " must be at most ", most, ", it is ", dim);
  }
  const std::int64_t rows =
      std::max({problem.seq_q, problem.seq_kv, problem.total_q, problem.total_kv, problem.batch});
  if (rows > kMostRows) return text("sequences must have at most 2^28 rows, one has ", rows);
  const std::int64_t tiles = sm90_attention_tiles(problem, choose_sm90_attention_forward(problem));
  const std::int64_t heads =
      problem.offsets_dtype ? problem.heads_q : problem.batch * problem.heads_q;
  if (tiles > 0 && heads > kMostItems / tiles) return "there are more than 2^30 tiles of queries";
  return "";
}

std::string refuse(const AttentionProblem& problem, const Machine& machine) {
  if (std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  if (problem.dtype != Dtype::bf16 && problem.dtype != Dtype::f16) {
    return text("q, k and v must be bf16 or f16, they are ", name(problem.dtype));
  }
  return refuse_extents(problem);
}

Planned<AttentionForwardArgs> plan_config(const AttentionProblem& problem, const Machine& machine,
                                          const Sm90AttentionForwardConfig& config) {
  return {name(config), sm90_attention_forward_workspace(problem, config),
          sm90_attention_forward_run(problem, config, machine.multiprocessors)};
}

Planned<AttentionForwardArgs> plan(const AttentionProblem& problem, const Machine& machine) {
  return plan_config(problem, machine, choose_sm90_attention_forward(problem));
}

std::variant<Planned<AttentionForwardArgs>, Refusal> plan_with(const AttentionProblem& problem,
                                                               const Machine& machine,
                                                               std::string_view configuration) {
  std::string fitting;
  for (const Sm90AttentionForwardConfig& config : sm90_attention_forward_configs()) {
    if (!sm90_attention_forward_fits(problem, config)) continue;
    if (name(config) == configuration) return plan_config(problem, machine, config);
    fitting += "\n    " + name(config);
  }
  return Refusal{"these run the problem:" + fitting};
}

}  // namespace

std::string name(const Sm90AttentionForwardConfig& c) {
  return text(c.tile_q, "x", c.tile_k, "x", c.stages, " heads of ", c.dim_qk, "x", c.dim_v, " ",
              name(c.dtype));
}

std::span<const Sm90AttentionForwardConfig> sm90_attention_forward_configs() {
  return kSm90AttentionForwardConfigs;
}

bool sm90_attention_forward_fits(const AttentionProblem& problem,
                                 const Sm90AttentionForwardConfig& config) {
  return problem.dtype == config.dtype && problem.dim_qk <= config.dim_qk &&
         problem.dim_v <= config.dim_v;
}

const Sm90AttentionForwardConfig& choose_sm90_attention_forward(const AttentionProblem& problem) {
  const auto configs = sm90_attention_forward_configs();
  const auto found = std::ranges::find_if(configs, [&](const Sm90AttentionForwardConfig& config) {
    return sm90_attention_forward_fits(problem, config);
  });
  return found == configs.end() ? configs.front() : *found;
}

std::int64_t sm90_attention_tiles(const AttentionProblem& problem,
                                  const Sm90AttentionForwardConfig& config) {
  if (!problem.offsets_dtype) return ceil_div(problem.seq_q, config.tile_q);
  // Each sequence may end inside a tile, and so may the rows behind the last.
  return ceil_div(problem.total_q, config.tile_q) + problem.batch + 1;
}

std::size_t sm90_attention_forward_workspace(const AttentionProblem& problem,
                                             const Sm90AttentionForwardConfig& config) {
  const std::int64_t tiles = problem.offsets_dtype ? sm90_attention_tiles(problem, config) : 0;
  return attention::kListBegin + static_cast<std::size_t>(tiles) * sizeof(attention::SequenceTile);
}

constinit const AttentionForwardImplementation kAttentionForwardCudaSm90Wgmma{
    "cuda_sm90_wgmma", refuse, plan, plan_with};

}  // namespace octet
