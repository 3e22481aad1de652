// G5, G6 and Q: gates that ask for equal bits.
#include "check/cuda_gates.hpp"
#include "check/judge/compare_outputs.hpp"
#include "check/judge/judge.hpp"
#include "check/reference/decode.hpp"
#include "check/reference/on_host.hpp"
#include "core/checks.hpp"
#include "core/message.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace octet {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Distinct from the streams that make data and draw strips.
constexpr std::uint32_t kTileStream = 0x71;

// The first block that begins in a part, which begins with a block, and how many follow.
std::int64_t first_block(std::int64_t at, std::int64_t block) {
  return block == kAll ? 0 : at / block;
}

Part scales_of(const Part& part, BlockShape block) {
  return {first_block(part.row, block.rows), blocks_along(part.rows, block.rows),
          first_block(part.col, block.cols), blocks_along(part.cols, block.cols)};
}

std::int64_t differences_of_tile(const QuantizedView& given, const TensorView& input,
                                 const OracleRules& rules, const Part& part) {
  const PartOnHost x(input, part);
  const PartOnHost values(given.values, part);
  const PartOnHost scales(given.scales, scales_of(part, rules.block));
  const OracleTensor wanted = quantize_oracle(x.view(), rules, 1);
  return count_differences({values.view(), scales.view(), rules.block}, wanted.view());
}

// Whole rows of a tensor on CUDA, each with its scale.
GateResult judge_rows(const std::string& tensor, const QuantizedView& given,
                      const TensorView& input, const OracleRules& rules,
                      const JudgeOptions& options) {
  const std::vector<std::int64_t> rows = judged_rows(input.rows(), input.cols(), options);
  const RowsOnHost x(input, rows);
  const RowsOnHost values(given.values, rows);
  const RowsOnHost scales(given.scales, rows);
  const OracleTensor wanted = quantize_oracle(x.view(), rules, options.threads);
  const std::int64_t differences =
      count_differences({values.view(), scales.view(), rules.block}, wanted.view());
  std::string value = text(differences, " differ");
  if (static_cast<std::int64_t>(rows.size()) < input.rows()) {
    value += text(" in ", rows.size(), " sampled rows");
  }
  return {"Q", tensor, differences == 0, value, "equal bits", kNaN};
}

}  // namespace

GateResult judge_differences(const std::string& gate, const std::string& tensor,
                             std::int64_t differences) {
  return {gate, tensor, differences == 0, text(differences, " differ"), "equal bits", kNaN};
}

GateResult judge_g5(const std::string& tensor, const TensorView& first, const TensorView& second) {
  return judge_differences("G5", tensor, compare_whole_outputs(first, second).different);
}

GateResult judge_g5(const std::string& tensor, const QuantizedView& first,
                    const QuantizedView& second) {
  return judge_differences("G5", tensor, count_differences(first, second));
}

GateResult judge_quantized(const std::string& tensor, const QuantizedView& given,
                           const QuantizedView& wanted) {
  return judge_differences("Q", tensor, count_differences(given, wanted));
}

GateResult judge_g6(const std::string& tensor, const GuardFindings& first,
                    const GuardFindings& second) {
  const std::int64_t unwritten = first.unwritten + second.unwritten;
  const std::int64_t outside = first.outside + second.outside;
  const std::int64_t bad_padding = first.bad_padding + second.bad_padding;
  std::string value = text(unwritten, " unwritten, ", outside, " bytes outside");
  if (bad_padding != 0) value += text(", ", bad_padding, " of the padding not cleared");
  return {"G6", tensor, unwritten == 0 && outside == 0 && bad_padding == 0, value, "0, 0", kNaN};
}

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
                           const TensorView& input, const OracleRules& given_rules,
                           const JudgeOptions& options) {
  OracleRules rules = given_rules;
  if (input.device.type == DeviceType::cpu) {
    return judge_quantized(tensor, given, quantize_oracle(input, rules, options.threads).view());
  }
  if (rules.block == kEachColumn) {
    rules.block = kEachRow;
    return judge_rows(tensor, transposed(given), transposed(input), rules, options);
  }
  if (rules.block == kEachRow) return judge_rows(tensor, given, input, rules, options);
  if (rules.block == kWholeTensor) rules.amax = static_cast<float>(cuda::largest_finite(input));
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
  return {"Q", tensor, differences == 0, value, "equal bits", kNaN};
}

}  // namespace octet
