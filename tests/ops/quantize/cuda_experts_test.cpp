// The Hopper quantiser over groups and batches against the CPU, in every byte of the outputs'
// memory: values, scales, padding that a view owns, and the bytes around it, which must not change.
#include "core/views.hpp"
#include "ops/quantize/images.hpp"
#include "ops/quantize/paths.hpp"
#include "ops/quantize/random_problem.hpp"
#include "support/cuda_stream.hpp"
#include "support/device_image.hpp"
#include "support/on_cuda.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace octet::testing {
namespace {

using Sizes = std::vector<std::int64_t>;

constexpr Data kData[] = {Data::normal, Data::tiny,     Data::huge,
                          Data::zeros,  Data::any_bits, Data::some_non_finite};

// An image on the device, poisoned as the host's.
struct OnDevice {
  DeviceImage image;
  QuantizedView view;

  explicit OnDevice(const Image& host)
      : image(host.bytes().data(), host.bytes().size()), view(host.view()) {
    view.values = image.at(view.values);
    view.scales = image.at(view.scales);
  }
  // Brings the bytes back into the image they came from.
  void download_to(const Image& host) const {
    const std::vector<std::uint8_t> bytes = image.download();
    std::copy(bytes.begin(), bytes.end(), host.bytes().begin());
  }
};

// Rows of an input, `offset` elements into their memory, with gaps behind each.
struct Rows {
  Buffer memory;
  TensorView view;  // a matrix, or a batch of them

  Rows(std::int64_t rows, std::int64_t cols, Dtype dtype, std::int64_t offset, std::int64_t gap)
      : memory(static_cast<std::size_t>((rows * (cols + gap) + offset) * size_bytes(dtype))),
        view(make_matrix(static_cast<std::uint8_t*>(memory.data()) + offset * size_bytes(dtype),
                         dtype, rows, cols, cols + gap)) {}

  void draw(Data data, Random& random) const {
    const std::int64_t count = static_cast<std::int64_t>(memory.bytes()) / size_bytes(view.dtype);
    for (std::int64_t i = 0; i < count; ++i) {
      store_f32(memory.data(), i, view.dtype, random_value(data, random));
    }
  }
  void set_row(std::int64_t row, float value) const {
    for (std::int64_t c = 0; c < view.shape[1]; ++c) {
      store_f32(view.data, row * view.strides[0] + c, view.dtype, value);
    }
  }
};

Tensor table_of(const Sizes& sizes, std::int64_t rows) {
  const auto groups = static_cast<std::int64_t>(sizes.size());
  Tensor table(Dtype::i32, {group_table_words(groups, rows)});
  run(plan_group_table({.groups = groups, .rows = rows, .sizes_dtype = Dtype::i64}),
      {make_view(sizes.data(), Dtype::i64, {groups}), table});
  return table;
}

// The copies of a call over groups, poisoned; those that it does not ask for stay so.
struct GroupCopies {
  Image out;
  Image transposed;

  GroupCopies(const QuantizeProblem& problem, Layout layout)
      : out(layout, 0, problem.rows, problem.cols, problem.format, kBlock1x128),
        transposed(Image::token_blocks(layout, max_token_blocks(problem.groups, problem.rows),
                                       problem.cols, problem.format,
                                       problem.transposed_block.value_or(kBlock1x128))) {}

