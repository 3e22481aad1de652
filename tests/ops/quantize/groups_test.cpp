// quantize over groups: every group has the bits it would have alone, and no other byte is written.
#include "core/views.hpp"
#include "cpu/outputs.hpp"
#include "ops/quantize/fp8_oracle.hpp"
#include "ops/quantize/images.hpp"
#include "ops/quantize/paths.hpp"
#include "ops/quantize/random_problem.hpp"
#include "support/refusal.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace octet {
namespace {

using Sizes = std::vector<std::int64_t>;

Tensor table_of(const Sizes& sizes, std::int64_t rows) {
  const auto groups = static_cast<std::int64_t>(sizes.size());
  Tensor table(Dtype::i32, {group_table_words(groups, rows)});
  run(plan_group_table({.groups = groups, .rows = rows, .sizes_dtype = Dtype::i64}),
      {make_view(sizes.data(), Dtype::i64, {groups}), table});
  check_group_table(table);
  return table;
}

// One call over groups: its data and its table.
struct Call {
  QuantizeProblem problem;
  Sizes sizes;
  Tensor table;
  std::vector<std::int32_t> source;
  Input input;

  Call(const QuantizeProblem& given, const Sizes& group_sizes)
      : problem(given),
        sizes(group_sizes),
        table(table_of(sizes, given.rows)),
        input(given.source_rows > 0 ? given.source_rows : given.rows, given.cols, given.input_dtype,
              3) {}

  std::int64_t grouped_rows() const {
    return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  }
  // Rows behind the last group point far outside of the input: nothing may read them.
  void draw(Data data, Random& random) {
    for (std::int64_t r = 0; r < input.view().rows(); ++r) {
      for (std::int64_t c = 0; c < problem.cols; ++c) input.set(r, c, random_value(data, random));
    }
    if (problem.source_rows == 0) return;
    source.assign(static_cast<std::size_t>(problem.rows), 1 << 30);
    for (std::int64_t r = 0; r < grouped_rows(); ++r) {
      source[static_cast<std::size_t>(r)] =
          static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(source_slots(problem)));
    }
  }
  std::int64_t input_row(std::int64_t row) const {
    return source.empty() ? row : source[static_cast<std::size_t>(row)] / slots_per_row(problem);
  }
  QuantizeArgs args(const QuantizedView& out, const QuantizedView& transposed) const {
    QuantizeArgs result{input.view(), out, transposed, table, {}};
    if (!source.empty()) {
      result.source = make_view(source.data(), Dtype::i32, {problem.rows});
    }
    return result;
  }
};

// The copies of a call; those that the problem does not ask for are placeholders.
struct Copies {
  Image out;
  Image transposed;

  Copies(const QuantizeProblem& problem, Layout layout)
      : out(layout, 0, problem.rows, problem.cols, problem.format, kBlock1x128),
        transposed(Image::token_blocks(layout, max_token_blocks(problem.groups, problem.rows),
                                       problem.cols, problem.format,
                                       problem.transposed_block.value_or(kBlock1x128))) {}
};

// Writes what the dense operator makes of rows [begin, begin + rows) alone.
void write_group(const Call& call, std::int64_t begin, std::int64_t rows, std::int64_t first_block,
                 const Copies& copies) {
  QuantizeProblem dense = call.problem;
  dense.rows = rows;
  dense.groups = dense.source_rows = dense.source_top_k = 0;
  Input alone(rows, dense.cols, dense.input_dtype);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < dense.cols; ++c) {
      alone.set(r, c, call.input.at(call.input_row(begin + r), c));
    }
  }
  const ForeignCopies wanted(dense);
  quantize_by(Path::reference, dense, wanted.args(alone.view()));
  for (std::int64_t r = 0; dense.block && r < rows; ++r) {
    for (std::int64_t c = 0; c < dense.cols; ++c) {
      *copies.out.value(0, begin + r, c) = wanted.out.code(r, c);
      *copies.out.scale(0, begin + r, c / kBlock) = wanted.out.scale(r, c / kBlock);
    }
  }
  if (!dense.transposed_block) return;
  const std::int64_t scale_rows = dense.transposed_block->rows;
  for (std::int64_t t = 0; t < round_up(rows, kBlock); ++t) {
    const std::int64_t block = first_block + t / kBlock;
    for (std::int64_t c = 0; c < dense.cols; ++c) {
      *copies.transposed.value(block, c, t % kBlock) =
          t < rows ? wanted.transposed.code(c, t) : std::uint8_t{0};
      *copies.transposed.scale(block, c / scale_rows, 0) =
          wanted.transposed.scale(c / scale_rows, t / kBlock);
    }
  }
}

