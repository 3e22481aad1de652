// The configurations of the Hopper product: their text form, and the choice of one for a problem.
#include "core/checks.hpp"
#include "core/message.hpp"
#include "device/mma/layout.hpp"
#include "ops/gemm/sm90/compiled.hpp"
#include "ops/gemm/sm90/wgmma.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

namespace octet {
namespace {

struct Tile {
  int m;
  int n;
  Columns columns;
  double utilisation;  // of the tensor cores in the main loop
};

// Promoted: fitted to 374 products of the layers 1 to 14 of the seeds 1 to 9 of `octet bench gemm --random`, those of less
// than 0.3 ms, every tile in turns on an H200. The tile that is chosen has 0.991 of the best one's rate there. Of few rows
// and of large tiles over the 84 layers the choices are those of earlier sweeps.
constexpr Tile kRowsBySquares[] = {
    {256, 128, Columns::in_order, 0.94},  {128, 256, Columns::in_order, 0.905},
    {128, 192, Columns::in_order, 0.88},  {128, 160, Columns::in_order, 0.87},
    {128, 128, Columns::in_order, 0.935}, {64, 128, Columns::in_order, 0.705},
    {64, 64, Columns::in_order, 0.43},    {64, 32, Columns::in_order, 0.273}};
constexpr Tile kRowsByRows[] = {{256, 128, Columns::paired, 0.624},
                                {256, 128, Columns::in_order, 0.611},
                                {128, 128, Columns::in_order, 0.583},
                                {64, 128, Columns::paired, 0.511},
                                {64, 64, Columns::paired, 0.331}};

// Clocks of the same fit. Of a launch besides its tiles:
constexpr double kLaunch = 4400;
// And more where the blocks of a cluster start and end together: the fit says 470, 2048 cubed 1700.
constexpr double kClusterLaunch = 800;
// What the end of a tile of 256x128 exposes, smaller ones in proportion: results that are stored by boxes; 16-bit rows that
// are not whole 16 bytes; and those that lanes can store element by element only (stores_rows).
constexpr double kTileEnd = 250;
constexpr double kBoxes = 2500;
constexpr double kRows = 3300;
constexpr double kElements = 7700;
// Blocks of a cluster wait for each other where lanes store rows: for each wave of tiles.
constexpr double kClusterRows = 1100;
// Between two staged tiles, whose results leave under the products of the next.
constexpr double kStaged = 1600;
constexpr double kStagedWide = 1250;    // of one wide wave, whose staging memory is its own
constexpr double kStagedJoined = 2000;  // of joined waves, which end together
// A tile begins in the first stage: its load takes so long, of which the slices since that stage's last use hide a part.
constexpr double kStageLatency = 970;
// TMA zero-fill of rows beyond M is slower than a real load.
constexpr double kZeroFill = 1.08;
// Bytes per clock from the L2 cache to each multiprocessor when all of them load.
constexpr double kL2Bytes = 70;
// What loads cost at the power limit: a share of the clocks for each byte that a slice loads per element of the tile. 256x128
// saves 2 % in clusters, which load 1 byte per element instead of 1.5 (docs/experiments.md).
constexpr double kLoadPower = 0.04;

// Not promoted: from sweeps of 12 layers in bf16 and with fast_accumulation, three products each, every tile and cuBLASLt
// in turns of 50 ms on an H200, and from the published products.
constexpr Tile kUnpromoted[] = {{128, 256, Columns::in_order, 0.96},
                                {256, 128, Columns::in_order, 0.935},
                                {128, 128, Columns::in_order, 0.89},
                                {64, 128, Columns::in_order, 0.655},
                                {64, 64, Columns::in_order, 0.49}};
// The same where b is contiguous along its rows: 256x128 takes four loads of panels per stage.
constexpr Tile kUnpromotedPanels[] = {{128, 256, Columns::in_order, 0.96},
                                      {256, 128, Columns::in_order, 0.91},
                                      {128, 128, Columns::in_order, 0.865},
                                      {64, 128, Columns::in_order, 0.62}};
// Where consumers take tiles in turn, of the same sweeps. Their stores cost nothing between two tiles.
constexpr Tile kInTurn[] = {{128, 192, Columns::in_order, 0.948},
                            {128, 128, Columns::in_order, 0.937}};

std::span<const Tile> tiles(const Sm90GemmConfig& config) {
  if (config.in_turn) return kInTurn;
  if (config.promotion == Promotion::none) {
    if (config.b_major == Major::mn) return kUnpromotedPanels;
    return kUnpromoted;
  }
  if (config.promotion == Promotion::one_by_one) return kRowsByRows;
  return kRowsBySquares;
}

Promotion promotion_of(const GemmProblem& problem) {
  if (!is_fp8(problem.a.dtype)) return Promotion::none;
  if (is_whole_row(problem.a.block)) {
    return problem.fast_accumulation ? Promotion::none : Promotion::sum;
  }
  return scales_one_by_one(problem) ? Promotion::one_by_one : Promotion::product_of_scales;
}

const char* blocks_of(Promotion promotion) {
  switch (promotion) {
    case Promotion::product_of_scales: return "1x128.128x128 ";
    case Promotion::one_by_one: return "1x128.1x128 ";
    case Promotion::sum: return "1xall.1xall ";
    case Promotion::none: break;
  }
  return "unpromoted ";
}

const char* name(Major major) { return major == Major::k ? "k" : "mn"; }

// Bytes that a block loads from the L2 cache per stage.
int supply_bytes(const GemmProblem& problem, const Sm90GemmConfig& config) {
  const auto beyond_m = static_cast<int>(std::max<std::int64_t>(0, config.tile_m - problem.m));
  return loaded_bytes(config) -
         (is_load_bound(config) ? bytes_beyond_m(beyond_m, has_slice_scales(config)) : 0);
}

// Whether 16-bit rows are not whole 16 bytes, so that lanes store them. f32 results and sums leave alike from all tiles.
bool has_odd_rows(const GemmProblem& problem) {
  return is_16bit(problem.out_dtype) && !problem.accumulate && problem.n % 8 != 0;
}

// What the end of a tile exposes where nothing follows it.
double end_clocks(const Sm90GemmConfig& config, bool odd_rows) {
  const double stores = !odd_rows ? kBoxes : stores_rows(config) ? kRows : kElements;
  return kTileEnd + stores * config.tile_m * config.tile_n / (256 * 128);
}

// The same between two tiles.
double between_clocks(const Sm90GemmConfig& config, bool odd_rows, std::int64_t slices,
                      double slice_clocks) {
  if (config.in_turn && (!odd_rows || stores_rows(config))) return 0;
  const double end = odd_rows || !is_staged(config) ? end_clocks(config, odd_rows)
                     : joins_waves(config)          ? kStagedJoined
                     : crosses_scale_blocks(config) ? kStagedWide
                                                    : kStaged;
  if (!stages_unrolled(config)) return end;
  const auto hidden = static_cast<double>((slices - 1) % config.stages) * slice_clocks;
  return end + std::max(0.0, kStageLatency - hidden);
}

double utilisation(const Sm90GemmConfig& config) {
  for (const Tile& tile : tiles(config)) {
    if (tile.m == config.tile_m && tile.n == config.tile_n && tile.columns == config.columns) {
      return tile.utilisation;
    }
  }
  return 0.5;
}

// Not chosen.
bool is_by_name(const Sm90GemmConfig& config) {
  return std::ranges::find(kSm90WideConfigs, config) != std::end(kSm90WideConfigs);
}

}  // namespace

std::string name(const Sm90GemmConfig& c) {
  const bool fp8 = is_fp8(c.a);
  return text(c.tile_m, "x", c.tile_n, "x", c.stages, " ", fp8 ? blocks_of(c.promotion) : "",
              name(c.a), ".", name(c.b),
              fp8 ? "" : text(" ", name(c.a_major), ".", name(c.b_major)),
              c.columns == Columns::paired ? " paired" : "", c.cluster == 2 ? " cluster" : "",
              c.in_turn ? " in turn" : "");
}

std::optional<Sm90GemmConfig> parse_sm90_gemm_config(std::string_view text) {
  for (const Sm90GemmConfig& config : sm90_gemm_configs()) {
    if (name(config) == text) return config;
  }
  return std::nullopt;
}

std::span<const Sm90GemmConfig> sm90_gemm_configs() {
  static const auto all = [] {
    std::vector<Sm90GemmConfig> configs;
    for (const std::span<const Sm90GemmConfig> list :
         {std::span<const Sm90GemmConfig>(kSm90GemmConfigs),
          std::span<const Sm90GemmConfig>(kSm90PromotedConfigs),
          std::span<const Sm90GemmConfig>(kSm90UnpromotedConfigs),
          std::span<const Sm90GemmConfig>(kSm90Configs16<Dtype::bf16>),
          std::span<const Sm90GemmConfig>(kSm90Configs16<Dtype::f16>),
          std::span<const Sm90GemmConfig>(kSm90NarrowConfigs),
          std::span<const Sm90GemmConfig>(kSm90WideConfigs)}) {
      configs.insert(configs.end(), list.begin(), list.end());
    }
    return configs;
  }();
  return all;
}

bool sm90_gemm_fits(const GemmProblem& problem, const Sm90GemmConfig& config) {
  return config.promotion == promotion_of(problem) && config.a == problem.a.dtype &&
         config.b == problem.b.dtype && config.a_major == problem.a.major &&
         config.b_major == problem.b.major &&
         (config.columns == Columns::in_order || problem.n % kPairedGroup == 0);
}

double sm90_gemm_clocks(const GemmProblem& problem, const Sm90GemmConfig& config,
                        int multiprocessors) {
  const std::int64_t clusters = ceil_div(problem.m, config.tile_m * cluster_m(config)) *
                                ceil_div(problem.n, config.tile_n * cluster_n(config));
  const std::int64_t at_once = std::max(1, multiprocessors / config.cluster);
  const auto waves = static_cast<double>(ceil_div(clusters, at_once));
  const std::int64_t slices = ceil_div(problem.k, slice_elements(config));
  const double area = config.tile_m * config.tile_n;
  const double zero_fill = problem.m < config.tile_m && !is_load_bound(config) ? kZeroFill : 1;
  const double slice_clocks = zero_fill * std::max(area / 32 / utilisation(config),
                                                   supply_bytes(problem, config) / kL2Bytes);
  const bool odd_rows = has_odd_rows(problem);
  double clocks = kLaunch + waves * static_cast<double>(slices) * slice_clocks +
                  (waves - 1) * between_clocks(config, odd_rows, slices, slice_clocks) +
                  end_clocks(config, odd_rows);
  if (config.cluster > 1) clocks += kClusterLaunch + (odd_rows ? waves * kClusterRows : 0);
  return clocks * (1 + kLoadPower * loaded_bytes(config) / area);
}

const Sm90GemmConfig& choose_sm90_gemm(const GemmProblem& problem, int multiprocessors) {
  const Sm90GemmConfig* best = nullptr;
  double best_clocks = 0;
  for (const Sm90GemmConfig& config : sm90_gemm_configs()) {
    if (!sm90_gemm_fits(problem, config) || is_by_name(config)) continue;
    if (config.cluster > std::max(1, multiprocessors)) continue;
    const double clocks = sm90_gemm_clocks(problem, config, multiprocessors);
    if (best == nullptr || clocks < best_clocks) {
      best = &config;
      best_clocks = clocks;
    }
  }
  if (best == nullptr)
    fail(ErrorCode::internal, "gemm: no Hopper configuration fits ", describe(problem));
  return *best;
}

}  // namespace octet
