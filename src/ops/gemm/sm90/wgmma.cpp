// cuda_sm90_wgmma: what the Hopper product takes and how it is planned, known with and without CUDA in
// the build.
#include "ops/gemm/sm90/wgmma.hpp"

#include "core/checks.hpp"
#include "device/mma/layout.hpp"

#include <algorithm>

namespace octet {
namespace {

// Rows of 16-bit operands are loaded through tensor maps, which need multiples of 16 bytes.
std::string refuse_rows16(const GemmProblem& problem) {
  const auto refuse_extent = [](const char* argument, std::int64_t extent) {
    return extent % 8 == 0 ? ""
                           : text("the contiguous extent of ", argument,
                                  " must be a multiple of 8, got ", extent);
  };
  std::string refusal = refuse_extent("a", problem.a.major == Major::k ? problem.k : problem.m);
  if (!refusal.empty()) return refusal;
  return refuse_extent("b", problem.b.major == Major::k ? problem.k : problem.n);
}

std::string refuse(const GemmProblem& problem, const Machine& machine) {
  if (std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  if (is_16bit(problem.a.dtype)) {
    if (std::string refusal = refuse_rows16(problem); !refusal.empty()) return refusal;
  } else if (!is_fp8(problem.a.dtype)) {
    return text("operands are ", name(problem.a.dtype), "; FP8, bf16 and f16 are taken");
  } else if (is_mx(problem.a.block) || is_mx(problem.b.block)) {
    return "mx blocks have no tensor cores on Hopper; quantize folds them into 1x128 and 128x128 "
           "(fold_mx)";
  } else if (!is_whole_row(problem.a.block) && !(problem.a.block == kBlock1x128)) {
    return "blocks of a must be 1x128, 1xall or allxall";
  }
  constexpr std::int64_t kLargest = std::int64_t{1} << 30;
  if (problem.m > kLargest || problem.n > kLargest || problem.k > kLargest) {
    return "M, N and K must be at most 2^30";
  }
  return "";
}

int multiprocessors(const GemmProblem& problem, const Machine& machine) {
  return multiprocessors_of(machine, problem.max_multiprocessors);
}

Planned<GemmArgs> plan_config(const GemmProblem& problem, const Machine& machine,
                              const Sm90GemmConfig& config) {
  return {name(config), 0, sm90_gemm_run(problem, config, multiprocessors(problem, machine))};
}

Planned<GemmArgs> plan(const GemmProblem& problem, const Machine& machine) {
  return plan_config(problem, machine,
                     choose_sm90_gemm(problem, multiprocessors(problem, machine)));
}

std::string fitting_configs(const GemmProblem& problem) {
  std::string result;
  for (const Sm90GemmConfig& config : sm90_gemm_configs()) {
    if (sm90_gemm_fits(problem, config)) result += "\n    " + name(config);
  }
  return result;
}

std::variant<Planned<GemmArgs>, Refusal> plan_with(const GemmProblem& problem,
                                                   const Machine& machine,
                                                   std::string_view configuration) {
  const std::optional<Sm90GemmConfig> config = parse_sm90_gemm_config(configuration);
  if (config && config->cluster > std::max(1, multiprocessors(problem, machine))) {
    return Refusal{text("a cluster needs ", config->cluster, " multiprocessors")};
  }
  if (config && sm90_gemm_fits(problem, *config)) return plan_config(problem, machine, *config);
  if (!config) {
    return Refusal{"no kernel of this name is compiled; these run the problem:" +
                   fitting_configs(problem)};
  }
  if (config->columns == Columns::paired && problem.n % kPairedGroup != 0) {
    return Refusal{
        text("paired columns need N in groups of ", kPairedGroup, ", the problem has ", problem.n)};
  }
  return Refusal{"it is for other dtypes or blocks; these run the problem:" +
                 fitting_configs(problem)};
}

std::vector<Alternative> configurations(const GemmProblem& problem, const Machine& machine) {
  const int count = multiprocessors(problem, machine);
  const auto clocks = [&](const Sm90GemmConfig& config) {
    return sm90_gemm_clocks(problem, config, count);
  };
  const double chosen = clocks(choose_sm90_gemm(problem, count));
  std::vector<Alternative> result;
  for (const Sm90GemmConfig& config : sm90_gemm_configs()) {
    if (!sm90_gemm_fits(problem, config) || config.cluster > std::max(1, count)) continue;
    result.push_back({name(config), clocks(config) / chosen});
  }
  return result;
}

}  // namespace

constinit const GemmImplementation kGemmCudaSm90Wgmma{"cuda_sm90_wgmma", refuse, plan,
                                                      plan_with,         false,  configurations};

}  // namespace octet
