// The Hopper product over groups: every configuration by name, with every way to store its tiles, bit for bit
// against the CPU, and against the dense product of each group on the GPU. Outputs lie in poisoned memory, of
// which every byte is compared.
#include <gtest/gtest.h>

#include "ops/grouped_gemm/case.hpp"
#include "ops/grouped_gemm/widths.hpp"
#include "support/cuda_stream.hpp"
#include "support/device_image.hpp"

#include <cctype>
#include <numeric>

namespace octet::testing {
namespace {

// How d lies in memory and what becomes of it.
struct Way {
  const char* name;
  Dtype out;
  bool accumulate = false;
  std::int64_t offset = 0;  // elements
  std::int64_t extra = 0;   // added to the pitch
};

constexpr Way kWays[] = {
    {"16-bit boxes", Dtype::bf16},
    {"f32 boxes", Dtype::f32},
    {"f32 additions", Dtype::f32, true, 0, 16},
    {"rows from an even element on", Dtype::f16, false, 2, 2},
    {"rows from an odd one on", Dtype::bf16, false, 1, 0},
    {"rows from both in turn", Dtype::bf16, false, 0, 1},
    {"elements", Dtype::f32, false, 1, 1},
    {"elements added", Dtype::f32, true, 0, 1},
    {"bf16 added", Dtype::bf16, true, 0, 0},
};

// Poisoned memory with d in the middle: [T, N] or [groups, N, K], with the rows of all matrices at one pitch.
struct Memory {
  std::vector<std::uint8_t> bytes;
  TensorView matrix;  // all rows
  TensorView d;

