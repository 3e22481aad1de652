#include "check/judge/judge_quantizer.hpp"

#include "check/reference/on_host.hpp"
#include "check/data/quantized_copies.hpp"
#include "core/checks.hpp"
#include "core/message.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace octet {
namespace {

// Apart from the streams that make data and draw strips.
constexpr std::uint32_t kTileStream = 0x71;

Part scales_of(const Part& part, BlockShape block) {
  return {part.row / block.rows, ceil_div(part.rows, block.rows), part.col / block.cols,
          ceil_div(part.cols, block.cols)};
}

std::int64_t differences_of_tile(const QuantizedView& given, const TensorView& input,
                                 const OracleRules& rules, const Part& part) {
  const PartOnHost x(input, part);
  const PartOnHost values(given.values, part);
  const PartOnHost scales(given.scales, scales_of(part, rules.block));
  const OracleTensor wanted = quantize_oracle(x.view(), rules, 1);
  return count_differences({values.view(), scales.view(), rules.block}, wanted.view());
}

}  // namespace

std::vector<std::int64_t> judged_tiles(std::int64_t row_tiles, std::int64_t col_tiles,
                                       std::uint64_t seed) {
  const std::int64_t total = row_tiles * col_tiles;
  std::vector<std::int64_t> tiles;
  if (total <= kJudgedTiles) {
    tiles.resize(static_cast<std::size_t>(total));
    std::iota(tiles.begin(), tiles.end(), 0);
    return tiles;
  }
  tiles = {0, col_tiles - 1, total - col_tiles, total - 1};
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(kJudgedTiles); ++i) {
    const auto draw = [&](std::uint64_t counter, std::int64_t bound) {
      return std::int64_t{random_below({seed, kTileStream}, RandomUse::sample, counter,
                                       static_cast<std::uint32_t>(bound))};
    };
    tiles.push_back(draw(2 * i, row_tiles) * col_tiles + draw(2 * i + 1, col_tiles));
  }
  std::sort(tiles.begin(), tiles.end());
  tiles.erase(std::unique(tiles.begin(), tiles.end()), tiles.end());
  return tiles;
}

GateResult judge_quantizer(const std::string& tensor, const QuantizedView& given,
                           const TensorView& input, const OracleRules& rules,
                           const JudgeOptions& options) {
  if (input.device.type == DeviceType::cpu) {
    return judge_quantized(tensor, given, quantize_oracle(input, rules, options.threads).view());
  }
  const std::int64_t row_tiles = ceil_div(input.rows(), kBlock);
  const std::int64_t col_tiles = ceil_div(input.cols(), kBlock);
  const std::vector<std::int64_t> tiles = judged_tiles(row_tiles, col_tiles, options.seed);
  std::int64_t differences = 0;
  for (const std::int64_t tile : tiles) {
    const std::int64_t row = tile / col_tiles * kBlock;
    const std::int64_t col = tile % col_tiles * kBlock;
    differences += differences_of_tile(
        given, input, rules,
        {row, std::min(kBlock, input.rows() - row), col, std::min(kBlock, input.cols() - col)});
  }
  std::string value = text(differences, " differ");
  if (static_cast<std::int64_t>(tiles.size()) < row_tiles * col_tiles) {
    value += text(" in ", tiles.size(), " sampled tiles");
  }
  return {"Q",   tensor,       differences == 0,
          value, "equal bits", std::numeric_limits<double>::quiet_NaN()};
}

}  // namespace octet
