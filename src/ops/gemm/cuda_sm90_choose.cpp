#include "ops/gemm/cuda_sm90_choose.hpp"

#include "core/checks.hpp"
#include "core/message.hpp"
#include "ops/gemm/problem.hpp"

namespace octet {
namespace {

struct Tile {
  int m;
  int n;
  double utilisation;  // of the tensor cores in the main loop
};

// Utilisations of 256x128 and 128x256 were measured with the prototype main loop (0.937; two
// operations per accumulator 0.66); those of the smaller tiles are estimates until measured.
constexpr Tile kRowsBySquares[] = {
    {256, 128, 0.93}, {128, 256, 0.93}, {128, 128, 0.80}, {64, 256, 0.75}};
constexpr Tile kRowsByRows[] = {{256, 128, 0.66}, {128, 128, 0.60}, {64, 256, 0.55}};

constexpr double kTileOverhead = 1500;  // clocks: ring fill and exposed epilogue, estimated

std::span<const Tile> tiles(Promotion promotion) {
  if (promotion == Promotion::one_by_one) return kRowsByRows;
  return kRowsBySquares;
}

double utilisation(const Sm90GemmConfig& config) {
  for (const Tile& tile : tiles(config.promotion)) {
    if (tile.m == config.tile_m && tile.n == config.tile_n) return tile.utilisation;
  }
  return 0.5;
}

}  // namespace

std::span<const Sm90GemmConfig> sm90_gemm_configs() { return kSm90GemmConfigs; }

double sm90_gemm_clocks(const GemmProblem& problem, const Sm90GemmConfig& config,
                        int multiprocessors) {
  const std::int64_t tile_count =
      ceil_div(problem.m, config.tile_m) * ceil_div(problem.n, config.tile_n);
  const double waves = static_cast<double>(ceil_div(tile_count, multiprocessors));
  const double slices = static_cast<double>(ceil_div(problem.k, kBlock));
  const double slice_clocks = config.tile_m * config.tile_n / 32.0 / utilisation(config);
  return waves * (slices * slice_clocks + kTileOverhead);
}

const Sm90GemmConfig& choose_sm90_gemm(const GemmProblem& problem, int multiprocessors) {
  const Promotion promotion =
      scales_one_by_one(problem) ? Promotion::one_by_one : Promotion::product_of_scales;
  const Sm90GemmConfig* best = nullptr;
  double best_clocks = 0;
  for (const Sm90GemmConfig& config : sm90_gemm_configs()) {
    if (config.promotion != promotion || config.a != problem.a.dtype ||
        config.b != problem.b.dtype) {
      continue;
    }
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