Copies wanted_copies(const Call& call, Layout layout) {
  const QuantizeProblem& problem = call.problem;
  Copies copies(problem, layout);
  std::int64_t row = 0;
  std::int64_t block = 0;
  for (const std::int64_t rows : call.sizes) {
    if (rows > 0) write_group(call, row, rows, block, copies);
    row += rows;
    block += ceil_div(rows, kBlock);
  }
  for (; problem.block && problem.tail == GroupTail::zero && row < problem.rows; ++row) {
    for (std::int64_t c = 0; c < problem.cols; ++c) {
      *copies.out.value(0, row, c) = 0;
      *copies.out.scale(0, row, c / kBlock) = 1;
    }
  }
  // The CPU clears all padding, that of rows and blocks that are not written too.
  if (problem.block) clear_padding(copies.out.view());
  if (problem.transposed_block) clear_padding(copies.transposed.view());
  return copies;
}

void expect_groups_alone(const Call& call, Layout layout, const std::string& what = "",
                         int threads = 2) {
  const Copies wanted = wanted_copies(call, layout);
  for (const Path path : all_paths()) {
    const Copies got(call.problem, layout);
    quantize_by(path, call.problem, call.args(got.out.view(), got.transposed.view()), threads);
    const std::string repeat = text(name(path), layout == Layout::foreign ? ", foreign" : "", what,
                                    ": ", describe(call.problem));
    got.out.expect_equal(wanted.out, "out, " + repeat);
    got.transposed.expect_equal(wanted.transposed, "transposed, " + repeat);
  }
}

QuantizeProblem dual(const Sizes& sizes, std::int64_t tail_rows, std::int64_t cols) {
  return {.rows = std::accumulate(sizes.begin(), sizes.end(), tail_rows),
          .cols = cols,
          .transposed_block = kBlock1x128,
          .groups = static_cast<std::int64_t>(sizes.size())};
}

// Small integers and power-of-two scales, against plain arithmetic.
TEST(QuantizeGroups, ScalesBlocksOfEachGroup) {
  const Sizes sizes{2, 0, 129};
  QuantizeProblem problem = dual(sizes, 1, 3);
  problem.input_dtype = Dtype::f32;
  Call call(problem, sizes);
  const auto x = [](std::int64_t row, std::int64_t col) {
    return static_cast<float>((row % 2 == 0 ? 448 : 7) << col);  // 448 is the limit of e4m3
  };
  for (std::int64_t r = 0; r < problem.rows; ++r) {
    for (std::int64_t c = 0; c < 3; ++c) call.input.set(r, c, r == 131 ? NAN : x(r, c));
  }
  const oracle::Fp8Table e4m3(Dtype::e4m3);
  for (const Path path : all_paths()) {
    const Copies got(problem, Layout::ours);
    quantize_by(path, problem, call.args(got.out.view(), got.transposed.view()));
    for (std::int64_t r = 0; r < 131; ++r) {
      const float scale = x(r, 2) / 448;
      EXPECT_EQ(*got.out.scale(0, r, 0), scale) << name(path) << " row " << r;
      for (std::int64_t c = 0; c < 3; ++c) {
        EXPECT_EQ(*got.out.value(0, r, c), e4m3.encode(x(r, c) / scale))
            << name(path) << " row " << r;
      }
      // Rows 0 and 1 are block 0, rows 2 to 129 block 1, row 130 block 2.
      const std::int64_t block = r < 2 ? 0 : r < 130 ? 1 : 2;
      const std::int64_t token = r < 2 ? r : (r - 2) % 128;
      for (std::int64_t c = 0; c < 3; ++c) {
        const auto column_scale = static_cast<float>(1 << c);
        EXPECT_EQ(*got.transposed.scale(block, c, 0), column_scale) << name(path) << " row " << r;
        EXPECT_EQ(*got.transposed.value(block, c, token), e4m3.encode(x(r, c) / column_scale))
            << name(path) << " row " << r;
      }
    }
    for (std::int64_t c = 0; c < 3; ++c) {
      EXPECT_EQ(*got.out.value(0, 131, c), 0) << "the NaN behind the last group was read";
      EXPECT_EQ(*got.transposed.value(0, c, 2), 0) << name(path);
      EXPECT_EQ(*got.transposed.value(2, c, 1), 0) << name(path);
      EXPECT_EQ(*got.transposed.value(3, c, 0), Image::kPoison) << "behind the last block";
    }
    EXPECT_EQ(*got.out.scale(0, 131, 0), 1.0f) << name(path);
  }
}

