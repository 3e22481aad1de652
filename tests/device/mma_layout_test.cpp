// The index maps of the tensor cores against their definitions.
#include "device/mma/layout.hpp"
#include "ops/gemm/sm90/wgmma.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace octet {
namespace {

// The definition of TMA and the tensor cores: address bits 4-6 are XORed with bits 7-9.
constexpr int swizzled_address(int offset) { return offset ^ ((offset >> 7 & 7) << 4); }

TEST(Swizzle128, IsTheXorOfAddressBits) {
  for (int row = 0; row < 64; ++row) {
    for (int chunk = 0; chunk < 8; ++chunk) {
      EXPECT_EQ(swizzle128(row, chunk), swizzled_address(row * 128 + chunk * 16))
          << "row " << row << ", chunk " << chunk;
    }
  }
}

TEST(Swizzle128, GivesEveryChunkAPlaceOfItsOwn) {
  std::set<int> places;
  for (int row = 0; row < 16; ++row) {
    for (int chunk = 0; chunk < 8; ++chunk) {
      const int place = swizzle128(row, chunk);
      EXPECT_EQ(place % 16, 0);
      EXPECT_EQ(place / 128, row) << "a chunk stays in its row";
      places.insert(place);
    }
  }
  EXPECT_EQ(places.size(), 16u * 8u);
  EXPECT_EQ(*places.begin(), 0);
  EXPECT_EQ(*places.rbegin(), 16 * 128 - 16);
}

// A column of chunks, as stmatrix and the row stores of the epilogue access it, uses every bank.
TEST(Swizzle128, SpreadsEightRowsOfAChunkOverAllBanks) {
  for (int chunk = 0; chunk < 8; ++chunk) {
    std::set<int> columns;
    for (int row = 0; row < 8; ++row) columns.insert(swizzle128(row, chunk) % 128);
    EXPECT_EQ(columns.size(), 8u) << "chunk " << chunk;
  }
}

TEST(Accumulators, CoverTheProductOfAWarpgroupExactlyOnce) {
  std::vector<int> visits(64 * 128);
  for (int thread = 0; thread < 128; ++thread) {
    for (int index = 0; index < 64; ++index) {
      const int row = accumulator_row(thread, index);
      const int col = accumulator_col(thread, index);
      ASSERT_TRUE(row >= 0 && row < 64 && col >= 0 && col < 128);
      ++visits[static_cast<std::size_t>(row * 128 + col)];
    }
  }
  for (std::size_t i = 0; i < visits.size(); ++i) {
    ASSERT_EQ(visits[i], 1) << "row " << i / 128 << ", column " << i % 128;
  }
}

// The promotion multiplies accumulators 4j, 4j + 1 by one row's scale and 4j + 2, 4j + 3 by that of
// the row 8 below. Scales of b are loaded in pairs, 8 columns apart.
TEST(Accumulators, HaveTwoRowsAndPairsOfColumnsPerThread) {
  for (int thread = 0; thread < 128; ++thread) {
    const int warp = thread / 32;
    const int lane = thread % 32;
    for (int j = 0; j < 16; ++j) {
      for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(accumulator_row(thread, 4 * j + i), warp * 16 + lane / 4 + (i < 2 ? 0 : 8));
        EXPECT_EQ(accumulator_col(thread, 4 * j + i), 8 * j + lane % 4 * 2 + i % 2);
      }
    }
  }
}

TEST(PairedColumns, AreAPermutationOfEachGroup) {
  for (int group = 0; group < 8; ++group) {
    std::set<int> columns;
    for (int i = 0; i < kPairedGroup; ++i) {
      columns.insert(paired_column(group * kPairedGroup + i));
    }
    EXPECT_EQ(columns.size(), 16u);
    EXPECT_EQ(*columns.begin(), group * kPairedGroup);
    EXPECT_EQ(*columns.rbegin(), group * kPairedGroup + 15);
  }
}

