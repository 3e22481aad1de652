#include "support/refusal.hpp"

#include <octet/bench/gates.hpp>
#include <octet/buffer.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace octet::bench {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Verdict judge_list(const std::vector<double>& out, const std::vector<double>& reference,
                   const Bounds& bounds) {
  return judge(std::span<const double>(out), reference, bounds);
}

TEST(OutputGate, SnrIsOfTheWholeOutput) {
  // Signal 100, noise 1: 20 dB.
  const Verdict verdict = judge_list({6, 9}, {6, 8}, {.snr_db = 19.9});
  EXPECT_NEAR(verdict.snr_db, 20, 1e-12);
  EXPECT_TRUE(verdict.pass);
  EXPECT_STREQ(verdict.check(), "PASS");
  const Verdict strict = judge_list({6, 9}, {6, 8}, {.snr_db = 20.1});
  EXPECT_FALSE(strict.pass);
  EXPECT_STREQ(strict.check(), "FAIL");
  EXPECT_EQ(strict.note, "SNR 20 dB, wanted > 20.1 dB");
}

TEST(OutputGate, EqualOutputsHaveNoNoise) {
  const Verdict verdict = judge_list({0, 0}, {0, 0}, {.snr_db = 1000});
  EXPECT_TRUE(verdict.pass);
  EXPECT_EQ(verdict.snr_db, kInfinity);
  EXPECT_FALSE(judge_list({1e-9, 0}, {0, 0}, {.snr_db = -1000}).pass) << "noise and no signal";
}

TEST(OutputGate, TheBoundPerElementSeesWhatAnSnrForgives) {
  std::vector<double> reference(100000, 1);
  std::vector<double> out = reference;
  out[777] = 1.5;
  EXPECT_TRUE(judge_list(out, reference, {.snr_db = 50}).pass);
  const Verdict verdict = judge_list(out, reference, {.snr_db = 50, .relative = 0.25});
  EXPECT_FALSE(verdict.pass);
  EXPECT_EQ(verdict.note, "element 777: 1.5 instead of 1, wanted within 0.25");
  EXPECT_TRUE(judge_list(out, reference, {.relative = 0.25, .absolute = 0.25}).pass);
}

TEST(OutputGate, WhatIsNotFiniteHasToBeSoRightly) {
  for (const double wrong : {kNaN, kInfinity}) {
    EXPECT_FALSE(judge_list({wrong, 1}, {1, 1}, {.snr_db = -1000}).pass);
    EXPECT_FALSE(judge_list({wrong, 1}, {1, 1}, {.absolute = 1e300}).pass);
    EXPECT_TRUE(judge_list({wrong, 1}, {wrong, 1}, {.snr_db = 50, .absolute = 0}).pass);
    EXPECT_FALSE(judge_list({1, 1}, {wrong, 1}, {.absolute = 1e300}).pass);
  }
}

TEST(OutputGate, ReadsEveryFormat) {
  const std::uint16_t bf16[] = {0x3FC0, 0xC000};  // 1.5, -2
  const std::uint16_t f16[] = {0x3E00, 0xC000};
  const std::uint8_t e4m3[] = {0x3C, 0xC0};
  const float f32[] = {1.5f, -2};
  const std::vector<double> reference{1.5, -2};
  for (const auto& view : {make_view(bf16, Dtype::bf16, {2}), make_view(f16, Dtype::f16, {2}),
                           make_view(e4m3, Dtype::e4m3, {2}), make_view(f32, Dtype::f32, {2, 1})}) {
    EXPECT_TRUE(judge(view, reference, {.absolute = 0}).pass) << describe(view);
  }
}

TEST(OutputGate, RefusesWhatCannotFail) {
  EXPECT_EQ(refusal([] { judge_list({1}, {1}, {}); }),
            "judge: no bound is given; wanted snr_db, relative or absolute");
  EXPECT_EQ(refusal([] { judge_list({}, {}, {.snr_db = 50}); }),
            "judge: the reference must have as many elements as out, at least one; got 0 for 0");
  EXPECT_EQ(refusal([] { judge_list({1}, {1}, {.relative = kNaN}); }),
            "judge: a bound per element must be at least 0, got nan");
  float data[6] = {};
  EXPECT_EQ(refusal([&] {
              (void)judge(make_view(data, Dtype::f32, {6}), std::vector<double>(5), {.snr_db = 1});
            }),
            "judge: the reference must have as many elements as out, at least one; got 5 for 6");
  EXPECT_EQ(refusal([&] {
              (void)judge(make_matrix(data, Dtype::f32, 2, 2, 3), std::vector<double>(4),
                          {.snr_db = 1});
            }),
            "judge: out must be dense, got f32[2, 2] strides [3, 1]");
}

TEST(OutputGate, AnElementNobodyWritesFails) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::e4m3, Dtype::e5m2}) {
    const Tensor out(dtype, {4});  // zeros: correct if it were not poisoned
    const Gate gate = make_gate(out, {0, 0, 0, 0}, {.absolute = 1});
    const auto write = [&](std::int64_t elements) {
      std::memset(out.data(), 0, static_cast<std::size_t>(elements * size_bytes(dtype)));
    };
    EXPECT_TRUE(gate([&] { write(4); }).pass) << name(dtype);
    EXPECT_FALSE(gate([&] { write(3); }).pass) << name(dtype);
    EXPECT_FALSE(gate([] {}).pass) << name(dtype);
  }
}

}  // namespace
}  // namespace octet::bench