  Memory(const GroupedCase& grouped, const Way& way) {
    const GroupedGemmProblem& p = grouped.problem;
    const bool over_rows = grouped.over_rows();
    const std::int64_t rows = over_rows ? p.rows : p.groups * p.n;
    const std::int64_t cols = over_rows ? p.n : p.k;
    const std::int64_t pitch = cols + way.extra;
    const std::int64_t size = size_bytes(p.out_dtype);
    bytes.assign(static_cast<std::size_t>((way.offset + rows * pitch) * size) + 8192, 0xFF);
    matrix = make_matrix(bytes.data() + 4096 + way.offset * size, p.out_dtype, rows, cols, pitch);
    d = matrix;
    if (!over_rows) {
      d.rank = 3;
      d.shape = {p.groups, p.n, p.k};
      d.strides = {p.n * pitch, pitch, 1};
    }
    for (std::int64_t r = 0; p.accumulate && r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        store_f32(matrix.data, r * pitch + c, p.out_dtype, static_cast<float>((r + c) % 7));
      }
    }
  }
  TensorView rows(std::int64_t first, std::int64_t count) const {
    return rows_of(matrix, first, count);
  }
};

GroupedGemmProblem on_device(const GroupedGemmProblem& problem) {
  GroupedGemmProblem result = problem;
  result.device = OnCuda::kDevice;
  return result;
}

std::vector<std::uint8_t> by_cpu(const GroupedCase& grouped, const Way& way) {
  const Memory memory(grouped, way);
  GroupedGemmArgs args = grouped.args;
  args.d = memory.d;
  const GroupedGemmPlan plan = plan_grouped_gemm(grouped.problem);
  const Buffer workspace(plan.workspace_bytes);
  run(plan, args, {workspace.data(), workspace.bytes()});
  return memory.bytes;
}

GroupedGemmArgs copy_in(OnCuda& device, const GroupedGemmArgs& args) {
  return {device.copy_in(args.a), device.copy_in(args.b), {}, device.copy_in(args.table)};
}

// An empty configuration is the planned one.
std::vector<std::uint8_t> by_cuda(const GroupedCase& grouped, const Way& way,
                                  const std::string& configuration) {
  OnCuda device;
  const Memory memory(grouped, way);
  const DeviceImage image(memory.bytes.data(), memory.bytes.size());
  GroupedGemmArgs args = copy_in(device, grouped.args);
  args.d = image.at(memory.d);
  const GroupedGemmPlan plan = plan_grouped_gemm(
      on_device(grouped.problem), {.backend = "cuda_sm90_wgmma", .configuration = configuration});
  run(plan, args);
  cuda::synchronize(0);
  return image.download();
}

// The dense product of each group on the GPU, zeros for what no group has.
std::vector<std::uint8_t> by_dense_products(const GroupedCase& grouped, const Way& way) {
  OnCuda device;
  const Memory memory(grouped, way);
  const GroupedGemmProblem& p = grouped.problem;
  const auto clear = [&](const TensorView& rows) {
    for (std::int64_t r = 0; r < rows.rows(); ++r) {
      std::memset(static_cast<char*>(rows.data) + r * rows.strides[0] * size_bytes(rows.dtype), 0,
                  static_cast<std::size_t>(rows.cols() * size_bytes(rows.dtype)));
    }
  };
  std::vector<TensorView> parts;
  std::int64_t row = 0;
  for (const std::int64_t size : grouped.sizes) {
    const std::int64_t rows = grouped.over_rows() ? size : p.n;
    parts.push_back(memory.rows(row, rows));
    if (size == 0 && !p.accumulate) clear(parts.back());
    row += rows;
  }
  if (grouped.over_rows() && p.tail == GroupTail::zero) clear(memory.rows(row, p.rows - row));
  const DeviceImage image(memory.bytes.data(), memory.bytes.size());
  for (std::size_t group = 0; group < grouped.sizes.size(); ++group) {
    if (grouped.sizes[group] == 0) continue;
    GemmProblem dense = grouped.dense(group);
    dense.device = OnCuda::kDevice;
    run(plan_gemm(dense, {.backend = "cuda_sm90_wgmma"}),
        {device.copy_in(grouped.a[group].view()), device.copy_in(grouped.b[group].view()),
         image.at(parts[group])});
  }
  cuda::synchronize(0);
  return image.download();
}

GroupedGemmProblem problem_of(const Sm90GroupedGemmConfig& config, std::int64_t rows,
                              std::int64_t n, std::int64_t k, const Way& way) {
  GroupedGemmProblem problem;
  problem.over = config.groups == Groups::rows ? GroupedOver::rows : GroupedOver::contraction;
  problem.rows = rows;
  problem.n = n;
  problem.k = k;
  problem.a.dtype = config.gemm.a;
  problem.b.dtype = config.gemm.b;
  problem.b.block = config.gemm.promotion == Promotion::one_by_one ? kBlock1x128 : kBlock128x128;
  if (!is_fp8(config.gemm.a)) problem.a.block = problem.b.block = kUnscaled;
  problem.a.major = config.gemm.a_major;
  problem.b.major = config.gemm.b_major;
  problem.out_dtype = way.out;
  problem.accumulate = way.accumulate;
  return problem;
}

class GroupedGemmCudaConfigs : public ::testing::TestWithParam<Sm90GroupedGemmConfig> {
 protected:
  bool over_rows() const { return GetParam().groups == Groups::rows; }
  // 16-bit lines have a multiple of 16 bytes.
  std::int64_t extent(std::int64_t any) const {
    return is_fp8(GetParam().gemm.a) ? any : round_up(any, 8);
  }
  // Two columns of tiles, or of clusters, whose last tile then lies beyond d.
  std::int64_t across() const { return GetParam().gemm.cluster * GetParam().gemm.tile_n + 48; }
};

// Groups that are empty, of one row, and around the rows of a tile or a token block; three rows of tiles of a
// gradient; contractions that go around the ring and of a single slice. Rows behind the last group.
TEST_P(GroupedGemmCudaConfigs, GiveTheCpusBitsWhicheverWayTilesLeave) {
  OCTET_NEEDS_HOPPER();
  const Sm90GemmConfig& gemm = GetParam().gemm;
  const std::int64_t m = gemm.tile_m;
  const Sizes sizes = over_rows() ? Sizes{0, 1, m - 1, m, m + 1, 0, 37}
                                  : Sizes{129, 0, 1, 127, 128, gemm.stages * 128 + 100, 0};
  const std::int64_t sum = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  std::uint64_t seed = 0;
  for (const Way& way : kWays) {
    if (over_rows() && way.accumulate) continue;
    for (const std::int64_t slices : {1, gemm.stages + 1}) {
      const std::int64_t n = over_rows() ? across() : extent(2 * m + 37);
      const std::int64_t k = over_rows() ? extent(slices * 128 - 28) : across();
      GroupedGemmProblem problem = problem_of(GetParam(), sum + 29, n, k, way);
      if (++seed % 2 == 0) problem.tail = GroupTail::untouched;
      if (seed % 3 == 0) problem.max_multiprocessors = 3;
      const GroupedCase grouped(problem, sizes, Numbers::integers, seed, Padding::zero);
      EXPECT_TRUE(by_cuda(grouped, way, name(GetParam())) == by_cpu(grouped, way))
          << name(GetParam()) << ", " << way.name << ": " << grouped.command();
      if (!over_rows()) break;
    }
  }
}

// Many tiles per block, of 0 to 6 slices: the table's entries, the slots and the ring go round.
TEST_P(GroupedGemmCudaConfigs, GiveTheCpusBitsTileAfterTile) {
  OCTET_NEEDS_HOPPER();
  const Way way{"16-bit boxes", Dtype::bf16};
  std::mt19937_64 random(5);
  for (const int multiprocessors : {2, 7, 0}) {
    Sizes sizes(over_rows() ? 60 : 24);
    for (std::int64_t& size : sizes) {
      size = random() % 4 == 0 ? 0 : static_cast<std::int64_t>(1 + random() % 700);
    }
    const std::int64_t sum = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    GroupedGemmProblem problem = over_rows()
                                     ? problem_of(GetParam(), sum + 600, 1000, extent(300), way)
                                     : problem_of(GetParam(), sum + 600, 800, 496, way);
    problem.max_multiprocessors = multiprocessors;
    const GroupedCase grouped(problem, sizes, Numbers::integers, 6, Padding::zero);
    EXPECT_TRUE(by_cuda(grouped, way, name(GetParam())) == by_cpu(grouped, way))
        << name(GetParam()) << ", " << multiprocessors << " multiprocessors: " << grouped.command();
  }
}

// Random numbers: the same bits as the dense product of each group, whatever tile that takes.
TEST_P(GroupedGemmCudaConfigs, EqualTheDenseProductOfEachGroup) {
  OCTET_NEEDS_HOPPER();
  std::uint64_t seed = 10;
  for (const Way& way : kWays) {
    if (over_rows() && way.accumulate) continue;
    // Sizes are the contraction of a dense product.
    const Sizes sizes{200, 0, extent(33), extent(515), extent(1), 128, extent(300)};
    const std::int64_t cols = 400 + static_cast<std::int64_t>(seed % 3) * 16;
    const GroupedCase grouped(over_rows() ? problem_of(GetParam(), 1400, cols, extent(700), way)
                                          : problem_of(GetParam(), 1400, extent(300), cols, way),
                              sizes, Numbers::random, ++seed, Padding::zero);
    EXPECT_TRUE(by_cuda(grouped, way, name(GetParam())) == by_dense_products(grouped, way))
        << name(GetParam()) << ", " << way.name << ": " << grouped.command();
  }
}

std::string test_name(const ::testing::TestParamInfo<Sm90GroupedGemmConfig>& info) {
  std::string text = name(info.param);
  for (char& letter : text) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  }
  return text;
}