  void expect_equal(const GroupCopies& wanted, const std::string& what) const {
    out.expect_equal(wanted.out, "out, " + what);
    transposed.expect_equal(wanted.transposed, "transposed, " + what);
  }
};

// The CPU clears the padding of rows and token blocks that are not written, the kernel does not.
void poison_padding(const QuantizeProblem& problem, const Sizes& sizes, const GroupCopies& copies) {
  constexpr std::uint8_t kPoison = Image::kPoison;
  std::int64_t rows = 0;
  std::int64_t blocks = 0;
  for (const std::int64_t size : sizes) {
    rows += size;
    blocks += ceil_div(size, kBlock);
  }
  const QuantizedView& out = copies.out.view();
  if (out.owns_padding && problem.tail == GroupTail::untouched) {
    for (; rows < problem.rows; ++rows) {
      std::fill(copies.out.value(0, rows, problem.cols),
                copies.out.value(0, rows, out.values.strides[0]), kPoison);
    }
  }
  const QuantizedView& transposed = copies.transposed.view();
  if (!transposed.owns_padding || transposed.block != kBlock1x128) return;
  for (; blocks < transposed.values.shape[0]; ++blocks) {
    for (std::int64_t c = problem.cols; c < transposed.scales.strides[2]; ++c) {
      std::memset(copies.transposed.scale(blocks, c, 0), kPoison, sizeof(float));
    }
  }
}

// One call over groups.
struct GroupCall {
  QuantizeProblem problem;
  Sizes sizes;
  Tensor table;
  Rows input;
  std::vector<std::int32_t> source;

  GroupCall(const QuantizeProblem& given, const Sizes& group_sizes, std::int64_t offset = 0,
            std::int64_t gap = 0)
      : problem(given),
        sizes(group_sizes),
        table(table_of(sizes, given.rows)),
        input(given.source_rows > 0 ? given.source_rows : given.rows, given.cols, given.input_dtype,
              offset, gap) {}

  // Rows behind the last group point far outside of the input: nothing may read them.
  void draw(Data data, Random& random) {
    input.draw(data, random);
    if (problem.source_rows == 0) return;
    source.assign(static_cast<std::size_t>(problem.rows), 1 << 30);
    const std::int64_t rows = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    for (std::int64_t r = 0; r < rows; ++r) {
      source[static_cast<std::size_t>(r)] =
          static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(source_slots(problem)));
    }
  }

  QuantizeArgs args() const {
    QuantizeArgs result{input.view, {}, {}, table, {}};
    if (!source.empty()) result.source = make_view(source.data(), Dtype::i32, {problem.rows});
    return result;
  }

  GroupCopies on_cpu(Layout layout) const {
    GroupCopies copies(problem, layout);
    QuantizeArgs here = args();
    here.out = copies.out.view();
    here.transposed = copies.transposed.view();
    const bool large = problem.rows * problem.cols > 1 << 20;
    run(plan_quantize(problem, {large ? "cpu_simd" : "cpu_reference", 0}), here);
    poison_padding(problem, sizes, copies);
    return copies;
  }
};

// A call on the device, to be run any number of times.
struct DeviceCall {
  QuantizePlan plan;
  OnCuda memory;
  DeviceImage input;
  OnDevice out;
  OnDevice transposed;
  QuantizeArgs args;

  DeviceCall(const GroupCall& call, const GroupCopies& poisoned)
      : plan(on_device(call.problem)),
        input(call.input.memory.data(), call.input.memory.bytes()),
        out(poisoned.out),
        transposed(poisoned.transposed),
        args{input.at(call.input.view), out.view, transposed.view, memory.copy_in(call.table),
             memory.copy_in(call.args().source)} {}

  static QuantizePlan on_device(QuantizeProblem problem) {
    problem.device = DeviceImage::kDevice;
    return plan_quantize(problem, {"cuda_sm90_tile", 0});
  }
  // Into the host's copies that the device's were made from.
  void download_to(const GroupCopies& copies) const {
    cuda::synchronize(0);
    out.download_to(copies.out);
    transposed.download_to(copies.transposed);
  }
  std::string repeat() const { return "octet check " + describe(plan.problem); }
};

void expect_like_cpu(const GroupCall& call, Layout layout, const std::string& what) {
  const GroupCopies wanted = call.on_cpu(layout);
  const GroupCopies got(call.problem, layout);
  const DeviceCall device(call, got);
  run(device.plan, device.args);
  device.download_to(got);
  got.expect_equal(wanted, what + ": " + device.repeat());
}

