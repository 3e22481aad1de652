// Which problems the Hopper quantiser takes. Compiled with and without CUDA.
#include "ops/quantize/forms.hpp"
#include "ops/quantize/problem.hpp"

#include "core/checks.hpp"
#include "ops/quantize/experts/token_tile.hpp"

namespace octet {
namespace {

// Of all matrices, or of all groups as long as they may be.
std::int64_t rows_of_tiles(const QuantizeProblem& problem) {
  if (problem.groups > 0) return max_token_tiles({problem.groups, problem.rows}, true);
  constexpr std::int64_t kMany = std::int64_t{1} << 32;
  const std::int64_t tiles = ceil_div(problem.rows, kBlock);
  if (problem.batch == 0) return tiles;
  return tiles > kMany / problem.batch ? kMany : tiles * problem.batch;
}

std::string refuse(const QuantizeProblem& problem, const Machine& machine) {
  if (const std::string refusal = refuse_off_hopper(problem.device, machine); !refusal.empty()) {
    return refusal;
  }
  if (!has_plain_blocks(problem)) {
    return "takes blocks of 128, without given scales and without mx inside";
  }
  if (problem.block == kBlock128x1 || problem.transposed_block == kBlock128x1) {
    return "takes 1x128 and 128x128 blocks, the problem has 128x1";
  }
  if (rows_of_tiles(problem) > (std::int64_t{1} << 31) / ceil_div(problem.cols, kBlock) - 1) {
    return "more than 2^31 tiles of 128x128";
  }
  return "";
}

using Launch = void (*)(const QuantizeProblem&, const QuantizeArgs&, const RunContext&);

Launch launch_of(const QuantizeProblem& problem) {
  if (problem.batch > 0) return launch_sm90_batch;
  return problem.groups > 0 ? launch_sm90_groups : launch_sm90_tile;
}

}  // namespace

constinit const QuantizeImplementation kQuantizeCudaSm90Tile{
    "cuda_sm90_tile", refuse, [](const QuantizeProblem& problem, const Machine&) {
      return planned<QuantizeArgs>(problem, "128x128", 0, launch_of(problem));
    }};

}  // namespace octet
