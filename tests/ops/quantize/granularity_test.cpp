// Blocks of rows, columns and whole tensors, mx blocks and what they fold into, and given scales:
// every code and scale against the rules in f64, in poisoned memory between guard bands.
#include "ops/quantize/form_cases.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace octet {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(QuantizeGranularity, FollowsTheRulesInEveryForm) {
  Random random(3);
  for (const Form& form : all_forms()) {
    for (const auto& [rows, cols] : {std::pair{1, 1}, {33, 31}, {129, 257}, {160, 96}}) {
      const Dtype dtype = any_of({Dtype::bf16, Dtype::f16, Dtype::f32}, random);
      for (Dtype format : {Dtype::e4m3, Dtype::e5m2}) {
        QuantizeProblem problem = form.problem(rows, cols, format);
        problem.input_dtype = dtype;
        Input input(rows, cols, dtype, 5);
        fill(input, any_of({Data::normal, Data::some_non_finite, Data::any_bits}, random), random);
        expect_follows_rules(problem, input, "cpu_reference");
        expect_follows_rules(problem, input, "");
      }
    }
  }
}

TEST(QuantizeGranularity, TakesHardDataInEveryForm) {
  Random random(4);
  for (const Form& form : all_forms()) {
    for (Dtype format : {Dtype::e4m3, Dtype::e5m2}) {
      QuantizeProblem problem = form.problem(70, 200, format);
      problem.input_dtype = Dtype::f32;
      Input input(70, 200, Dtype::f32);
      for (const Data data :
           {Data::tiny, Data::huge, Data::zeros, Data::one_outlier, Data::non_finite_lines}) {
        fill(input, data, random);
        expect_follows_rules(problem, input, "");
      }
    }
  }
}

// Forms that the SIMD kernels take, by each instruction set of the machine.
TEST(QuantizeGranularity, GivesTheSameBitsOnEveryInstructionSet) {
  Machine machine;
  machine.avx2 = true;
  Random random(6);
  int runs = 0;
  for (const Form& form : all_forms()) {
    QuantizeProblem problem = form.problem(150, 290, Dtype::e4m3);
    if (!kQuantizeCpuSimd.refuse(problem, machine).empty()) continue;
    for (Dtype format : {Dtype::e4m3, Dtype::e5m2}) {
      for (Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
        problem.format = format;
        problem.input_dtype = dtype;
        Input input(150, 290, dtype, 3);
        fill(input, any_of({Data::normal, Data::some_non_finite, Data::any_bits}, random), random);
        const PaddedCopies wanted(problem);
        run(plan_quantize(problem, {"cpu_reference", 2}), wanted.args(input.view()));
        const Buffer workspace(kQuantizeCpuSimd.plan(problem, machine).workspace_bytes);
        for (const InstructionSet instructions : instruction_sets()) {
          const PaddedCopies given(problem);
          quantize_cpu_simd(problem, given.args(input.view()),
                            {{workspace.data(), workspace.bytes()}, 3}, instructions);
          given.expect_equal(wanted, describe(problem));
          ++runs;
        }
      }
    }
  }
  EXPECT_GT(runs, 300);
}

// A block of each pattern in a row of mx blocks, and the bytes by hand.
struct MxCase {
  const char* what;
  float amax;
  Dtype format;
  int floor, even, up;  // the byte of the scale
};

const MxCase kMxCases[] = {
    {"zero", 0, Dtype::e4m3, 0, 0, 0},
    {"one", 1, Dtype::e4m3, 119, 119, 119},
    {"the limit", 448, Dtype::e4m3, 127, 127, 127},
    {"above the limit", 449, Dtype::e4m3, 127, 127, 128},
    {"below the tie", 479, Dtype::e4m3, 127, 127, 128},
    {"a tie, away from zero", 496, Dtype::e4m3, 127, 128, 128},
    {"below the next power", 511, Dtype::e4m3, 127, 128, 128},
    {"the next power", 512, Dtype::e4m3, 128, 128, 128},
    {"e5m2 one", 1, Dtype::e5m2, 112, 112, 112},
    {"e5m2 limit", 57344, Dtype::e5m2, 127, 127, 127},
    {"e5m2 above", 57345, Dtype::e5m2, 127, 127, 128},
    {"e5m2 tie", 61440, Dtype::e5m2, 127, 128, 128},
    {"the smallest scale", 0x1p-119f, Dtype::e4m3, 0, 0, 0},
    {"one above it", 0x1p-118f, Dtype::e4m3, 1, 1, 1},
    {"a subnormal", 0x1p-149f, Dtype::e4m3, 0, 0, 0},
    {"the largest f32", std::numeric_limits<float>::max(), Dtype::e4m3, 246, 247, 247},
    {"the largest f32 in e5m2", std::numeric_limits<float>::max(), Dtype::e5m2, 239, 240, 240},
};

