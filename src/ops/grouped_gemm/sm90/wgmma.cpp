// cuda_sm90_wgmma: what the Hopper product over groups takes and how it is planned, known with and without
// CUDA in the build.
#include "ops/grouped_gemm/sm90/wgmma.hpp"

#include "device/mma/layout.hpp"

namespace octet {
namespace {

// Lines of 16-bit operands are loaded through tensor maps, which need multiples of 16 bytes.
std::string refuse_lines16(const GroupedGemmProblem& problem) {
  const auto refuse_extent = [](const char* extent, std::int64_t given) {
    return given % 8 == 0 ? "" : text(extent, " must be a multiple of 8, got ", given);
  };
  if (problem.over == GroupedOver::rows && problem.a.major != Major::k) {
    return "16-bit rows of a must be contiguous";
  }
  if (std::string refusal = refuse_extent("K", problem.k); !refusal.empty()) return refusal;
  if (problem.over == GroupedOver::rows && problem.b.major == Major::k) return "";
  return refuse_extent("N", problem.n);
}

std::string refuse(const GroupedGemmProblem& problem, const Machine& machine) {
  if (std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  if (is_16bit(problem.a.dtype)) {
    if (std::string refusal = refuse_lines16(problem); !refusal.empty()) return refusal;
  } else if (!is_fp8(problem.a.dtype)) {
    return text("operands are ", name(problem.a.dtype), "; FP8, bf16 and f16 are taken");
  } else if (!(problem.a.block == kBlock1x128)) {
    return "blocks of a must be 1x128";
  }
  if (is_fp8(problem.a.dtype) && problem.over == GroupedOver::rows &&
      !(problem.b.block == kBlock128x128)) {
    return "over rows, blocks of b must be 128x128";
  }
  constexpr std::int64_t kLargest = std::int64_t{1} << 30;
  if (problem.n > kLargest || problem.k > kLargest) return "N and K must be at most 2^30";
  // Of the smallest tile that may be chosen.
  const std::int64_t down = problem.over == GroupedOver::rows
                                ? problem.rows / 128 + problem.groups + 1
                                : problem.groups * (problem.n / 128 + 1);
  const std::int64_t across = (problem.over == GroupedOver::rows ? problem.n : problem.k) / 128 + 1;
  if (down > kLargest / across) return "the tiles of all groups must be fewer than 2^30";
  return "";
}

int multiprocessors(const GroupedGemmProblem& problem, const Machine& machine) {
  return multiprocessors_of(machine, problem.max_multiprocessors);
}

Planned<GroupedGemmArgs> plan_config(const GroupedGemmProblem& problem, const Machine& machine,
                                     const Sm90GroupedGemmConfig& config) {
  return {name(config), 0,
          sm90_grouped_gemm_run(problem, config, multiprocessors(problem, machine))};
}

Planned<GroupedGemmArgs> plan(const GroupedGemmProblem& problem, const Machine& machine) {
  return plan_config(problem, machine,
                     choose_sm90_grouped_gemm(problem, multiprocessors(problem, machine)));
}

std::string fitting_configs(const GroupedGemmProblem& problem, int multiprocessors) {
  std::string result;
  for (const Sm90GroupedGemmConfig& config : sm90_grouped_gemm_configs()) {
    if (sm90_grouped_gemm_fits(problem, config, multiprocessors)) result += "\n    " + name(config);
  }
  return result;
}

std::variant<Planned<GroupedGemmArgs>, Refusal> plan_with(const GroupedGemmProblem& problem,
                                                          const Machine& machine,
                                                          std::string_view configuration) {
  const int count = multiprocessors(problem, machine);
  const std::optional<Sm90GroupedGemmConfig> config = parse_sm90_grouped_gemm_config(configuration);
  if (config && sm90_grouped_gemm_fits(problem, *config, count)) {
    return plan_config(problem, machine, *config);
  }
  if (!config) {
    return Refusal{"no kernel of this name is compiled; these run the problem:" +
                   fitting_configs(problem, count)};
  }
  if (config->gemm.columns == Columns::paired && problem.k % kPairedGroup != 0) {
    return Refusal{
        text("paired columns need K in groups of ", kPairedGroup, ", the problem has ", problem.k)};
  }
  return Refusal{
      "it is for other groups, dtypes or blocks, or for more multiprocessors; these run the "
      "problem:" +
      fitting_configs(problem, count)};
}

std::vector<Alternative> configurations(const GroupedGemmProblem& problem, const Machine& machine) {
  const int count = multiprocessors(problem, machine);
  const auto clocks = [&](const Sm90GroupedGemmConfig& config) {
    return sm90_grouped_gemm_clocks(problem, config, count);
  };
  const double chosen = clocks(choose_sm90_grouped_gemm(problem, count));
  std::vector<Alternative> result;
  for (const Sm90GroupedGemmConfig& config : sm90_grouped_gemm_configs()) {
    if (!sm90_grouped_gemm_fits(problem, config, count)) continue;
    result.push_back({name(config), clocks(config) / chosen});
  }
  return result;
}

}  // namespace

constinit const GroupedGemmImplementation kGroupedGemmCudaSm90Wgmma{
    "cuda_sm90_wgmma", refuse, plan, plan_with, false, configurations};

}  // namespace octet
