// Which width a launch by sizes takes, and problems that make it take each of them.
#pragma once

#include "device/scheduler/grouped_tiles.hpp"
#include "ops/grouped_gemm/sm90/wgmma.hpp"

#include <random>
#include <vector>

namespace octet::testing {

// What a launch of all widths takes for sizes that its group table has.
inline int width_taken(const GroupedGemmProblem& problem, const std::vector<std::int64_t>& sizes,
                       int multiprocessors) {
  const std::span<const Sm90GroupedGemmConfig> widths =
      sm90_row_widths({.a = problem.a.dtype, .b_major = problem.b.major});
  std::int32_t counts[kRowWidths] = {};
  std::int32_t tile_clocks[kRowWidths] = {};  // 0: not to be taken
  std::int64_t down = 0;
  for (const std::int64_t size : sizes) down += (size + 127) / 128;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const Sm90GemmConfig& gemm = widths[i].gemm;
    counts[i] = static_cast<std::int32_t>(down * ((problem.n + gemm.tile_n - 1) / gemm.tile_n));
    tile_clocks[i] = static_cast<std::int32_t>(sm90_row_tile_clocks(problem, gemm));
  }
  return widths[static_cast<std::size_t>(
                    quickest_list(counts, tile_clocks, Divisor(multiprocessors)))]
      .gemm.tile_n;
}

struct WidthCase {
  GroupedGemmProblem problem;
  std::vector<std::int64_t> sizes;
};

inline constexpr int kFewMultiprocessors = 3;

// For 16-bit operands. N just fits one column of this width, so that narrower ones have two and wider ones waste more. Many tiles per
// block, in groups of every remainder, some empty, and rows behind the last group.
inline WidthCase case_of_width(const Sm90GemmConfig& gemm, std::int64_t slices) {
  WidthCase one;
  GroupedGemmProblem& problem = one.problem;
  problem.n = gemm.tile_n - 8;
  problem.k = slices * slice_elements(gemm) - 24;
  problem.a = {gemm.a, kUnscaled, gemm.a_major};
  problem.b = {gemm.b, kUnscaled, gemm.b_major};
  problem.max_multiprocessors = kFewMultiprocessors;
  std::mt19937_64 random(gemm.tile_n);
  problem.rows = 200;
  for (int group = 0; group < 24; ++group) {
    one.sizes.push_back(group % 5 == 0 ? 0 : static_cast<std::int64_t>(1 + random() % 300));
    problem.rows += one.sizes.back();
  }
  problem.groups = static_cast<std::int64_t>(one.sizes.size());
  return one;
}

}  // namespace octet::testing