// The purpose of pairing: the scales of a thread's columns lie in 16 bytes, in the accumulators'
// order.
TEST(PairedColumns, GiveEveryThreadFourNeighbours) {
  for (int thread = 0; thread < 128; ++thread) {
    for (int group = 0; group < 8; ++group) {
      for (int i = 0; i < 4; ++i) {
        const int index = 8 * group + 4 * (i / 2) + i % 2;  // of the upper row
        const int col = kPairedGroup * group + thread % 4 * 4 + i;
        EXPECT_EQ(paired_column(accumulator_col(thread, index)), col);
        EXPECT_EQ(paired_column(accumulator_col(thread, index + 2)), col) << "of the lower row";
      }
    }
  }
}

// A bias is added by column: the numbering must agree with where the product leaves its columns.
TEST(ColumnsOfAThread, AreThoseOfItsAccumulators) {
  for (int thread = 0; thread < 128; ++thread) {
    for (int i = 0; i < 32; ++i) {
      const int upper = accumulator_of_column(i);
      for (const int index : {upper, upper + 2}) {
        const int in_order = accumulator_col(thread, index);
        EXPECT_EQ(column_of_thread(thread, i, 2), in_order) << thread << ", " << i;
        EXPECT_EQ(column_of_thread(thread, i, 4), paired_column(in_order)) << thread << ", " << i;
      }
    }
  }
}

// The dimensions of the tensor map of a paired operand (tensor_map.cu), in the order of a box.
TEST(PairedColumns, AreTheOrderOfTheTensorMap) {
  constexpr int kSteps[] = {1, 4, 2};  // of p, t and h, in rows of the matrix
  int loaded = 0;
  for (int h = 0; h < 2; ++h) {
    for (int t = 0; t < 4; ++t) {
      for (int p = 0; p < 2; ++p) {
        EXPECT_EQ(paired_column(loaded), p * kSteps[0] + t * kSteps[1] + h * kSteps[2]);
        ++loaded;
      }
    }
  }
}

// The fields of a shared-memory descriptor, by their bits in the PTX manual.
struct Descriptor {
  std::uint32_t address;
  std::uint32_t stride;
  std::uint32_t base_offset;
  std::uint32_t swizzle;
};

Descriptor decode(std::uint64_t bits) {
  return {static_cast<std::uint32_t>(bits & 0x3FFF) << 4,
          static_cast<std::uint32_t>(bits >> 32 & 0x3FFF) << 4,
          static_cast<std::uint32_t>(bits >> 49 & 7), static_cast<std::uint32_t>(bits >> 62)};
}

std::uint64_t descriptor(std::uint32_t low) { return std::uint64_t{kDescriptorHigh} << 32 | low; }

TEST(Descriptors, DecodeToWhatTheyWereMadeOf) {
  for (std::uint32_t address = 0; address < kSharedLimit; address += 1024) {
    const Descriptor fields = decode(descriptor(descriptor_low(address)));
    EXPECT_EQ(fields.address, address);
    EXPECT_EQ(fields.stride, 1024u) << "8 rows of 128 bytes";
    EXPECT_EQ(fields.base_offset, 0u) << "tiles begin on whole atoms";
    EXPECT_EQ(fields.swizzle, 1u) << "128 bytes";
  }
}

// The main loop steps through stages, waves and k by adding to the low word.
TEST(Descriptors, AreSteppedByAddition) {
  for (const Sm90GemmConfig& config : sm90_gemm_configs()) {
    const Sm90SharedPlan plan = shared_plan(config);
    const std::uint32_t base = kSharedLimit - static_cast<std::uint32_t>(plan.bytes);  // highest
    const std::uint32_t aligned = base / 1024 * 1024;
    for (int offset = 0; offset < plan.staging; offset += 32) {
      const auto step = static_cast<std::uint32_t>(offset);
      const std::uint32_t stepped = descriptor_low(aligned) + step / 16;
      ASSERT_EQ(decode(descriptor(stepped)).address, aligned + step) << name(config);
      ASSERT_EQ(stepped >> 16, descriptor_low(aligned) >> 16) << "a carry left the address";
    }
  }
}

