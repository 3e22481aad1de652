// The configurations of the Hopper product over groups: their text form, and the choice of one for a problem.
#include "core/checks.hpp"
#include "core/message.hpp"
#include "device/mma/layout.hpp"
#include "device/scheduler/group_table.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/grouped_gemm/sm90/wgmma.hpp"

#include <algorithm>
#include <cmath>

namespace octet {
namespace {

bool over_rows(const GroupedGemmProblem& problem) { return problem.over == GroupedOver::rows; }

// Of the tensor cores in the main loop: that of the dense product (ops/gemm/sm90/choose.cpp).
double utilisation(const Sm90GemmConfig& gemm) {
  if (gemm.promotion == Promotion::one_by_one) {
    return gemm.columns == Columns::paired ? 0.70 : 0.56;
  }
  return gemm.tile_n == 256 ? 0.945 : 0.94;
}

// Clocks per tile for ring fill and exposed epilogue, the same between two staged tiles, clocks per launch of
// clusters, and the share of its clocks that a cluster saves: as in the dense product.
constexpr double kTileOverhead = 3000;
constexpr double kStagedTileOverhead = 1600;
constexpr double kClusterOverhead = 1400;
constexpr double kClusterSaves = 0.02;

// Tiles of one d, in clusters.
std::int64_t tiles_across(const GroupedGemmProblem& problem, const Sm90GemmConfig& gemm) {
  return ceil_div(over_rows(problem) ? problem.n : problem.k,
                  std::int64_t{gemm.tile_n} * gemm.cluster);
}

}  // namespace

std::string name(const Sm90GroupedGemmConfig& c) {
  return text(c.groups == Groups::rows ? "rows " : "contraction ", name(c.gemm));
}

std::optional<Sm90GroupedGemmConfig> parse_sm90_grouped_gemm_config(std::string_view text) {
  for (const Sm90GroupedGemmConfig& config : kSm90GroupedGemmConfigs) {
    if (name(config) == text) return config;
  }
  return std::nullopt;
}

bool sm90_grouped_gemm_fits(const GroupedGemmProblem& problem, const Sm90GroupedGemmConfig& config,
                            int multiprocessors) {
  const Promotion promotion =
      problem.b.block.rows == 1 ? Promotion::one_by_one : Promotion::product_of_scales;
  return (config.groups == Groups::rows) == over_rows(problem) &&
         config.gemm.promotion == promotion && config.gemm.a == problem.a.dtype &&
         config.gemm.b == problem.b.dtype && config.gemm.cluster <= std::max(1, multiprocessors) &&
         (config.gemm.columns == Columns::in_order || problem.k % kPairedGroup == 0);
}

std::int64_t sm90_most_tiles(const GroupedGemmProblem& problem,
                             const Sm90GroupedGemmConfig& config) {
  const std::int64_t down =
      over_rows(problem)
          ? GroupTableLayout{problem.groups, problem.rows}.max_tiles(config.gemm.tile_m)
          : problem.groups * ceil_div(problem.n, config.gemm.tile_m);
  return down * tiles_across(problem, config.gemm);
}

double sm90_grouped_gemm_clocks(const GroupedGemmProblem& problem,
                                const Sm90GroupedGemmConfig& config, int multiprocessors) {
  const Sm90GemmConfig& gemm = config.gemm;
  const auto groups = static_cast<double>(problem.groups);
  const auto rows =
      static_cast<double>(problem.expected_rows > 0 ? problem.expected_rows : problem.rows);
  // On average the last tile, or the last slice, of a group is half full.
  const double down = over_rows(problem)
                          ? rows / gemm.tile_m + groups / 2
                          : groups * static_cast<double>(ceil_div(problem.n, gemm.tile_m));
  const double slices = over_rows(problem) ? static_cast<double>(ceil_div(problem.k, kBlock))
                                           : rows / groups / kBlock + 0.5;
  const double tiles = std::max(1.0, down) * static_cast<double>(tiles_across(problem, gemm));
  const double waves = std::ceil(tiles / std::max(1, multiprocessors / gemm.cluster));
  const double tensor_clocks = gemm.tile_m * gemm.tile_n / 32.0 / utilisation(gemm);
  const double between = is_staged(gemm) ? kStagedTileOverhead : kTileOverhead;
  const double clocks = waves * slices * tensor_clocks + (waves - 1) * between + kTileOverhead;
  return gemm.cluster == 1 ? clocks : clocks * (1 - kClusterSaves) + kClusterOverhead;
}

const Sm90GroupedGemmConfig& choose_sm90_grouped_gemm(const GroupedGemmProblem& problem,
                                                      int multiprocessors) {
  const Sm90GroupedGemmConfig* best = nullptr;
  double best_clocks = 0;
  for (const Sm90GroupedGemmConfig& config : kSm90GroupedGemmConfigs) {
    if (!sm90_grouped_gemm_fits(problem, config, multiprocessors)) continue;
    const double clocks = sm90_grouped_gemm_clocks(problem, config, multiprocessors);
    if (best == nullptr || clocks < best_clocks) {
      best = &config;
      best_clocks = clocks;
    }
  }
  if (best == nullptr) {
    fail(ErrorCode::internal, "grouped_gemm: no Hopper configuration fits ", describe(problem));
  }
  return *best;
}

}  // namespace octet