TEST(QuantizeGroups, HasTheBitsOfEachGroupAlone) {
  const Sizes layouts[] = {{0, 1, 127, 128, 129},  // every kind of last block
                           {300},
                           {0, 0, 300, 0},
                           {1, 1, 1, 1, 1, 1, 1},
                           {128, 128, 256},
                           {257, 0, 127, 0, 0, 1},
                           {0, 0, 0}};
  Random random(1);
  for (const Sizes& sizes : layouts) {
    for (const std::int64_t tail_rows : {0, 1, 224}) {
      for (const GroupTail tail : {GroupTail::zero, GroupTail::untouched}) {
        for (const BlockShape transposed : {kBlock1x128, kBlock128x128}) {
          QuantizeProblem problem = dual(sizes, tail_rows, 200);
          if (problem.rows == 0) continue;
          problem.tail = tail;
          problem.transposed_block = transposed;
          Call call(problem, sizes);
          call.draw(Data::normal, random);
          expect_groups_alone(call, Layout::ours);
          expect_groups_alone(call, Layout::foreign);
        }
      }
    }
  }
}

TEST(QuantizeGroups, TakesManyGroups) {
  Sizes sizes(1024, 0);
  for (std::size_t g = 3; g < sizes.size(); g += 97) sizes[g] = static_cast<std::int64_t>(g % 150);
  sizes.back() = 130;
  Call call(dual(sizes, 9, 70), sizes);
  Random random(2);
  call.draw(Data::normal, random);
  expect_groups_alone(call, Layout::ours);
}

TEST(QuantizeGroups, HasTheBitsOfEachGroupAloneOnRandomProblems) {
  constexpr std::int64_t kSizes[] = {0, 0, 1, 2, 5, 16, 17, 100, 127, 128, 129, 200, 256, 257};
  constexpr std::int64_t kCols[] = {1, 8, 15, 64, 127, 128, 129, 136, 256, 300};
  constexpr Data kData[] = {Data::normal, Data::tiny,     Data::huge,
                            Data::zeros,  Data::any_bits, Data::some_non_finite};
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    Random random(seed);
    Sizes sizes(1 + random() % 9);
    for (std::int64_t& size : sizes) size = any_of(kSizes, random);
    QuantizeProblem problem = dual(sizes, any_of({0, 1, 5, 224}, random), any_of(kCols, random));
    problem.rows = std::max<std::int64_t>(problem.rows, 1);
    problem.input_dtype = any_of({Dtype::bf16, Dtype::f16, Dtype::f32}, random);
    problem.format = any_of({Dtype::e4m3, Dtype::e5m2}, random);
    if (random() % 4 == 0) problem.block.reset();
    problem.transposed_block = any_of({kBlock1x128, kBlock128x128}, random);
    if (problem.block && random() % 4 == 0) problem.transposed_block.reset();
    problem.amax_floor = any_of({0.0f, 0.0f, 1e-4f, 10.0f}, random);
    problem.pow2_scales = random() % 3 == 0;
    problem.source_rows = any_of({0, 0, 1, 50, 700}, random);
    if (problem.source_rows > 0) problem.source_top_k = any_of({0, 0, 1, 3, 8}, random);
    problem.tail = any_of({GroupTail::zero, GroupTail::untouched}, random);
    Call call(problem, sizes);
    call.draw(any_of(kData, random), random);
    expect_groups_alone(call, any_of({Layout::ours, Layout::foreign}, random),
                        text(", seed ", seed));
  }
}

