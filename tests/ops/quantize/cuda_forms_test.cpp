// The Hopper kernels for scales of lines and for mx blocks against the CPU, in every byte of the
// outputs' memory; and the arithmetic that they share with the host.
#include "core/checks.hpp"
#include "ops/quantize/form_cases.hpp"
#include "ops/quantize/mx/fold.hpp"
#include "ops/quantize/whole/lines.hpp"
#include "support/cuda_stream.hpp"
#include "support/device_image.hpp"
#include "support/on_cuda.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace octet::testing {
namespace {

// A matrix with `offset` elements before it and rows `pitch` elements apart.
struct Source {
  Buffer memory;
  TensorView view;

  Source(const QuantizeProblem& problem, std::int64_t offset, std::int64_t pitch)
      : memory(static_cast<std::size_t>((problem.rows * pitch + offset) *
                                        size_bytes(problem.input_dtype))),
        view(make_matrix(
            static_cast<std::uint8_t*>(memory.data()) + offset * size_bytes(problem.input_dtype),
            problem.input_dtype, problem.rows, problem.cols, pitch)) {}

  void fill(Data data, Random& random) const {
    for (std::int64_t r = 0; r < view.rows(); ++r) {
      for (std::int64_t c = 0; c < view.cols(); ++c) {
        const bool line = data == Data::non_finite_lines && (r % 50 == 7 || c % 60 == 11);
        const float x =
            line ? any_of({kNaN, kInfinity, -kInfinity}, random) : random_value(data, random);
        store_f32(view.data, r * view.strides[0] + c, view.dtype, x);
      }
    }
  }

  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  static constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
};

constexpr Data kData[] = {Data::normal,          Data::tiny,     Data::huge,
                          Data::zeros,           Data::any_bits, Data::some_non_finite,
                          Data::non_finite_lines};

// A call on the device, whose copies begin with the bytes of `copies`; the workspace is poisoned.
struct DeviceCall {
  QuantizePlan plan;
  DeviceImage input;
  std::unique_ptr<DeviceImage> out;
  std::unique_ptr<DeviceImage> transposed;
  std::vector<std::uint8_t> poison;
  DeviceImage workspace;
  QuantizeArgs args;

  DeviceCall(const QuantizeProblem& problem, const Source& source, const PaddedCopies& copies)
      : plan(plan_quantize(on_device(problem))),
        input(source.memory.data(), source.memory.bytes()),
        poison(std::max<std::size_t>(plan.workspace_bytes, 256), 0xA5),
        workspace(poison.data(), poison.size()) {
    args.input = input.at(source.view);
    const auto place = [](const std::optional<PaddedCopy>& copy,
                          std::unique_ptr<DeviceImage>& image, QuantizedView& view) {
      if (!copy) return;
      image = std::make_unique<DeviceImage>(copy->bytes(), copy->size());
      view = copy->view();
      view.values = image->at(view.values);
      view.scales = image->at(view.scales);
    };
    place(copies.out, out, args.out);
    place(copies.transposed, transposed, args.transposed);
  }

