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

// Measured on an H200 with the in-kernel clock: 256x128 and 128x256 0.94; with two operations per
// accumulator and paired columns 0.70. From the time of whole runs: that 128x256 is ahead where there is one
// wave of tiles, 128x128 of squares, and the three of 64 rows, at 410, 280 and 250 clocks per slice. The
// values of the other tiles are estimates.
constexpr Tile kRowsBySquares[] = {
    {256, 128, Columns::in_order, 0.94}, {128, 256, Columns::in_order, 0.95},
    {128, 192, Columns::in_order, 0.93}, {128, 160, Columns::in_order, 0.85},
    {128, 128, Columns::in_order, 0.90}, {64, 128, Columns::in_order, 0.62},
    {64, 64, Columns::in_order, 0.45},   {64, 32, Columns::in_order, 0.25}};
constexpr Tile kRowsByRows[] = {
    {256, 128, Columns::paired, 0.70},   {256, 128, Columns::in_order, 0.61},
    {128, 128, Columns::in_order, 0.56}, {128, 128, Columns::paired, 0.62},
    {64, 128, Columns::paired, 0.45},    {64, 64, Columns::paired, 0.36}};

// Clocks per tile: ring fill and exposed epilogue, from runs of 8 to 64 slices.
constexpr double kTileOverhead = 3000;
// The same between two staged tiles, whose 16-bit results leave under the products of the next: 1350 to 1500
// clocks less at 4 to 64 slices, by the in-kernel clock. f32 results still take as long as before, but no other
// tile stores them quicker.
constexpr double kStagedTileOverhead = 1600;
constexpr double kJoinedTileOverhead = 2800;
// Of one wide wave, whose staging memory is its own.
constexpr double kWideWaveOverhead = 1000;
// Where 16-bit rows are not whole 16 bytes, of a wave that lanes can store element by element only (stores_rows).
constexpr double kElementsOverhead = 9000;
// Clocks per launch of clusters: the blocks of a cluster start and end together.
constexpr double kClusterOverhead = 1400;
// The share of its clocks that a cluster saves at the power limit, by reading less from the L2 cache. Tiles in turn have
// it in their utilisation.
constexpr double kClusterSaves = 0.02;
// TMA zero-fill of rows beyond M is slower than a real load: measured 1.4x per slice.
constexpr double kZeroFill = 1.4;
// Bytes per clock from the L2 cache to each multiprocessor when all of them load.
constexpr double kL2Bytes = 60;

// Not promoted: fitted to sweeps of 12 layers in bf16 and with fast_accumulation, three products each, every tile and
// cuBLASLt in turns on an H200. The tile that is chosen has 0.993 and 0.996 of the best one's rate.
constexpr Tile kUnpromoted[] = {{128, 256, Columns::in_order, 0.96},
                                {256, 128, Columns::in_order, 0.935},
                                {128, 128, Columns::in_order, 0.90},
                                {64, 128, Columns::in_order, 0.62},
                                {64, 64, Columns::in_order, 0.45}};
// Where consumers take tiles in turn, of the same sweeps. Their stores cost nothing between two tiles.
constexpr Tile kInTurn[] = {{128, 192, Columns::in_order, 0.96},
                            {128, 128, Columns::in_order, 0.94}};

std::span<const Tile> tiles(const Sm90GemmConfig& config) {
  if (config.in_turn) return kInTurn;
  if (config.promotion == Promotion::none) return kUnpromoted;
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

// Whether results leave element by element where other tiles store rows. f32 results and sums leave alike from all tiles.
bool is_stored_by_element(const GemmProblem& problem, const Sm90GemmConfig& config) {
  return is_16bit(problem.out_dtype) && !problem.accumulate && problem.n % 8 != 0 &&
         !stores_rows(config);
}

double utilisation(const Sm90GemmConfig& config) {
  for (const Tile& tile : tiles(config)) {
    if (tile.m == config.tile_m && tile.n == config.tile_n && tile.columns == config.columns) {
      return tile.utilisation;
    }
  }
  return 0.5;
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
          std::span<const Sm90GemmConfig>(kSm90NarrowConfigs)}) {
      configs.insert(configs.end(), list.begin(), list.end());
    }
    return configs;
  }();
  return all;
}

// The narrow tiles have not run on a GPU yet: they are for octet tune, which gates what it takes, and whoever names one.
std::span<const Sm90GemmConfig> sm90_gemm_choices() {
  const std::span<const Sm90GemmConfig> all = sm90_gemm_configs();
  return all.first(all.size() - std::size(kSm90NarrowConfigs));
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
  const double waves = static_cast<double>(ceil_div(clusters, at_once));
  const double slices = static_cast<double>(ceil_div(problem.k, slice_elements(config)));
  const double tensor_clocks = config.tile_m * config.tile_n / 32.0 / utilisation(config);
  const double supply_clocks = supply_bytes(problem, config) / kL2Bytes;
  const double zero_fill = problem.m < config.tile_m && !is_load_bound(config) ? kZeroFill : 1;
  const bool by_element = is_stored_by_element(problem, config);
  const double between = by_element                     ? kElementsOverhead
                         : config.in_turn               ? 0
                         : !is_staged(config)           ? kTileOverhead
                         : joins_waves(config)          ? kJoinedTileOverhead
                         : crosses_scale_blocks(config) ? kWideWaveOverhead
                                                        : kStagedTileOverhead;
  const double clocks = waves * slices * zero_fill * std::max(tensor_clocks, supply_clocks) +
                        (waves - 1) * between + (by_element ? kElementsOverhead : kTileOverhead);
  if (config.cluster == 1) return clocks;
  return clocks * (config.in_turn ? 1 : 1 - kClusterSaves) + kClusterOverhead;
}

const Sm90GemmConfig& choose_sm90_gemm(const GemmProblem& problem, int multiprocessors) {
  const Sm90GemmConfig* best = nullptr;
  double best_clocks = 0;
  for (const Sm90GemmConfig& config : sm90_gemm_choices()) {
    if (!sm90_gemm_fits(problem, config)) continue;
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