INSTANTIATE_TEST_SUITE_P(All, GroupedGemmCudaConfigs,
                         ::testing::ValuesIn(sm90_grouped_gemm_configs()), test_name);

// A launch by sizes takes one width, so each is made to be taken: one slice, and rings that go round from tile to tile.
// In FP8 a fixed width runs in that kernel, so the tests of all configurations reach each.
// Its bits are the CPU's on integers and those of the dense products on random numbers.
TEST(GroupedGemmCudaWidths, GiveTheBitsOfEveryWidth) {
  OCTET_NEEDS_HOPPER();
  for (const Sm90GroupedGemmConfig& config : sm90_grouped_gemm_configs()) {
    if (config.width != Width::by_sizes || is_fp8(config.gemm.a)) continue;
    for (const Sm90GroupedGemmConfig& width : sm90_row_widths(config.gemm)) {
      std::uint64_t seed = 40;
      for (const Way& way : kWays) {
        if (way.accumulate) continue;
        for (const std::int64_t slices : {1, 7}) {
          WidthCase one = case_of_width(width.gemm, slices);
          one.problem.out_dtype = way.out;
          const bool whole_rows = way.offset == 0 && way.extra == 0;
          // Widths that cannot store rows of any alignment are not offered where boxes cannot leave.
          if (!whole_rows && !stores_rows(width.gemm)) continue;
          ASSERT_EQ(width_taken(one.problem, one.sizes, kFewMultiprocessors), width.gemm.tile_n);
          const GroupedCase exact(one.problem, one.sizes, Numbers::integers, ++seed, Padding::zero);
          EXPECT_TRUE(by_cuda(exact, way, name(config)) == by_cpu(exact, way))
              << name(width) << ", " << way.name << ": " << exact.command();
          const GroupedCase random(one.problem, one.sizes, Numbers::random, ++seed, Padding::zero);
          EXPECT_TRUE(by_cuda(random, way, name(config)) == by_dense_products(random, way))
              << name(width) << ", " << way.name << ": " << random.command();
        }
      }
    }
  }
}

