#include "ops/fp8_output/cpu_strips.hpp"

#include "core/checks.hpp"
#include "core/workspace.hpp"
#include "cpu/outputs.hpp"
#include "cpu/threads.hpp"
#include "ops/group_table/problem.hpp"
#include "ops/quantize/cpu_simd.hpp"

#include <algorithm>
#include <atomic>
#include <optional>

namespace octet {
namespace {

// One cache line of padding: rows a power of two apart would share cache sets.
std::int64_t strip_pitch(const QuantizeProblem& output) {
  const std::int64_t line = 64 / size_bytes(output.input_dtype);
  return round_up(output.cols, line) + line;
}

std::size_t strip_bytes(const QuantizeProblem& output) {
  return aligned_bytes(static_cast<std::size_t>(
      std::min(kBlock, output.rows) * strip_pitch(output) * size_bytes(output.input_dtype)));
}

std::int64_t strips_at_once(const QuantizeProblem& output, int threads) {
  return std::min<std::int64_t>(threads, output.groups > 0
                                             ? max_token_blocks(output.groups, output.rows)
                                             : ceil_div(output.rows, kBlock));
}

}  // namespace

std::size_t fp8_strips_workspace_bytes(const QuantizeProblem& output, int threads) {
  return static_cast<std::size_t>(strips_at_once(output, threads)) * strip_bytes(output);
}

void write_fp8_strips(const QuantizeProblem& output, const Fp8Copies& copies,
                      const TensorView& table, const RunContext& context,
                      InstructionSet instructions,
                      const std::function<void(const Fp8Strip&)>& make) {
  const QuantizeArgs args{{}, copies.out, copies.transposed, table, {}};
  std::optional<GroupRows> groups;
  if (output.groups > 0) groups.emplace("quantize", table, output.groups, output.rows);
  const std::int64_t strips = groups ? groups->token_blocks() : ceil_div(output.rows, kBlock);
  std::atomic<std::int64_t> next = 0;
  // One task per piece of the workspace; each takes strips until none are left.
  parallel_for(context.threads, strips_at_once(output, context.threads), [&](std::int64_t piece) {
    Fp8Strip strip;
    strip.data = static_cast<char*>(context.workspace.data) +
                 static_cast<std::size_t>(piece) * strip_bytes(output);
    strip.pitch = strip_pitch(output);
    for (std::int64_t i = next++; i < strips; i = next++) {
      const std::int64_t group = groups ? groups->group_of(i) : 0;
      const std::int64_t end = groups ? groups->end(group) : output.rows;
      strip.row =
          groups ? groups->begin(group) + (i - groups->first_block(group)) * kBlock : i * kBlock;
      strip.rows = std::min(kBlock, end - strip.row);
      make(strip);
      quantize_strip_cpu_simd(output, args, i, strip.data, strip.pitch, instructions);
    }
  });
  if (groups && output.block && output.tail == GroupTail::zero) {
    clear_rows(copies.out, groups->grouped_rows(), context.threads);
  }
  if (output.block) clear_padding(copies.out);
  if (output.transposed_block) clear_padding(copies.transposed);
}

}  // namespace octet
