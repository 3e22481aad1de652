// The Hopper quantiser against the CPU, in every byte of the outputs' memory: values, scales,
// padding that a view owns, and the bytes around it, which must not change.
#include "ops/quantize/paths.hpp"
#include "ops/quantize/random_problem.hpp"
#include "support/device_image.hpp"
#include "support/on_cuda.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace octet::testing {
namespace {

constexpr std::uint8_t kPoison = 0xA5;
constexpr std::size_t kGuard = 256;

// A host matrix whose first element and pitch may or may not allow 16-byte loads.
struct Source {
  Buffer memory;
  TensorView view;

  Source(std::int64_t rows, std::int64_t cols, Dtype dtype, std::int64_t offset, std::int64_t pitch)
      : memory(static_cast<std::size_t>((rows * pitch + offset) * size_bytes(dtype))),
        view(make_matrix(static_cast<std::uint8_t*>(memory.data()) + offset * size_bytes(dtype),
                         dtype, rows, cols, pitch)) {}

  void set(std::int64_t row, std::int64_t col, float value) const {
    store_f32(view.data, row * view.strides[0] + col, view.dtype, value);
  }
};

constexpr Data kData[] = {Data::normal,          Data::tiny,     Data::huge,
                          Data::zeros,           Data::any_bits, Data::some_non_finite,
                          Data::non_finite_lines};

float value_of(Data data, std::int64_t row, std::int64_t col, Random& random) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (data == Data::non_finite_lines && (row % 50 == 7 || col % 60 == 11)) {
    return any_of({NAN, kInfinity, -kInfinity}, random);
  }
  return random_value(data, random);
}

void fill(const Source& source, Data data, Random& random) {
  for (std::int64_t r = 0; r < source.view.rows(); ++r) {
    for (std::int64_t c = 0; c < source.view.cols(); ++c) {
      source.set(r, c, value_of(data, r, c, random));
    }
  }
}

// Poisoned memory of one copy: octet's own layout, which owns its padding, or the same bytes as a
// view that does not.
struct Copy {
  QuantizedLayout layout;
  Buffer memory;
  QuantizedView view;

  Copy(std::int64_t rows, std::int64_t cols, Dtype format, BlockShape block, bool owns_padding)
      : layout(rows, cols, format, block), memory(layout.bytes + 2 * kGuard) {
    std::memset(memory.data(), kPoison, memory.bytes());
    view = layout.view(static_cast<std::uint8_t*>(memory.data()) + kGuard);
    view.owns_padding = owns_padding;
  }
};

struct OnDevice {
  DeviceImage image;
  QuantizedView view;

  explicit OnDevice(const Copy& copy)
      : image(copy.memory.data(), copy.memory.bytes()), view(copy.view) {
    view.values = image.at(copy.view.values);
    view.scales = image.at(copy.view.scales);
  }
};

void expect_same_bytes(const Copy& wanted, const OnDevice& given, const std::string& what) {
  const std::vector<std::uint8_t> bytes = given.image.download();
  ASSERT_EQ(bytes.size(), wanted.memory.bytes());
  const auto* reference = static_cast<const std::uint8_t*>(wanted.memory.data());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    ASSERT_EQ(bytes[i], reference[i])
        << what << ", byte " << i << ": " << kGuard << " of guard, values with a pitch of "
        << wanted.layout.pitch << ", scales from " << kGuard + wanted.layout.scales_offset;
  }
}

void expect_like_cpu(const QuantizeProblem& problem, const Source& source, bool owns_padding,
                     const std::string& what) {
  const Copy out(problem.rows, problem.cols, problem.format, problem.block.value_or(kBlock1x128),
                 owns_padding);
  const Copy transposed(problem.cols, problem.rows, problem.format,
                        problem.transposed_block.value_or(kBlock1x128), owns_padding);
  const OnDevice device_out(out);  // copied while the host's copies are still poisoned
  const OnDevice device_transposed(transposed);
  const DeviceImage input(source.memory.data(), source.memory.bytes());

  const bool large = problem.rows * problem.cols > 1 << 20;
  run(plan_quantize(problem, {large ? "cpu_simd" : "cpu_reference", 0}),
      {source.view, out.view, transposed.view});
  QuantizeProblem device_problem = problem;
  device_problem.device = DeviceImage::kDevice;
  const QuantizePlan plan = plan_quantize(device_problem, {"cuda_sm90_tile", 0});
  run(plan, {input.at(source.view), device_out.view, device_transposed.view});
  cuda::synchronize(0);

  const std::string repeat = what + ": octet check " + describe(device_problem);
  expect_same_bytes(out, device_out, "out, " + repeat);
  expect_same_bytes(transposed, device_transposed, "transposed, " + repeat);
}