TEST(SwizzledChunks, HavePlacesOfTheirOwn) {
  for (const int cols : {32, 64, 128}) {
    std::set<int> places;
    for (int row = 0; row < 16; ++row) {
      for (int chunk = 0; chunk < cols / 8; ++chunk) {
        const int place = swizzled_chunk(cols, row, chunk);
        EXPECT_EQ(place / (cols * 2), row);
        EXPECT_TRUE(places.insert(place).second) << cols << ", " << row << ", " << chunk;
      }
    }
  }
}

TEST(SwizzledChunks, AreThoseOfTheCopyEngine) {
  for (int row = 0; row < 16; ++row) {
    for (int chunk = 0; chunk < 8; ++chunk) {
      EXPECT_EQ(swizzled_chunk(64, row, chunk), static_cast<int>(swizzle128(row, chunk)));
    }
    for (int chunk = 0; chunk < 4; ++chunk) {  // address bits 4 and 5 ^= bits 7 and 8
      const int address = row * 64 + chunk * 16;
      EXPECT_EQ(swizzled_chunk(32, row, chunk), address ^ (address >> 7 & 3) << 4);
    }
  }
}

TEST(SwizzledChunks, SpreadEightRowsOverAllBanks) {
  for (const int cols : {32, 64, 128}) {
    for (int chunk = 0; chunk < cols / 8; ++chunk) {
      std::set<int> banks;
      for (int row = 0; row < 8; ++row) banks.insert(swizzled_chunk(cols, row, chunk) % 128 / 16);
      EXPECT_EQ(banks.size(), 8u) << cols << ", " << chunk;
    }
  }
}

TEST(RowPieces, CoverEveryElementOnceAndBeginOnBoundaries) {
  for (const int cols : {32, 64, 128}) {
    for (std::uintptr_t address = 1024; address < 1056; address += 2) {
      const int lead = elements_before_boundary(address);
      std::vector<int> written(static_cast<std::size_t>(cols));
      for (int piece = 0; piece < cols / 8 - 1; ++piece) {
        const int begin = piece_begin(piece, lead);
        EXPECT_EQ((address + 2 * static_cast<std::uintptr_t>(begin)) % 16, 0u) << address;
        for (int i = 0; i < 8; ++i) ++written.at(static_cast<std::size_t>(begin + i));
      }
      for (int i = 0; i < 8; ++i) {
        ++written.at(static_cast<std::size_t>(element_outside_pieces(i, lead, cols)));
      }
      EXPECT_EQ(written, std::vector<int>(written.size(), 1)) << address << ", " << cols;
    }
  }
}

// A tile [panel][row][64] of 16-bit elements.
TEST(Panels, AreSteppedThroughAlongARowOrAlongTheRows) {
  EXPECT_EQ(panel_offset(128, 0), 0);
  EXPECT_EQ(panel_offset(128, 48), 96);
  EXPECT_EQ(panel_offset(128, 64), 128 * 128);
  EXPECT_EQ(panel_offset(80, 144), 2 * 80 * 128 + 32);
  // MN-major: address and bytes to the next panel in units of 16, 16 rows a step.
  EXPECT_EQ(descriptor_low_mn(0x2400, 128), 0x240u | 1024u << 16);
  EXPECT_EQ(descriptor_low_mn(0x2400 + kStepMnBytes, 80), 0x2C0u | 640u << 16);
}

// Accumulators 8i to 8i + 7, packed two by two, are what a thread holds of 16 columns of a: of rows g and
// g + 8, elements 2t and 2t + 1, then those 8 further on.
TEST(Accumulators, OfTwoGroupsAreAFragmentOfA) {
  for (int thread = 0; thread < 128; ++thread) {
    for (int i = 0; i < 64; ++i) {
      const int word = i % 8 / 2;
      EXPECT_EQ(accumulator_row(thread, i), thread / 32 * 16 + thread % 32 / 4 + word % 2 * 8);
      EXPECT_EQ(accumulator_col(thread, i), i / 8 * 16 + thread % 4 * 2 + word / 2 * 8 + i % 2);
    }
  }
}

}  // namespace
}  // namespace octet
