// The configurations of the Hopper product over groups: their text form, and the choice of one for a problem.
#include "core/checks.hpp"
#include "core/message.hpp"
#include "device/mma/layout.hpp"
#include "device/scheduler/group_table.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/grouped_gemm/sm90/wgmma.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace octet {
namespace {

bool over_rows(const GroupedGemmProblem& problem) { return problem.over == GroupedOver::rows; }

// What the choice knows of a kernel, in clocks that only compare kernels with each other. 1x128 . 128x128: fitted to
// 550 timings of the six tiles over rows on an H200, 1 to 32 groups of 512 to 16384 rows by 11 to 112 slices, even
// and skewed. The fit is 2.7 % from them (rms); the width it takes is 0.3 % slower than the best on average, 6 % at
// worst. 1x128 . 1x128: that of the dense product, and the ratio of both tiles measured over groups.
struct Speed {
  double utilisation;  // of the tensor cores in the main loop
  double between;      // clocks between two tiles
};
Speed speed(const Sm90GemmConfig& gemm) {
  // As of the dense product in sweeps of 12 layers, at the power limit, where loads take their share: 128x128 has 0.90
  // of 128x256.
  if (gemm.promotion == Promotion::none) {
    if (gemm.tile_m == 256) return {gemm.cluster == 2 ? 0.95 : 0.94, 1500};
    return {gemm.tile_n == 256 ? 0.955 : gemm.tile_n == 192 ? 0.93 : 0.865, 1500};
  }
  if (gemm.promotion == Promotion::one_by_one) {
    return {gemm.columns == Columns::paired ? 0.70 : 0.65, 3000};
  }
  if (gemm.tile_m == 256) return {gemm.cluster == 2 ? 0.95 : 0.944, 630};
  switch (gemm.tile_n) {
    case 256: return {0.93, 630};
    case 192: return {0.933, 630};
    case 160: return {0.854, 630};
    default: return {0.908, 1000};
  }
}
constexpr double kFirstTile = 6000;       // clocks of a launch besides its tiles
constexpr double kClusterOverhead = 950;  // and more, where blocks start and end together

// Tiles of one d, in clusters.
std::int64_t tiles_across(const GroupedGemmProblem& problem, const Sm90GemmConfig& gemm) {
  return ceil_div(over_rows(problem) ? problem.n : problem.k,
                  std::int64_t{gemm.tile_n} * gemm.cluster);
}

}  // namespace

std::string name(const Sm90GroupedGemmConfig& c) {
  return text(c.groups == Groups::rows ? "rows " : "contraction ", name(c.gemm),
              c.width == Width::by_sizes ? " or narrower" : "");
}

std::span<const Sm90GroupedGemmConfig> sm90_grouped_gemm_configs() {
  static const auto all = [] {
    std::vector<Sm90GroupedGemmConfig> configs;
    for (const std::span<const Sm90GroupedGemmConfig> list :
         {std::span<const Sm90GroupedGemmConfig>(kSm90GroupedGemmConfigs),
          std::span<const Sm90GroupedGemmConfig>(kSm90GroupedConfigs16<Dtype::bf16>),
          std::span<const Sm90GroupedGemmConfig>(kSm90GroupedConfigs16<Dtype::f16>)}) {
      configs.insert(configs.end(), list.begin(), list.end());
    }
    return configs;
  }();
  return all;
}

std::span<const Sm90GroupedGemmConfig> sm90_row_widths(const Sm90GemmConfig& gemm) {
  if (is_fp8(gemm.a)) return kSm90RowWidths;
  const bool k_major = gemm.b_major == Major::k;
  if (gemm.a == Dtype::bf16) {
    return k_major ? kSm90RowWidths16<Dtype::bf16, Major::k>
                   : kSm90RowWidths16<Dtype::bf16, Major::mn>;
  }
  return k_major ? kSm90RowWidths16<Dtype::f16, Major::k> : kSm90RowWidths16<Dtype::f16, Major::mn>;
}

std::optional<Sm90GroupedGemmConfig> parse_sm90_grouped_gemm_config(std::string_view text) {
  for (const Sm90GroupedGemmConfig& config : sm90_grouped_gemm_configs()) {
    if (name(config) == text) return config;
  }
  return std::nullopt;
}