QuantizeProblem dual(const Sizes& sizes, std::int64_t tail_rows, std::int64_t cols) {
  return {.rows = std::accumulate(sizes.begin(), sizes.end(), tail_rows),
          .cols = cols,
          .transposed_block = kBlock1x128,
          .groups = static_cast<std::int64_t>(sizes.size())};
}

// Small integers with power-of-two scales: a wrong row, token or scale shows as itself.
TEST(QuantizeCudaGroups, PlacesEveryTokenExactly) {
  OCTET_NEEDS_HOPPER();
  const Sizes sizes{2, 0, 129, 128, 1};
  GroupCall call(dual(sizes, 3, 256), sizes);
  for (std::int64_t r = 0; r < call.problem.rows; ++r) {
    for (std::int64_t c = 0; c < 256; ++c) {
      store_f32(call.input.view.data, r * 256 + c, Dtype::bf16,
                c % 128 == 0 || r % 64 == 0 ? 448.0f : static_cast<float>((3 * r + 5 * c) % 16));
    }
  }
  expect_like_cpu(call, Layout::ours, "exact");
  expect_like_cpu(call, Layout::foreign, "exact, foreign");
}

TEST(QuantizeCudaGroups, EqualsTheCpuInEveryByte) {
  OCTET_NEEDS_HOPPER();
  const Sizes layouts[] = {{0, 1, 127, 128, 129},  // every kind of last block
                           {300},
                           {0, 0, 300, 0},
                           {1, 1, 1, 1, 1, 1, 1},
                           {128, 128, 256},
                           {257, 0, 127, 0, 0, 1},
                           {2049, 5},  // two bands
                           {0, 0, 0}};
  Random random(1);
  for (const Sizes& sizes : layouts) {
    for (const std::int64_t tail_rows : {0, 1, 224}) {
      for (const GroupTail tail : {GroupTail::zero, GroupTail::untouched}) {
        for (const std::int64_t cols : {128, 200}) {
          QuantizeProblem problem = dual(sizes, tail_rows, cols);
          if (problem.rows == 0) continue;
          problem.tail = tail;
          problem.transposed_block = random() % 2 == 0 ? kBlock1x128 : kBlock128x128;
          GroupCall call(problem, sizes);
          call.draw(Data::normal, random);
          expect_like_cpu(call, Layout::ours, "ours");
          expect_like_cpu(call, Layout::foreign, "foreign");
        }
      }
    }
  }
}

TEST(QuantizeCudaGroups, EqualsTheCpuInEveryByteOnRandomProblems) {
  OCTET_NEEDS_HOPPER();
  constexpr std::int64_t kSizes[] = {0, 0, 1, 2, 5, 16, 17, 100, 127, 128, 129, 200, 256, 257};
  constexpr std::int64_t kCols[] = {1, 8, 15, 64, 127, 128, 129, 136, 256, 300};
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
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
    GroupCall call(problem, sizes, any_of({0, 0, 1, 8}, random), any_of({0, 3, 8, 16}, random));
    call.draw(any_of(kData, random), random);
    expect_like_cpu(call, any_of({Layout::ours, Layout::foreign}, random), text("seed ", seed));
    if (HasFailure()) return;
  }
}

TEST(QuantizeCudaGroups, TakesManyGroups) {
  OCTET_NEEDS_HOPPER();
  Sizes sizes(1024, 0);
  for (std::size_t g = 3; g < sizes.size(); g += 97) sizes[g] = static_cast<std::int64_t>(g % 150);
  sizes.back() = 130;
  GroupCall call(dual(sizes, 9, 72), sizes);
  Random random(2);
  call.draw(Data::normal, random);
  expect_like_cpu(call, Layout::ours, "1024 groups");
}