// What the plan takes, for sizes of every kind: all in one group, none, more than the buffers have, negative.
TEST(GroupedGemmCuda, GivesTheCpusBitsForEverySizes) {
  OCTET_NEEDS_HOPPER();
  const std::pair<std::int64_t, Sizes> kCases[] = {
      {385, {0, 1, 127, 128, 129}},
      {386, {129, 0, 0, 128, 128}},
      {3000, {0, 3000, 0}},
      {257, {257}},
      {130, {0, 0, 0}},
      {1, {1}},
      {1, {0}},
      {200, {100, 150, 20}},
      {50, {-3, 60, 7}},
      {5000, {2100, 2050, 3}},
  };
  std::uint64_t seed = 0;
  for (const auto& [rows, sizes] : kCases) {
    for (const GroupedPairing& pairing : grouped_pairings()) {
      if (!is_fp8(pairing.a.dtype) || !(pairing.a.block == kBlock1x128)) continue;
      if (pairing.over == GroupedOver::rows && !(pairing.b.block == kBlock128x128)) continue;
      const auto [n, k] = std::array<std::pair<int, int>, 4>{
          {{1, 1}, {50, 130}, {136, 127}, {264, 304}}}[++seed % 4];
      const Way& way = kWays[seed % 2];
      GroupedGemmProblem problem = pairing.problem(rows, n, k);
      problem.out_dtype = way.out;
      const GroupedCase grouped(problem, sizes, Numbers::integers, seed, Padding::zero);
      EXPECT_TRUE(by_cuda(grouped, way, "") == by_cpu(grouped, way)) << grouped.command();
    }
  }
}

// Every remainder of a group's last box, and first rows at every distance from 16-byte boundaries of scales.
TEST(GroupedGemmCuda, EndsAnywhere) {
  OCTET_NEEDS_HOPPER();
  Sizes sizes(40);
  std::iota(sizes.begin(), sizes.end(), 0);
  for (const Sm90GroupedGemmConfig& config : sm90_grouped_gemm_configs()) {
    const Way way{"16-bit boxes", Dtype::bf16};
    const GroupedCase grouped(problem_of(config, 1000, 160, 272, way), sizes, Numbers::integers, 3,
                              Padding::zero);
    EXPECT_TRUE(by_cuda(grouped, way, name(config)) == by_cpu(grouped, way))
        << name(config) << ": " << grouped.command();
  }
}

// A table of other buffers, or none at all: nothing is written.
TEST(GroupedGemmCuda, WritesNothingWithoutATableOfItsBuffers) {
  OCTET_NEEDS_HOPPER();
  const Way way{"16-bit boxes", Dtype::bf16};
  const GroupedPairing& pairing = grouped_pairings()[0];
  GroupedCase grouped(pairing.problem(300, 128, 256), {100, 150}, Numbers::integers, 1);
  const std::vector<std::uint8_t> before = Memory(grouped, way).bytes;
  auto* words = static_cast<std::int32_t*>(grouped.args.table.data);
  words[2] = 299;
  EXPECT_TRUE(by_cuda(grouped, way, "") == before) << "299 rows";
  std::memset(words, 0, 64);
  EXPECT_TRUE(by_cuda(grouped, way, "") == before) << "no table";
}

