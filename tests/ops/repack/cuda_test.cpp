// The Hopper kernels of repack against the CPU, in every byte of the output's memory, and the index
// maps of the tile that they transpose.
#include "core/checks.hpp"
#include "ops/repack/cuda_sm90_byte_tile.hpp"
#include "ops/repack/problem.hpp"
#include "support/device_image.hpp"
#include "support/foreign_quantized.hpp"
#include "support/on_cuda.hpp"
#include "support/simd.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace octet::testing {
namespace {

using namespace octet::sm90;

TEST(RepackByteTile, HoldsEveryByteOnce) {
  std::set<int> offsets;
  for (int thread = 0; thread < kByteTileThreads; ++thread) {
    for (int i = 0; i < kByteChunk; ++i) {
      const int row = loaded_chunk(thread) * kByteChunk + i;
      const int offset = byte_quad_offset(row, loaded_quad(thread));
      EXPECT_EQ(offset % 4, 0);
      EXPECT_TRUE(offset >= 0 && offset < kByteTile * kByteTile);
      EXPECT_TRUE(offsets.insert(offset).second) << "row " << row;
    }
  }
  EXPECT_EQ(offsets.size(), kByteTile * kByteTile / 4);
}

TEST(RepackByteTile, ReadsTheQuadsOfAChunkInOrder) {
  std::set<std::pair<int, int>> stored;
  for (int thread = 0; thread < kByteTileThreads; ++thread) {
    for (int row = stored_row(thread); row < kByteTile; row += kByteRoundRows) {
      const int chunk = stored_chunk(thread);
      EXPECT_TRUE(stored.insert({row, chunk}).second);
      for (int quad = 0; quad < 4; ++quad) {
        EXPECT_EQ(byte_quad_offset(row, 4 * chunk + quad),
                  byte_chunk_offset(row, chunk) + 4 * quad);
      }
    }
  }
  EXPECT_EQ(stored.size(), kByteTile * kByteTile / kByteChunk);
}

// A warp stores words to 32 banks; a quarter of a warp reads vectors from 8 groups of 4 banks.
TEST(RepackByteTile, HasNoBankConflicts) {
  for (int warp = 0; warp < kByteTileThreads / 32; ++warp) {
    for (int i = 0; i < kByteChunk; ++i) {
      std::set<int> banks;
      for (int lane = 0; lane < 32; ++lane) {
        const int thread = 32 * warp + lane;
        const int row = loaded_chunk(thread) * kByteChunk + i;
        banks.insert(byte_quad_offset(row, loaded_quad(thread)) / 4 % 32);
      }
      EXPECT_EQ(banks.size(), 32u) << "warp " << warp << ", row " << i;
    }
  }
  for (int first = 0; first < kByteTileThreads; first += 8) {
    std::set<int> groups;
    for (int thread = first; thread < first + 8; ++thread) {
      groups.insert(byte_chunk_offset(stored_row(thread), stored_chunk(thread)) / 16 % 8);
    }
    EXPECT_EQ(groups.size(), 8u) << "thread " << first;
  }
}

constexpr std::size_t kGuard = 256;

// A poisoned output between guards.
struct Output {
  QuantizedLayout layout;
  Buffer memory;
  QuantizedView view;