// Sizes of several megabytes, gathered and not: more blocks than the device holds at a time.
TEST(QuantizeCudaGroups, EqualsTheCpuOnLargeTensors) {
  OCTET_NEEDS_HOPPER();
  const Sizes sizes{1000, 0, 2900, 7, 3000, 129};
  Random random(4);
  for (const std::int64_t source_rows : {0, 2000}) {
    for (const BlockShape transposed : {kBlock1x128, kBlock128x128}) {
      QuantizeProblem problem = dual(sizes, 100, 2304);
      problem.source_rows = source_rows;
      problem.source_top_k = source_rows > 0 ? 6 : 0;
      problem.transposed_block = transposed;
      GroupCall call(problem, sizes);
      call.draw(Data::any_bits, random);  // many tiles have values that are not finite
      expect_like_cpu(call, Layout::ours, "any bits");
      call.draw(Data::normal, random);
      expect_like_cpu(call, Layout::ours, "normal");
    }
  }
}

// An entry of the source that is no row of the input makes a row of NaN.
TEST(QuantizeCudaGroups, MakesRowsThatTheInputHasNotNaN) {
  OCTET_NEEDS_HOPPER();
  const Sizes sizes{60, 140};
  QuantizeProblem problem = dual(sizes, 4, 264);
  problem.source_rows = 51;
  GroupCall call(problem, sizes);
  Random random(5);
  call.draw(Data::normal, random);
  call.input.set_row(50, NAN);
  for (std::size_t r = 0; r < 200; ++r) {
    call.source[r] = r % 40 == 7 ? 50 : call.source[r] % 50;
  }
  const GroupCopies wanted = call.on_cpu(Layout::ours);
  // The same without the last row of the input.
  call.problem.source_rows = 50;
  call.input.view.shape[0] = 50;
  std::int32_t bad = 50;
  for (std::size_t r = 7; r < 200; r += 40) {
    call.source[r] = bad;
    bad = bad > 0 ? -1 : std::numeric_limits<std::int32_t>::max();
  }
  const GroupCopies got(call.problem, Layout::ours);
  const DeviceCall device(call, got);
  run(device.plan, device.args);
  device.download_to(got);
  got.expect_equal(wanted, device.repeat());
}

TEST(QuantizeCudaGroups, WritesNothingIfTheTableIsNotOne) {
  OCTET_NEEDS_HOPPER();
  GroupCall call(dual({100, 200}, 4, 264), {100, 200});
  Random random(6);
  call.draw(Data::normal, random);
  std::memset(call.table.data(), 0, 4 * static_cast<std::size_t>(call.table.view().shape[0]));
  const GroupCopies poisoned(call.problem, Layout::foreign);
  const GroupCopies got(call.problem, Layout::foreign);
  const DeviceCall device(call, got);
  run(device.plan, device.args);
  device.download_to(got);
  got.expect_equal(poisoned, device.repeat());
}

// The host never reads the sizes: a captured call runs with those of another table.
TEST(QuantizeCudaGroups, IsReplayedWithOtherSizes) {
  OCTET_NEEDS_HOPPER();
  GroupCall call(dual({100, 200, 0, 300}, 50, 300), {100, 200, 0, 300});
  Random random(7);
  call.draw(Data::normal, random);
  const GroupCopies got(call.problem, Layout::ours);
  const DeviceCall device(call, got);
  const Stream stream;
  const Graph graph(stream, [&](void* handle) { run(device.plan, device.args, {}, handle); });
  for (const Sizes& sizes : {Sizes{100, 200, 0, 300}, Sizes{0, 0, 650, 0}, Sizes{1, 129, 256, 0}}) {
    call.sizes = sizes;
    call.table = table_of(sizes, call.problem.rows);
    copy(call.table, device.args.table);
    const GroupCopies again(call.problem, Layout::ours);  // poison
    std::copy(again.out.bytes().begin(), again.out.bytes().end(), got.out.bytes().begin());
    std::copy(again.transposed.bytes().begin(), again.transposed.bytes().end(),
              got.transposed.bytes().begin());
    device.out.image.upload();
    device.transposed.image.upload();
    cuda::synchronize(0);
    graph.launch(stream);
    stream.synchronize();
    device.download_to(got);
    got.expect_equal(call.on_cpu(Layout::ours), "replayed");
  }
}