TEST(QuantizeMx, ScalesAreTheBytesOfTheStandard) {
  for (const MxCase& given : kMxCases) {
    for (const MxScale rule : {MxScale::floor, MxScale::even, MxScale::up}) {
      QuantizeProblem problem{.rows = 1,
                              .cols = 32,
                              .input_dtype = Dtype::f32,
                              .format = given.format,
                              .block = kBlock1x32,
                              .mx_scale = rule};
      Input input(1, 32, Dtype::f32);
      input.set(0, 7, -given.amax);
      input.set(0, 8, kNan);
      const QuantizedTensor out(1, 32, given.format, kBlock1x32);
      run(plan_quantize(problem), {input.view(), out, {}});
      const int byte = *static_cast<const std::uint8_t*>(out.view().scales.data);
      EXPECT_EQ(byte, rule == MxScale::floor  ? given.floor
                      : rule == MxScale::even ? given.even
                                              : given.up)
          << given.what << ": " << describe(problem);
    }
  }
}

// Codes by hand: scale 2^0 (amax 448 to 511), where floor saturates what is above the limit.
TEST(QuantizeMx, SaturatesAndRoundsAsE4m3) {
  const float row[] = {511,     -500,     448,        432,   431,  17,        19,        0x1p-6f,
                       0x1p-9f, 0x1p-10f, 0x1.8p-10f, -0.0f, kNan, kInfinity, -kInfinity};
  const std::uint8_t wanted[] = {0x7E, 0xFE, 0x7E, 0x7E, 0x7D, 0x58, 0x5A, 0x08,
                                 0x01, 0x00, 0x01, 0x80, 0x7F, 0x7F, 0x7F};
  Input input(1, 32, Dtype::f32);
  for (int c = 0; c < 15; ++c) input.set(0, c, row[c]);
  QuantizeProblem problem{.rows = 1, .cols = 32, .input_dtype = Dtype::f32, .block = kBlock1x32};
  const QuantizedTensor out(1, 32, Dtype::e4m3, kBlock1x32);
  run(plan_quantize(problem), {input.view(), out, {}});
  const auto* codes = static_cast<const std::uint8_t*>(out.view().values.data);
  for (int c = 0; c < 15; ++c) EXPECT_EQ(int{codes[c]}, int{wanted[c]}) << row[c];
}

// Four mx blocks with scales 2^0, 2^-1, 2^-4 and that of zeros: the fold keeps 448 and 224, and
// 2^-9 at a scale of 2^-4 falls to zero.
TEST(QuantizeMx, FoldsToTheLargestScale) {
  Input input(1, 128, Dtype::f32);
  input.set(0, 0, 448);
  input.set(0, 32, 224);
  input.set(0, 33, 0x1p-9f);
  input.set(0, 64, 28);
  input.set(0, 65, 0x1p-13f);
  QuantizeProblem problem{
      .rows = 1, .cols = 128, .input_dtype = Dtype::f32, .block = kBlock1x128, .fold_mx = true};
  const QuantizedTensor out(1, 128, Dtype::e4m3, kBlock1x128);
  run(plan_quantize(problem), {input.view(), out, {}});
  const auto* codes = static_cast<const std::uint8_t*>(out.view().values.data);
  EXPECT_EQ(*static_cast<const float*>(out.view().scales.data), 1.0f);
  EXPECT_EQ(codes[0], 0x7E);
  EXPECT_EQ(codes[32], 0x76);
  EXPECT_EQ(codes[33], 0x01);
  EXPECT_EQ(codes[64], 0x5E);
  EXPECT_EQ(codes[65], 0x00);
}

// Rows of 1024 as f64, from a copy in mx blocks, folded or not.
std::vector<double> decoded_rows(const QuantizedView& view) {
  const oracle::Fp8Table table(Dtype::e4m3);
  std::vector<double> result;
  for (std::int64_t r = 0; r < view.values.rows(); ++r) {
    for (std::int64_t c = 0; c < view.values.cols(); ++c) {
      const std::int64_t at =
          r * view.scales.strides[0] + c / view.block.cols * view.scales.strides[1];
      const double scale =
          is_mx(view.block)
              ? std::ldexp(1, static_cast<const std::uint8_t*>(view.scales.data)[at] - 127)
              : static_cast<const float*>(view.scales.data)[at];
      const auto* codes = static_cast<const std::uint8_t*>(view.values.data);
      result.push_back(table.decode(codes[r * view.values.strides[0] + c]) * scale);
    }
  }
  return result;
}

// SNR in dB of products of folded operands against those of the mx operands themselves.
double snr_of_folded_products(const std::function<float()>& draw) {
  constexpr std::int64_t kRows = 16;
  constexpr std::int64_t kCols = 1024;
  std::vector<double> exact[2];
  std::vector<double> folded[2];
  for (int operand = 0; operand < 2; ++operand) {
    Input input(kRows, kCols, Dtype::f32);
    for (std::int64_t r = 0; r < kRows; ++r) {
      for (std::int64_t c = 0; c < kCols; ++c) input.set(r, c, draw());
    }
    const auto cast = [&](BlockShape block, bool fold) {
      const QuantizedTensor out(kRows, kCols, Dtype::e4m3, block);
      const QuantizeProblem problem{
          .rows = kRows, .cols = kCols, .input_dtype = Dtype::f32, .block = block, .fold_mx = fold};
      run(plan_quantize(problem), {input.view(), out, {}});
      return decoded_rows(out);
    };
    exact[operand] = cast(kBlock1x32, false);
    folded[operand] = cast(kBlock1x128, true);
  }
  double signal = 0;
  double noise = 1e-300;
  for (std::int64_t m = 0; m < kRows; ++m) {
    for (std::int64_t n = 0; n < kRows; ++n) {
      const auto product = [&](const std::vector<double>(&x)[2]) {
        return std::inner_product(x[0].begin() + m * kCols, x[0].begin() + (m + 1) * kCols,
                                  x[1].begin() + n * kCols, 0.0);
      };
      const double wanted = product(exact);
      signal += wanted * wanted;
      noise += std::pow(product(folded) - wanted, 2);
    }
  }
  return 10 * std::log10(signal / noise);
}