TEST(QuantizeGroups, GathersRowsOfTheSource) {
  const Sizes sizes{3, 0, 130, 128};
  QuantizeProblem problem = dual(sizes, 5, 300);
  problem.source_rows = 90;  // rows are read several times, and some never
  Call call(problem, sizes);
  Random random(3);
  call.draw(Data::normal, random);
  expect_groups_alone(call, Layout::ours);
  problem.transposed_block.reset();
  Call rows_only(problem, sizes);
  rows_only.draw(Data::normal, random);
  expect_groups_alone(rows_only, Layout::ours);
}

// Large enough for streaming stores.
TEST(QuantizeGroups, HasTheSameBitsWhereLargeOutputsAreStreamed) {
  const Sizes sizes{1000, 0, 2900, 7};
  Call call(dual(sizes, 100, 2304), sizes);
  Random random(4);
  call.draw(Data::normal, random);
  const Copies wanted = wanted_copies(call, Layout::ours);
  for (const Path path : simd_paths()) {
    const Copies got(call.problem, Layout::ours);
    quantize_by(path, call.problem, call.args(got.out.view(), got.transposed.view()));
    got.out.expect_equal(wanted.out, "out, " + name(path));
    got.transposed.expect_equal(wanted.transposed, "transposed, " + name(path));
  }
}

// Sizes that do not fit were clamped when the table was made.
TEST(QuantizeGroups, StaysInsideTheBuffersIfSizesAreTooLarge) {
  const std::int32_t too_large[] = {100, 500, 3};
  Call call(dual({100, 200, 0}, 0, 70), {100, 200, 0});
  run(plan_group_table({.groups = 3, .rows = 300}),
      {make_view(too_large, Dtype::i32, {3}), call.table});
  Random random(5);
  call.draw(Data::normal, random);
  expect_groups_alone(call, Layout::ours);
}

TEST(QuantizeGroupsThreads, AnyNumberOfThreadsGivesTheSameBits) {
  const Sizes sizes{700, 0, 3, 129, 40, 300};
  QuantizeProblem problem = dual(sizes, 200, 700);
  for (const std::int64_t source_rows : {0, 400}) {
    problem.source_rows = source_rows;
    Call call(problem, sizes);
    Random random(6);
    call.draw(Data::normal, random);
    for (const int threads : {1, 2, 3, 7}) {
      expect_groups_alone(call, Layout::ours, text(", ", threads, " threads"), threads);
    }
  }
}

TEST(QuantizeGroupsPlan, DescribesItselfAsACommand) {
  QuantizeProblem problem = dual({1, 2}, 0, 70);
  EXPECT_EQ(describe(problem),
            "quantize --shape 3x70 --groups 2 --dtype bf16 --format e4m3 --block 1x128 "
            "--transposed-block 1x128 --device cpu");
  problem.source_rows = 9;
  problem.tail = GroupTail::untouched;
  EXPECT_EQ(describe(problem),
            "quantize --shape 3x70 --groups 2 --source-rows 9 --tail untouched --dtype bf16 "
            "--format e4m3 --block 1x128 --transposed-block 1x128 --device cpu");
}

TEST(QuantizeGroupsPlan, IsTakenOnHopperUpToItsNumberOfTiles) {
  Machine hopper;
  hopper.sm_major = 9;
  QuantizeProblem problem = dual({1, 2}, 0, 70);
  problem.device = {DeviceType::cuda, 0};
  EXPECT_EQ(kQuantizeCudaSm90Tile.refuse(problem, hopper), "");
  problem.rows = kMaxGroupedRows;
  problem.cols = 255 * kBlock;
  EXPECT_EQ(kQuantizeCudaSm90Tile.refuse(problem, hopper), "");
  problem.cols = 256 * kBlock;
  EXPECT_EQ(kQuantizeCudaSm90Tile.refuse(problem, hopper), "more than 2^31 tiles of 128x128");
  problem = {.rows = kBlock, .cols = kBlock, .device = problem.device};
  problem.batch = (std::int64_t{1} << 31) - 1;
  EXPECT_EQ(kQuantizeCudaSm90Tile.refuse(problem, hopper), "");
  problem.rows = 2 * kBlock;
  EXPECT_EQ(kQuantizeCudaSm90Tile.refuse(problem, hopper), "more than 2^31 tiles of 128x128");
}

}  // namespace
}  // namespace octet