// The blocks of the kernel.
constexpr std::optional<BlockShape> kBlocks[] = {std::nullopt, kBlock1x128, kBlock128x128};

TEST(QuantizeCuda, EqualsTheReferenceInEveryByteOnRandomProblems) {
  OCTET_NEEDS_HOPPER();
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Random random(seed);
    const QuantizeProblem problem = random_problem(kBlocks, random);
    const std::int64_t offset = any_of({0, 0, 1, 8}, random);
    const std::int64_t pitch =
        any_of({problem.cols, round_up(problem.cols, 8), problem.cols + 5}, random);
    const Source source(problem.rows, problem.cols, problem.input_dtype, offset, pitch);
    fill(source, any_of(kData, random), random);
    expect_like_cpu(problem, source, random() % 2 == 0, "seed " + std::to_string(seed));
    if (HasFatalFailure()) return;
  }
}

// Views as another library might have them: scales in the other order, with gaps.
TEST(QuantizeCuda, WritesForeignCopiesAndNothingBesideThem) {
  OCTET_NEEDS_HOPPER();
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    const QuantizeProblem problem = random_problem(kBlocks, random);
    const Source source(problem.rows, problem.cols, problem.input_dtype, 1, problem.cols + 3);
    fill(source, Data::normal, random);
    const ForeignCopies wanted(problem);
    const ForeignCopies given(problem);
    const DeviceImage input(source.memory.data(), source.memory.bytes());
    const auto values = [](const ForeignCopy& copy) {
      return DeviceImage(copy.values().data(), copy.values().size());
    };
    const auto scales = [](const ForeignCopy& copy) {  // one float lies before the view
      return DeviceImage(static_cast<const float*>(copy.view().scales.data) - 1,
                         copy.scale_bits().size() * 4);
    };
    const DeviceImage images[] = {values(given.out), scales(given.out), values(given.transposed),
                                  scales(given.transposed)};
    const auto on_device = [](const ForeignCopy& copy, const DeviceImage* image) {
      return QuantizedView(image[0].at(copy.view().values), image[1].at(copy.view().scales),
                           copy.view().block);
    };
    quantize_by(Path::reference, problem, wanted.args(source.view));
    QuantizeProblem device_problem = problem;
    device_problem.device = DeviceImage::kDevice;
    run(plan_quantize(device_problem), {input.at(source.view), on_device(given.out, images),
                                        on_device(given.transposed, images + 2)});
    cuda::synchronize(0);
    const auto bytes_of = [](const std::vector<std::uint32_t>& words) {
      const auto* first = reinterpret_cast<const std::uint8_t*>(words.data());
      return std::vector<std::uint8_t>(first, first + 4 * words.size());
    };
    const std::string repeat = text("seed ", seed, ": octet check ", describe(device_problem));
    EXPECT_TRUE(images[0].download() == wanted.out.values()) << repeat;
    EXPECT_TRUE(images[1].download() == bytes_of(wanted.out.scale_bits())) << repeat;
    EXPECT_TRUE(images[2].download() == wanted.transposed.values()) << repeat;
    EXPECT_TRUE(images[3].download() == bytes_of(wanted.transposed.scale_bits())) << repeat;
  }
}

struct Variant {
  const char* name;
  std::optional<BlockShape> block;
  std::optional<BlockShape> transposed_block;
};

class QuantizeCudaLarge : public ::testing::TestWithParam<Variant> {};

// Thousands of tiles, a ragged last one in both directions, rows that are not a multiple of 16.
TEST_P(QuantizeCudaLarge, EqualsTheCpuInEveryByte) {
  OCTET_NEEDS_HOPPER();
  QuantizeProblem problem{.rows = 4096,
                          .cols = 4100,
                          .block = GetParam().block,
                          .transposed_block = GetParam().transposed_block};
  const Source source(problem.rows, problem.cols, problem.input_dtype, 0, 4104);
  Random random(9);
  for (std::int64_t r = 0; r < problem.rows; ++r) {
    for (std::int64_t c = 0; c < problem.cols; ++c) {
      source.set(r, c, static_cast<float>(static_cast<std::int32_t>(random())));
    }
  }
  source.set(4095, 4099, NAN);
  source.set(0, 4098, std::numeric_limits<float>::infinity());
  expect_like_cpu(problem, source, true, GetParam().name);
}

INSTANTIATE_TEST_SUITE_P(Variants, QuantizeCudaLarge,
                         ::testing::Values(Variant{"dual", kBlock1x128, kBlock1x128},
                                           Variant{"row_only", kBlock1x128, std::nullopt},
                                           Variant{"transposed_only", std::nullopt, kBlock1x128},
                                           Variant{"weights", kBlock128x128, kBlock128x128},
                                           Variant{"rows_and_squares", kBlock1x128, kBlock128x128}),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace
}  // namespace octet::testing