// A batch: matrices of one shape with gaps between them.
void expect_batch_like_cpu(const QuantizeProblem& problem, Layout layout, std::int64_t offset,
                           std::int64_t gap, std::int64_t gap_rows, Data data, Random& random,
                           const std::string& what) {
  Rows input(problem.batch * (problem.rows + gap_rows), problem.cols, problem.input_dtype, offset,
             gap);
  input.draw(data, random);
  const std::int64_t pitch = problem.cols + gap;
  input.view =
      make_view(input.view.data, problem.input_dtype, {problem.batch, problem.rows, problem.cols});
  input.view.strides = {(problem.rows + gap_rows) * pitch, pitch, 1};
  const auto image = [&](std::optional<BlockShape> block, std::int64_t rows, std::int64_t cols) {
    return Image(layout, problem.batch, rows, cols, problem.format, block.value_or(kBlock1x128));
  };
  const Image wanted_out = image(problem.block, problem.rows, problem.cols);
  const Image wanted_transposed = image(problem.transposed_block, problem.cols, problem.rows);
  const Image out = image(problem.block, problem.rows, problem.cols);
  const Image transposed = image(problem.transposed_block, problem.cols, problem.rows);
  const OnDevice device_out(out);
  const OnDevice device_transposed(transposed);
  const DeviceImage device_input(input.memory.data(), input.memory.bytes());

  run(plan_quantize(problem, {"cpu_simd", 0}),
      {input.view, wanted_out.view(), wanted_transposed.view()});
  QuantizeProblem device_problem = problem;
  device_problem.device = DeviceImage::kDevice;
  run(plan_quantize(device_problem, {"cuda_sm90_tile", 0}),
      {device_input.at(input.view), device_out.view, device_transposed.view});
  cuda::synchronize(0);
  device_out.download_to(out);
  device_transposed.download_to(transposed);
  const std::string repeat = what + ": octet check " + describe(device_problem);
  out.expect_equal(wanted_out, "out, " + repeat);
  transposed.expect_equal(wanted_transposed, "transposed, " + repeat);
}

TEST(QuantizeCudaBatch, EqualsTheCpuInEveryByteOnRandomProblems) {
  OCTET_NEEDS_HOPPER();
  constexpr std::optional<BlockShape> kBlocks[] = {std::nullopt, kBlock1x128, kBlock128x128};
  for (std::uint64_t seed = 1; seed <= 250; ++seed) {
    Random random(seed);
    QuantizeProblem problem = random_problem(kBlocks, random);
    problem.batch = any_of({1, 2, 3, 7}, random);
    const Layout layout = any_of({Layout::ours, Layout::foreign}, random);
    expect_batch_like_cpu(problem, layout, any_of({0, 0, 1, 8}, random), any_of({0, 3, 8}, random),
                          any_of({0, 1}, random), any_of(kData, random), random,
                          text("seed ", seed));
    if (HasFailure()) return;
  }
}

// Thousands of tiles, and rows and columns that end within one.
TEST(QuantizeCudaBatch, EqualsTheCpuOnWeightsOfExperts) {
  OCTET_NEEDS_HOPPER();
  Random random(8);
  for (const std::int64_t rows : {1024, 1000}) {
    const QuantizeProblem problem{.rows = rows,
                                  .cols = 1416,
                                  .block = kBlock128x128,
                                  .transposed_block = kBlock128x128,
                                  .batch = 12};
    expect_batch_like_cpu(problem, Layout::ours, 0, 0, 0, Data::normal, random, "weights");
  }
}

}  // namespace
}  // namespace octet::testing
