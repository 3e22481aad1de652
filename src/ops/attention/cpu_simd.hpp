// The SIMD implementation with its instruction set given: what the implementations run with the best
// set of the machine, and what the tests run with each.
#pragma once

#include "cpu/instruction_set.hpp"
#include "ops/attention/problem.hpp"

#include <cstdint>

namespace octet::attention {

// A block has as many queries, or keys, as lanes: a row of a tile is one key (or query) against all
// lanes. Sums go over rows or over columns of a head, never over lanes, so that every instruction
// set gives the same bits.
inline constexpr std::int64_t kLanes = 64;
inline constexpr std::int64_t kTileRows = 64;

// The rows of a tile that a lane sees: [begin, end).
struct LaneRanges {
  alignas(64) std::int32_t begin[kLanes];
  alignas(64) std::int32_t end[kLanes];
};

// What a query has seen so far.
struct SoftmaxState {
  alignas(64) float largest[kLanes];
  alignas(64) float sum[kLanes];
  alignas(64) float rescale[kLanes];  // of what was summed before the last tile
};

// By lane or by row of a tile.
struct SoftmaxOfForward {
  alignas(64) float lse[kLanes];
  alignas(64) float delta[kLanes];
};

// The kernels of one instruction set. A tile is [rows][kLanes]; `ranges` may be null: all is visible.
struct Kernels {
  // By dtype: f32, f16, bf16.
  void (*widen[3])(const void* from, std::int64_t count, float* to);
  void (*narrow[3])(const float* from, std::int64_t count, void* to);
  // tile[r][lane] = sum_c rows[r][c] * lanes[c][lane]
  void (*multiply)(const float* rows, std::int64_t count, std::int64_t dim, const float* lanes,
                   float* tile);
  // sum[c][lane] += sum_r rows[r][c] * tile[r][lane]
  void (*accumulate)(const float* rows, std::int64_t count, std::int64_t dim, const float* tile,
                     float* sum);
  // sum[c][lane] *= factor[lane]
  void (*scale_lanes)(const float* factor, std::int64_t dim, float* sum);
  // Scores become probabilities, up to a factor per lane.
  void (*softmax)(float scale, std::int64_t count, const LaneRanges* ranges, float* tile,
                  SoftmaxState& state);
  // Scores become p = exp(scale * s - lse), and dp becomes p * (dp - delta).
  void (*gradient_by_lane)(float scale, std::int64_t count, const LaneRanges* ranges,
                           const SoftmaxOfForward& softmax, float* p, float* ds);
  void (*gradient_by_row)(float scale, std::int64_t count, const LaneRanges* ranges,
                          const SoftmaxOfForward& softmax, float* p, float* ds);
};
const Kernels& kernels_of(InstructionSet instructions);

// Scratch memory of one thread: floats.
std::int64_t scratch_floats(const AttentionProblem& problem);

void run_forward(const AttentionProblem& problem, const AttentionForwardArgs& args,
                 const RunContext& context, InstructionSet instructions);
void run_backward(const AttentionProblem& problem, const AttentionBackwardArgs& args,
                  const RunContext& context, InstructionSet instructions);
std::size_t forward_workspace(const AttentionProblem& problem, int threads);
std::size_t backward_workspace(const AttentionProblem& problem, int threads);

}  // namespace octet::attention