  static QuantizeProblem on_device(QuantizeProblem problem) {
    problem.device = DeviceImage::kDevice;
    return problem;
  }
  Workspace scratch() const {
    std::uint8_t* data = const_cast<std::uint8_t*>(poison.data());
    const TensorView view =
        make_view(data, Dtype::e4m3, {static_cast<std::int64_t>(poison.size())});
    return {workspace.at(view).data, plan.workspace_bytes};
  }
  void download_to(const PaddedCopies& copies) const {
    const auto fetch = [](const std::unique_ptr<DeviceImage>& image,
                          const std::optional<PaddedCopy>& copy) {
      if (!image) return;
      const std::vector<std::uint8_t> bytes = image->download();
      std::copy(bytes.begin(), bytes.end(), copy->bytes());
    };
    fetch(out, copies.out);
    fetch(transposed, copies.transposed);
  }
};

void expect_like_cpu(const QuantizeProblem& problem, const Source& source, bool owns_padding,
                     const std::string& backend, const std::string& what) {
  const PaddedCopies wanted(problem, owns_padding);
  const PaddedCopies given(problem, owns_padding);
  const DeviceCall device(problem, source, given);
  ASSERT_EQ(device.plan.implementation, backend) << describe(device.plan.problem);
  run(plan_quantize(problem, {"cpu_reference", 0}), wanted.args(source.view));
  run(device.plan, device.args, device.scratch());
  cuda::synchronize(0);
  device.download_to(given);
  given.expect_equal(wanted, what + ": octet check " + describe(device.plan.problem));
}

void expect_random_problems_like_cpu(const std::vector<Form>& forms, const std::string& backend,
                                     std::uint64_t seeds) {
  constexpr std::optional<BlockShape> kAny[] = {kBlock1x128};
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    Random random(seed);
    const QuantizeProblem drawn = random_problem(kAny, random);
    QuantizeProblem problem =
        forms[seed % forms.size()].problem(drawn.rows, drawn.cols, drawn.format);
    problem.input_dtype = any_of({Dtype::bf16, Dtype::f16}, random);
    const std::int64_t pitch =
        any_of({problem.cols, round_up(problem.cols, 8), problem.cols + 5}, random);
    const Source source(problem, any_of({0, 0, 1, 8}, random), pitch);
    source.fill(any_of(kData, random), random);
    expect_like_cpu(problem, source, random() % 2 == 0, backend, text("seed ", seed));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(QuantizeCudaLines, EqualsTheReferenceInEveryByteOnRandomProblems) {
  OCTET_NEEDS_HOPPER();
  expect_random_problems_like_cpu(whole_forms(), "cuda_sm90_lines", 440);
}

TEST(QuantizeCudaMx, EqualsTheReferenceInEveryByteOnRandomProblems) {
  OCTET_NEEDS_HOPPER();
  expect_random_problems_like_cpu(mx_forms(), "cuda_sm90_mx", 432);
}

// 128x1 blocks in either copy, beside lines of any kind, and given scales of 128 elements.
TEST(QuantizeCudaLines, TakesBlocksOfALineBesideWholeLines) {
  OCTET_NEEDS_HOPPER();
  const std::vector<Form> forms{{kBlock128x1, {}},
                                {{}, kBlock128x1},
                                {kBlock128x1, kBlock128x1},
                                {kBlock1x128, kBlock128x1},
                                {kBlock128x1, kBlock1x128, false, false, MxScale::floor, 1e-4f},
                                {kBlock128x1, kEachRow},
                                {kEachRow, kBlock1x128},
                                {kWholeTensor, kBlock128x1, false, false, MxScale::floor, 0, true},
                                {kBlock1x128, kBlock128x1, true},
                                {kBlock1x128, kBlock1x128, true},
                                {kBlock128x1, {}, true}};
  expect_random_problems_like_cpu(forms, "cuda_sm90_lines", 330);
}

// Thousands of tiles, more than the device holds at a time, ragged in both directions.
TEST(QuantizeCudaLines, EqualsTheReferenceOnLargeTensors) {
  OCTET_NEEDS_HOPPER();
  const std::vector<Form> forms{{kEachRow, kEachRow},
                                {kWholeTensor, kWholeTensor},
                                {kEachRow, {}},
                                {kBlock128x1, {}},
                                {kEachRow, kEachRow, true}};
  for (const Form& form : forms) {
    const QuantizeProblem problem = form.problem(4096, 4100, Dtype::e4m3);
    const Source source(problem, 0, 4104);
    Random random(9);
    source.fill(Data::normal, random);
    store_f32(source.view.data, 4095 * 4104 + 4099, Dtype::bf16, NAN);
    expect_like_cpu(problem, source, true, "cuda_sm90_lines", "large");
  }
}

TEST(QuantizeCudaMx, EqualsTheReferenceOnLargeTensors) {
  OCTET_NEEDS_HOPPER();
  const std::vector<Form> forms{
      {kBlock1x32, kBlock1x32},
      {kBlock32x32, kBlock32x32},
      {.block = kBlock1x128, .transposed_block = kBlock1x128, .fold_mx = true},
      {.block = kBlock128x128, .transposed_block = kBlock128x128, .fold_mx = true}};
  for (const Form& form : forms) {
    for (const Dtype format : {Dtype::e4m3, Dtype::e5m2}) {
      const QuantizeProblem problem = form.problem(4096, 4100, format);
      const Source source(problem, 0, 4104);
      Random random(9);
      // Blocks of all scales, so that folding shifts by all amounts.
      for (std::int64_t r = 0; r < 4096; ++r) {
        for (std::int64_t c = 0; c < 4100; ++c) {
          const int scale = static_cast<int>((r / 32 * 7 + c / 32 * 5) % 60) - 30;
          store_f32(source.view.data, r * 4104 + c, Dtype::bf16,
                    std::ldexp(random_value(Data::normal, random), scale));
        }
      }
      expect_like_cpu(problem, source, true, "cuda_sm90_mx", "large");
    }
  }
}

// Rows that a block holds in registers take one pass: every number of vectors, up to the last
// element, aligned and not.
TEST(QuantizeCudaLines, TakesLongRowsInOnePass) {
  OCTET_NEEDS_HOPPER();
  std::uint64_t seed = 0;
  for (const std::int64_t cols :
       {1024, 1030, 2047, 2048, 2049, 4100, 8192, 8193, 16000, 16384, 16385}) {
    for (const std::int64_t rows : {1, 3, 150}) {
      for (const Dtype format : {Dtype::e4m3, Dtype::e5m2}) {
        Random random(++seed);
        QuantizeProblem problem = Form{kEachRow, {}}.problem(rows, cols, format);
        problem.input_dtype = any_of({Dtype::bf16, Dtype::f16}, random);
        problem.amax_floor = any_of({0.0f, 1e-4f}, random);
        const Source source(problem, any_of({0, 1, 8}, random),
                            any_of({cols, round_up(cols, 8), cols + 5}, random));
        source.fill(any_of(kData, random), random);
        expect_like_cpu(problem, source, random() % 2 == 0, "cuda_sm90_lines", text("seed ", seed));
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Maxima of the first pass are cleared on the device: a captured call runs on other data.
TEST(QuantizeCudaLines, IsReplayedOnOtherData) {
  OCTET_NEEDS_HOPPER();
  for (const Form& form : {Form{kEachRow, kEachRow}, Form{kWholeTensor, kWholeTensor}}) {
    const QuantizeProblem problem = form.problem(300, 520, Dtype::e4m3);
    const Source source(problem, 0, 520);
    Random random(10);
    source.fill(Data::huge, random);
    const PaddedCopies given(problem);
    const DeviceCall device(problem, source, given);
    const Stream stream;
    const Graph graph(
        stream, [&](void* handle) { run(device.plan, device.args, device.scratch(), handle); });
    for (const Data data : {Data::huge, Data::tiny, Data::normal}) {
      source.fill(data, random);
      device.input.upload();
      cuda::synchronize(0);
      graph.launch(stream);
      stream.synchronize();
      device.download_to(given);
      const PaddedCopies wanted(problem);
      run(plan_quantize(problem, {"cpu_reference", 0}), wanted.args(source.view));
      given.expect_equal(wanted, "replayed");
    }
  }
}

TEST(QuantizeCudaForms, RefusesWhatHasNoKernel) {
  OCTET_NEEDS_HOPPER();
  const auto refused = [](QuantizeProblem problem, const std::string& part) {
    problem.device = DeviceImage::kDevice;
    try {
      plan_quantize(problem);
      FAIL() << "a plan was made: " << describe(problem);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refused({.rows = 256, .cols = 256, .block = kBlock1x32, .transposed_block = kBlock1x128},
          "cast one copy per call");
  refused({.rows = 256, .cols = 256, .input_dtype = Dtype::f32, .block = kEachRow},
          "takes bf16 and f16, the problem has f32");
}

// What the kernel does with a code, with halves instead of f32.
std::uint8_t folded(std::uint8_t code, int shift, Dtype format) {
  const bool e5m2 = format == Dtype::e5m2;
  const std::uint32_t factors = sm90::fold_factors(shift, e5m2);
  const auto times = [](std::uint16_t x, std::uint32_t y) {
    return f16_from_f32(f32_from_f16(x) * f32_from_f16(static_cast<std::uint16_t>(y)));
  };
  std::uint16_t half = f16_from_f32(e5m2 ? f32_from_e5m2(code) : f32_from_e4m3(code));
  half = times(half, factors & 0xFFFF);
  if (e5m2) half = times(half, factors >> 16);
  return fp8_from_f32(f32_from_f16(half), fp8_format(format));
}

TEST(QuantizeFold, HalvesGiveTheRoundingOfTheRules) {
  for (const Dtype format : {Dtype::e4m3, Dtype::e5m2}) {
    const oracle::Fp8Table table(format);
    for (int code = 0; code < 256; ++code) {
      const double value = table.decode(static_cast<std::uint8_t>(code));
      if (!std::isfinite(value)) continue;
      for (int shift = 0; shift <= 254; ++shift) {
        ASSERT_EQ(folded(static_cast<std::uint8_t>(code), shift, format),
                  table.encode(static_cast<float>(std::ldexp(value, -shift))))
            << "code " << code << " shifted by " << shift;
      }
    }
  }
}

TEST(QuantizeLines, AreThoseOfTheInput) {
  const auto axis = [](BlockShape block, bool is_transposed) {
    return line_form(block, is_transposed, false)->axis;
  };
  EXPECT_EQ(axis(kEachRow, false), LineAxis::row);
  EXPECT_EQ(axis(kEachRow, true), LineAxis::column);
  EXPECT_EQ(axis(kBlock128x1, false), LineAxis::column);
  EXPECT_EQ(axis(kBlock128x1, true), LineAxis::row);
  EXPECT_EQ(axis(kWholeTensor, true), LineAxis::tensor);
  EXPECT_FALSE(line_form(kBlock128x128, false, false));
  EXPECT_FALSE(line_form(kBlock1x32, false, false));
  const LineMaxima maxima =
      line_maxima({.rows = 30, .cols = 50, .block = kEachRow, .transposed_block = kWholeTensor});
  EXPECT_EQ(maxima.words(), 31);
  EXPECT_EQ(maxima.offset(LineAxis::tensor), 30);
  EXPECT_EQ(line_maxima({.rows = 30, .cols = 50, .block = kEachRow, .given_scales = true}).words(),
            0);
}

TEST(QuantizeLines, OfARowAreHeldByTheFewestVectors) {
  const auto vectors = [](std::int64_t cols) {
    return vectors_of_a_row({.rows = 3, .cols = cols, .block = kEachRow});
  };
  EXPECT_EQ(vectors(1023), 0);
  EXPECT_EQ(vectors(1024), 1);
  EXPECT_EQ(vectors(2048), 1);
  EXPECT_EQ(vectors(2049), 2);
  EXPECT_EQ(vectors(16384), 8);
  EXPECT_EQ(vectors(16385), 0);
  EXPECT_EQ(vectors_of_a_row({.rows = 3, .cols = 4096, .block = kEachRow, .given_scales = true}),
            0);
  EXPECT_EQ(
      vectors_of_a_row({.rows = 3, .cols = 4096, .block = kEachRow, .transposed_block = kEachRow}),
      0);
}

}  // namespace
}  // namespace octet::testing