bool sm90_grouped_gemm_fits(const GroupedGemmProblem& problem, const Sm90GroupedGemmConfig& config,
                            int multiprocessors) {
  const Promotion promotion = !is_fp8(problem.a.dtype)    ? Promotion::none
                              : problem.b.block.rows == 1 ? Promotion::one_by_one
                                                          : Promotion::product_of_scales;
  return (config.groups == Groups::rows) == over_rows(problem) &&
         config.gemm.promotion == promotion && config.gemm.a == problem.a.dtype &&
         config.gemm.b == problem.b.dtype && config.gemm.a_major == problem.a.major &&
         config.gemm.b_major == problem.b.major &&
         config.gemm.cluster <= std::max(1, multiprocessors) &&
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

double sm90_row_tile_clocks(const GroupedGemmProblem& problem, const Sm90GemmConfig& gemm) {
  const Speed of = speed(gemm);
  return static_cast<double>(ceil_div(problem.k, slice_elements(gemm))) * gemm.tile_m *
             gemm.tile_n / 32 / of.utilisation +
         of.between;
}

namespace {

// The sizes of groups that a choice is judged by, since only the device knows them: even ones, and eight whose last
// tiles are half full on average. Their deviations from that are the eighths of a normal distribution, because rounds
// of the grid jump: five groups of 4096 rows take 15 or 16 rounds of clusters, equally often.
struct Spread {
  bool even;
  double deviations;
  double weight;
};
constexpr double kEvenWeight = 0.25;
constexpr double kEighth = (1 - kEvenWeight) / 8;
constexpr Spread kSpreads[] = {
    {true, 0, kEvenWeight},   {false, -1.534, kEighth}, {false, -0.887, kEighth},
    {false, -0.489, kEighth}, {false, -0.157, kEighth}, {false, 0.157, kEighth},
    {false, 0.489, kEighth},  {false, 0.887, kEighth},  {false, 1.534, kEighth}};

// The tiles, or slices, of so many rows that all groups have together.
double pieces(const GroupedGemmProblem& problem, const Spread& spread, double piece) {
  const auto groups = static_cast<double>(problem.groups);
  const auto rows =
      static_cast<double>(problem.expected_rows > 0 ? problem.expected_rows : problem.rows);
  // A single group has no spread. FP8 keeps it, as it was measured: its tiles find their width by the sizes anyway.
  const bool single = problem.groups == 1 && !is_fp8(problem.a.dtype);
  if (spread.even || single) return groups * std::ceil(rows / groups / piece);
  return std::max(1.0, rows / piece + groups / 2 + spread.deviations * std::sqrt(groups / 12));
}

double rounds(double tiles, int multiprocessors, const Sm90GemmConfig& gemm) {
  return std::ceil(tiles / std::max(1, multiprocessors / gemm.cluster));
}

double launch_clocks(const Sm90GemmConfig& gemm, double rounds, double tile_clocks) {
  return rounds * tile_clocks + kFirstTile + (gemm.cluster > 1 ? kClusterOverhead : 0);
}

double clocks_over_rows(const GroupedGemmProblem& problem, const Sm90GemmConfig& gemm,
                        const Spread& spread, int multiprocessors) {
  const double tiles =
      pieces(problem, spread, gemm.tile_m) * static_cast<double>(tiles_across(problem, gemm));
  return launch_clocks(gemm, rounds(tiles, multiprocessors, gemm),
                       sm90_row_tile_clocks(problem, gemm));
}

double clocks_over_contraction(const GroupedGemmProblem& problem, const Sm90GemmConfig& gemm,
                               const Spread& spread, int multiprocessors) {
  const auto groups = static_cast<double>(problem.groups);
  const double tiles = groups * static_cast<double>(ceil_div(problem.n, gemm.tile_m)) *
                       static_cast<double>(tiles_across(problem, gemm));
  const double slices = std::max(1.0, pieces(problem, spread, kBlock) / groups);
  const Speed of = speed(gemm);
  return launch_clocks(gemm, rounds(tiles, multiprocessors, gemm),
                       slices * gemm.tile_m * gemm.tile_n / 32 / of.utilisation + of.between);
}

// Whether rows of the result that are not whole 16 bytes leave such a tile element by element. A launch by sizes takes
// no such width.
bool stores_elements(const GroupedGemmProblem& problem, const Sm90GemmConfig& gemm) {
  return over_rows(problem) && problem.n * size_bytes(problem.out_dtype) % 16 != 0 &&
         !stores_rows(gemm);
}

double clocks_with(const GroupedGemmProblem& problem, const Sm90GroupedGemmConfig& config,
                   const Spread& spread, int multiprocessors) {
  if (config.groups == Groups::contraction) {
    return clocks_over_contraction(problem, config.gemm, spread, multiprocessors);
  }
  if (config.width == Width::fixed) {
    return clocks_over_rows(problem, config.gemm, spread, multiprocessors);
  }
  double least = std::numeric_limits<double>::infinity();
  for (const Sm90GroupedGemmConfig& width : sm90_row_widths(config.gemm)) {
    if (stores_elements(problem, width.gemm)) continue;
    least = std::min(least, clocks_over_rows(problem, width.gemm, spread, multiprocessors));
  }
  return least;
}

}  // namespace

double sm90_grouped_gemm_clocks(const GroupedGemmProblem& problem,
                                const Sm90GroupedGemmConfig& config, int multiprocessors) {
  double mean = 0;
  for (const Spread& spread : kSpreads) {
    mean += spread.weight * clocks_with(problem, config, spread, multiprocessors);
  }
  return mean;
}

const Sm90GroupedGemmConfig& choose_sm90_grouped_gemm(const GroupedGemmProblem& problem,
                                                      int multiprocessors) {
  const Sm90GroupedGemmConfig* best = nullptr;
  double best_clocks = 0;
  for (const Sm90GroupedGemmConfig& config : sm90_grouped_gemm_configs()) {
    // Fixed widths are for whoever names one, and so is what has not run on a GPU yet: 16-bit widths by sizes.
    const bool is_by_name =
        is_row_width(config) || (config.width == Width::by_sizes && !is_fp8(config.gemm.a));
    // f32 results leave alike from all tiles.
    const bool is_slow = config.width == Width::fixed && is_16bit(problem.out_dtype) &&
                         stores_elements(problem, config.gemm);
    if (is_by_name || is_slow || !sm90_grouped_gemm_fits(problem, config, multiprocessors))
      continue;
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