  Output(const RepackProblem& problem, bool owns_padding)
      : layout(problem.rows, problem.cols, problem.format, problem.block),
        memory(layout.bytes + 2 * kGuard) {
    std::memset(memory.data(), 0xA5, memory.bytes());
    view = layout.view(static_cast<std::uint8_t*>(memory.data()) + kGuard);
    view.owns_padding = owns_padding;
  }
};

void expect_like_cpu(RepackProblem problem, const ForeignQuantized& input, const Output& out,
                     const std::string& what) {
  const DeviceImage in_image(input.memory().data(), input.memory().bytes());
  const DeviceImage out_image(out.memory.data(), out.memory.bytes());  // still poisoned
  const auto on_device = [](const QuantizedView& host, const DeviceImage& image) {
    QuantizedView view = host;
    view.values = image.at(host.values);
    view.scales = image.at(host.scales);
    return view;
  };
  run(plan_repack(problem), {input.view(), out.view});
  problem.device = DeviceImage::kDevice;
  const RepackPlan plan = plan_repack(problem);
  EXPECT_EQ(plan.implementation, "cuda_sm90_vectors");
  run(plan, {on_device(input.view(), in_image), on_device(out.view, out_image)});
  cuda::synchronize(0);
  const std::vector<std::uint8_t> given = out_image.download();
  const auto* const wanted = static_cast<const std::uint8_t*>(out.memory.data());
  ASSERT_EQ(given.size(), out.memory.bytes());
  for (std::size_t i = 0; i < given.size(); ++i) {
    ASSERT_EQ(given[i], wanted[i])
        << what << ", byte " << i << ": values from " << kGuard << " with a pitch of "
        << out.layout.pitch << ", scales from " << kGuard + out.layout.scales_offset
        << ": octet check " << describe(problem);
  }
}

TEST(RepackCuda, EqualsTheCpuInEveryByteOnRandomProblems) {
  OCTET_NEEDS_HOPPER();
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    Random random(seed);
    const std::int64_t rows = any_of({1, 2, 15, 16, 31, 33, 127, 128, 129, 300}, random);
    const std::int64_t cols = any_of({1, 3, 15, 16, 17, 127, 128, 200, 257, 1030}, random);
    const RepackProblem problem{rows, cols, any_of({Dtype::e4m3, Dtype::e5m2}, random),
                                any_of(kAllBlocks, random), kCpu};
    const std::int64_t strides[][2] = {{round_up(cols, 16), 1}, {cols, 1},        {cols + 7, 1},
                                       {1, round_up(rows, 16)}, {1, rows},        {1, rows + 7},
                                       {2 * cols + 1, 2},       {3, 3 * rows + 1}};
    const auto& [row_stride, col_stride] = strides[random() % 8];
    const ForeignQuantized input(rows, cols, problem.format, problem.block, row_stride, col_stride,
                                 any_of({0, 0, 1, 2, 3, 4, 13}, random));
    input.fill(seed);
    expect_like_cpu(problem, input, Output(problem, random() % 2 == 0), text("seed ", seed));
    if (HasFatalFailure()) return;
  }
}

TEST(RepackCuda, EqualsTheCpuInEveryByteOnLargeTensors) {
  OCTET_NEEDS_HOPPER();
  for (BlockShape block : {kBlock1x128, kBlock128x1, kBlock1x32}) {
    for (const auto& stride : {std::pair{4099, 1}, {1, 3008}, {1, 3003}}) {
      const RepackProblem problem{3001, 4099, Dtype::e4m3, block, kCpu};
      const ForeignQuantized input(3001, 4099, Dtype::e4m3, block, stride.first, stride.second, 0);
      input.fill(5);
      expect_like_cpu(problem, input, Output(problem, true), "large");
      if (HasFatalFailure()) return;
    }
  }
}

// Scales of one row of blocks, of one column of blocks, and with many lines of few scales.
TEST(RepackCuda, CopiesScalesOfManyShapes) {
  OCTET_NEEDS_HOPPER();
  constexpr std::int64_t kShapes[][2] = {{5000, 40}, {40, 5000}, {5000, 1}, {1, 5000}};
  for (const auto& shape : kShapes) {
    for (BlockShape block : kAllBlocks) {
      for (bool owns_padding : {true, false}) {
        const RepackProblem problem{shape[0], shape[1], Dtype::e5m2, block, kCpu};
        const ForeignQuantized input(shape[0], shape[1], Dtype::e5m2, block, shape[1], 1);
        input.fill(6);
        expect_like_cpu(problem, input, Output(problem, owns_padding), "scales");
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace octet::testing