// One captured call, replayed with other sizes in the same buffers.
TEST(GroupedGemmCuda, IsCapturedOnceForAllSizes) {
  OCTET_NEEDS_HOPPER();
  const Way way{"f32 boxes", Dtype::f32};
  for (const std::size_t index : {0u, 8u, 9u}) {
    GroupedGemmProblem problem = grouped_pairings()[index].problem(900, 272, 304);
    problem.out_dtype = way.out;
    problem.groups = 4;
    const GroupedCase first(problem, {100, 0, 500, 129}, Numbers::integers, 1, Padding::zero);
    const GroupedCase second(problem, {1, 300, 0, 590}, Numbers::integers, 2, Padding::zero);
    OnCuda device;
    const Memory memory(first, way);
    const DeviceImage image(memory.bytes.data(), memory.bytes.size());
    GroupedGemmArgs args = copy_in(device, first.args);
    args.d = image.at(memory.d);
    const GroupedGemmPlan plan = plan_grouped_gemm(on_device(first.problem));
    const Stream stream;
    const Graph graph(stream, [&](void* handle) { run(plan, args, {}, handle); });
    graph.launch(stream);
    stream.synchronize();
    EXPECT_TRUE(image.download() == by_cpu(first, way)) << first.command();
    const auto replace = [](const TensorView& to, const TensorView& from) {
      std::int64_t reach = 0;
      for (int i = 0; i < from.rank; ++i) reach = std::max(reach, from.shape[i] * from.strides[i]);
      cuda::copy(to.data, from.data, static_cast<std::size_t>(reach * size_bytes(from.dtype)), 0);
    };
    replace(args.a.values, second.args.a.values);
    replace(args.a.scales, second.args.a.scales);
    replace(args.b.values, second.args.b.values);
    replace(args.b.scales, second.args.b.scales);
    replace(args.table, second.args.table);
    image.upload();
    graph.launch(stream);
    stream.synchronize();
    EXPECT_TRUE(image.download() == by_cpu(second, way)) << second.command();
  }
}

// Weights, token blocks and results that are parts of larger tensors.
TEST(GroupedGemmCuda, ReadsMatricesThatLieApart) {
  OCTET_NEEDS_HOPPER();
  const Way way{"16-bit boxes", Dtype::bf16};
  for (const std::size_t index : {0u, 8u, 9u}) {
    const GroupedCase grouped(grouped_pairings()[index].problem(500, 144, 160), {300, 0, 133},
                              Numbers::integers, 4, Padding::zero);
    OnCuda device;
    const Memory memory(grouped, way);
    const DeviceImage image(memory.bytes.data(), memory.bytes.size());
    GroupedGemmArgs args = copy_in(device, grouped.args);
    args.d = image.at(memory.d);
    // b with a gap of 16 rows behind every matrix.
    const TensorView& b = grouped.args.b.values;
    std::vector<std::uint8_t> spread(
        static_cast<std::size_t>(b.shape[0] * (b.shape[1] + 16) * b.strides[1]), 0xFF);
    for (std::int64_t i = 0; i < b.shape[0]; ++i) {
      std::memcpy(spread.data() + i * (b.shape[1] + 16) * b.strides[1],
                  static_cast<const char*>(b.data) + i * b.strides[0],
                  static_cast<std::size_t>(b.shape[1] * b.strides[1]));
    }
    TensorView apart = b;
    apart.data = spread.data();
    apart.strides[0] = (b.shape[1] + 16) * b.strides[1];
    args.b.values = device.copy_in(apart);
    run(plan_grouped_gemm(on_device(grouped.problem)), args);
    cuda::synchronize(0);
    EXPECT_TRUE(image.download() == by_cpu(grouped, way)) << grouped.command();
  }
}

}  // namespace
}  // namespace octet::testing