// What docs/numerics.md promises of folding.
TEST(QuantizeMx, FoldedProductsAreThoseOfTheBlocksToNinetyDecibels) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  EXPECT_GT(snr_of_folded_products([&] { return normal(random); }), 120);
  EXPECT_GT(snr_of_folded_products(
                [&] { return random() % 64 == 0 ? 100 * normal(random) : normal(random); }),
            90);
  EXPECT_GT(snr_of_folded_products([&] {
              const float x = std::exp(3 * normal(random));
              return random() % 2 == 0 ? x : -x;
            }),
            90);
}

// A whole tensor has one scale whatever its orientation.
TEST(QuantizeGranularity, BothCopiesOfAWholeTensorShareBytesAndScale) {
  QuantizeProblem problem{
      .rows = 130, .cols = 70, .block = kWholeTensor, .transposed_block = kWholeTensor};
  Input input(130, 70, problem.input_dtype);
  Random random(5);
  fill(input, Data::normal, random);
  const QuantizedTensor out(130, 70, Dtype::e4m3, kWholeTensor);
  const QuantizedTensor transposed(70, 130, Dtype::e4m3, kWholeTensor);
  const QuantizePlan plan = plan_quantize(problem);
  const Buffer workspace(plan.workspace_bytes);
  run(plan, {input.view(), out, transposed}, {workspace.data(), workspace.bytes()});
  EXPECT_EQ(*static_cast<const float*>(out.view().scales.data),
            *static_cast<const float*>(transposed.view().scales.data));
  const auto* rows = static_cast<const std::uint8_t*>(out.view().values.data);
  const auto* columns = static_cast<const std::uint8_t*>(transposed.view().values.data);
  for (std::int64_t r = 0; r < 130; ++r) {
    for (std::int64_t c = 0; c < 70; ++c) ASSERT_EQ(rows[r * 128 + c], columns[c * 256 + r]);
  }
}

// Both copies may read one scale, and values beyond it saturate.
TEST(QuantizeGiven, CopiesMayShareTheirScale) {
  QuantizeProblem problem{.rows = 3,
                          .cols = 20,
                          .input_dtype = Dtype::f32,
                          .block = kWholeTensor,
                          .transposed_block = kWholeTensor,
                          .given_scales = true};
  Input input(3, 20, Dtype::f32);
  const float values[] = {1, 1000, -1000, 3e38f, kNan, -kInfinity};
  for (int c = 0; c < 6; ++c) input.set(0, c, values[c]);
  const QuantizedTensor out(3, 20, Dtype::e4m3, kWholeTensor);
  const QuantizedTensor transposed(20, 3, Dtype::e4m3, kWholeTensor);
  QuantizeArgs args{input.view(), out, transposed};
  args.transposed.scales = args.out.scales;
  *static_cast<float*>(args.out.scales.data) = 0x1p-120f;
  const QuantizePlan plan = plan_quantize(problem);
  const Buffer workspace(plan.workspace_bytes);
  run(plan, args, {workspace.data(), workspace.bytes()});
  const std::uint8_t wanted[] = {0x7E, 0x7E, 0xFE, 0x7E, 0x7F, 0x7F, 0};
  for (int c = 0; c < 7; ++c) {
    EXPECT_EQ(static_cast<const std::uint8_t*>(args.out.values.data)[c], wanted[c]) << c;
    EXPECT_EQ(static_cast<const std::uint8_t*>(args.transposed.values.data)[c * 128], wanted[c]);
  }
  EXPECT_EQ(*static_cast<const float*>(args.out.scales.data), 0x1p-120f) << "a scale was written";
}

TEST(QuantizeDescribe, SaysHowScalesAreFound) {
  QuantizeProblem problem{.rows = 3, .cols = 20, .mx_scale = MxScale::even, .fold_mx = true};
  EXPECT_EQ(describe(problem),
            "quantize --shape 3x20 --dtype bf16 --format e4m3 --block 1x128 --mx-scale even "
            "--fold-mx --device cpu");
  problem = {.rows = 3,
             .cols = 20,
             .block = kEachRow,
             .transposed_block = kWholeTensor,
             .given_scales = true};
  EXPECT_EQ(describe(problem),
            "quantize --shape 3x20 --dtype bf16 --format e4m3 --block 1xall --transposed-block "
            "allxall --given-scales --device cpu");
}

}  // namespace
}  // namespace octet
