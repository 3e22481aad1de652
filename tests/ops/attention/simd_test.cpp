// Each instruction set against the reference, and against itself: other threads, another batch around
// a sequence, another layout.
#include "ops/attention/attention_case.hpp"

#include <gtest/gtest.h>

namespace octet::testing {
namespace {

AttentionProblem random_problem(Random& random) {
  constexpr std::int64_t kSeqs[] = {0, 1, 2, 63, 64, 65, 100, 129};
  constexpr std::int64_t kDims[] = {1, 3, 8, 16, 40, 64, 65};
  constexpr std::int64_t kReach[] = {-1, -1, 0, 1, 17, 64, 300};
  AttentionProblem p{.batch = 1 + static_cast<std::int64_t>(random() % 2),
                     .seq_q = any_of(kSeqs, random),
                     .seq_kv = any_of(kSeqs, random),
                     .heads_kv = 1 + static_cast<std::int64_t>(random() % 2),
                     .dim_qk = any_of(kDims, random),
                     .dim_v = any_of(kDims, random),
                     .dtype = any_of({Dtype::bf16, Dtype::f16, Dtype::f32}, random)};
  p.heads_q = p.heads_kv * (1 + static_cast<std::int64_t>(random() % 3));
  p.mask = {any_of(kReach, random), any_of(kReach, random),
            any_of({MaskAlignment::bottom_right, MaskAlignment::top_left}, random)};
  p.sink = random() % 3 == 0;
  if (random() % 4 == 0) p.out_dtype = Dtype::f32;
  if (random() % 4 == 0) p.scale = -0.3f;
  return p;
}

// The error of rounding a result once.
double least_snr(Dtype dtype) { return dtype == Dtype::bf16 ? 48 : dtype == Dtype::f16 ? 62 : 100; }

TEST(AttentionSimd, IsTheReferenceWithinRounding) {
  ASSERT_FALSE(simd_names().empty()) << "this machine has no AVX2";
  Random random(1);
  for (int n = 0; n < 40; ++n) {
    const AttentionProblem problem = random_problem(random);
    const AttentionCall wanted(problem);
    wanted.fill(random());
    run_both("cpu_reference", wanted);
    for (const std::string& way : simd_names()) {
      const AttentionCall given(problem);
      for (const auto& [to, from] : {std::pair(&given.q, &wanted.q),
                                     {&given.k, &wanted.k},
                                     {&given.v, &wanted.v},
                                     {&given.sink, &wanted.sink},
                                     {&given.dout, &wanted.dout},
                                     {&given.dlse, &wanted.dlse}}) {
        if (to->bytes() > 0) std::memcpy(to->data(), from->data(), to->bytes());
      }
      run_both(way, given);
      for (std::size_t i = 0; i < wanted.outputs().size(); ++i) {
        const TensorView& view = *given.outputs()[i];
        // Sums of gradients cancel.
        const double least = i == 1 || i == 5 ? 80 : least_snr(view.dtype);
        ASSERT_GE(snr_db(view, *wanted.outputs()[i]), least)
            << kOutputNames[i] << " by " << way << ": " << describe(problem);
      }
    }
  }
}

AttentionProblem training() {
  return {.batch = 2,
          .seq_q = 150,
          .seq_kv = 190,
          .heads_q = 4,
          .heads_kv = 2,
          .dim_qk = 40,
          .dim_v = 24,
          .mask = {100, 3},
          .sink = true};
}

TEST(AttentionThreads, ThreadsAndInstructionSetsGiveTheSameBits) {
  ASSERT_FALSE(simd_names().empty()) << "this machine has no AVX2";
  const AttentionCall wanted(training());
  wanted.fill(2);
  run_both("avx2", wanted, 1);
  for (const std::string& way : simd_names()) {
    for (const int threads : {1, 2, 5}) {
      const AttentionCall given(training());
      given.fill(2);
      run_both(way, given, threads);
      for (std::size_t i = 0; i < wanted.outputs().size(); ++i) {
        EXPECT_TRUE(same_bits(*given.outputs()[i], *wanted.outputs()[i]))
            << kOutputNames[i] << " by " << way << " with " << threads << " threads";
      }
    }
  }
}

// Copies rows [from, from + rows) of a dense [rows, ...] tensor.
void copy_rows(const HostTensor& to, std::int64_t to_row, const HostTensor& from,
               std::int64_t from_row, std::int64_t rows, std::int64_t row_elements) {
  const std::int64_t bytes = row_elements * size_bytes(from.view().dtype);
  if (rows * bytes == 0) return;
  std::memcpy(static_cast<char*>(to.data()) + to_row * bytes,
              static_cast<const char*>(from.data()) + from_row * bytes,
              static_cast<std::size_t>(rows * bytes));
}

TEST(AttentionSequences, ASequenceAloneAndInsideABatchHasTheSameBits) {
  const std::vector<std::int64_t> q_at{0, 70, 70, 71, 200}, kv_at{0, 130, 131, 131, 240};
  for (const Dtype offsets : {Dtype::i32, Dtype::i64}) {
    AttentionProblem packed{.batch = 4,
                            .seq_q = 129,
                            .seq_kv = 130,
                            .heads_q = 4,
                            .heads_kv = 2,
                            .dim_qk = 24,
                            .dim_v = 16,
                            .mask = kCausalMask,
                            .sink = true,
                            .offsets_dtype = offsets,
                            .total_q = 210,
                            .total_kv = 245};
    for (const std::string& way : attention_ways()) {
      const AttentionCall all(packed);
      all.fill(4);
      all.set_offsets(q_at, kv_at);
      run_both(way, all);
      for (std::size_t b = 0; b < 4; ++b) {
        AttentionProblem alone = packed;
        alone.batch = 1;
        alone.offsets_dtype.reset();
        alone.total_q = alone.total_kv = 0;
        alone.seq_q = q_at[b + 1] - q_at[b];
        alone.seq_kv = kv_at[b + 1] - kv_at[b];
        const AttentionCall one(alone);
        const std::int64_t q_row = 4 * 24, out_row = 4 * 16, k_row = 2 * 24, v_row = 2 * 16;
        copy_rows(one.q, 0, all.q, q_at[b], alone.seq_q, q_row);
        copy_rows(one.dout, 0, all.dout, q_at[b], alone.seq_q, out_row);
        copy_rows(one.k, 0, all.k, kv_at[b], alone.seq_kv, k_row);
        copy_rows(one.v, 0, all.v, kv_at[b], alone.seq_kv, v_row);
        std::memcpy(one.sink.data(), all.sink.data(), one.sink.bytes());
        for (std::int64_t h = 0; h < 4; ++h) {
          copy_rows(one.dlse, h * alone.seq_q, all.dlse, h * 210 + q_at[b], alone.seq_q, 1);
        }
        run_both(way, one);
        const auto expect_rows = [&](const char* name, const HostTensor& given,
                                     const HostTensor& wanted, std::int64_t first,
                                     std::int64_t rows, std::int64_t row) {
          for (std::int64_t n = 0; n < rows * row; ++n) {
            ASSERT_EQ(element(given, first * row + n), element(wanted, n)) << name << " " << way;
          }
        };
        expect_rows("out", all.out, one.out, q_at[b], alone.seq_q, out_row);
        expect_rows("dq", all.dq, one.dq, q_at[b], alone.seq_q, q_row);
        expect_rows("dk", all.dk, one.dk, kv_at[b], alone.seq_kv, k_row);
        expect_rows("dv", all.dv, one.dv, kv_at[b], alone.seq_kv, v_row);
        for (std::int64_t h = 0; h < 4; ++h) {
          for (std::int64_t i = 0; i < alone.seq_q; ++i) {
            ASSERT_EQ(element(all.lse, h * 210 + q_at[b] + i),
                      element(one.lse, h * alone.seq_q + i));
          }
        }
      }
      // Behind the last sequence.
      for (std::int64_t n = 200 * 4 * 16; n < 210 * 4 * 16; ++n) ASSERT_EQ(element(all.out, n), 0);
      for (std::int64_t n = 200 * 4 * 24; n < 210 * 4 * 24; ++n) ASSERT_EQ(element(all.dq, n), 0);
      for (std::int64_t n = 240 * 2 * 24; n < 245 * 2 * 24; ++n) ASSERT_EQ(element(all.dk, n), 0);
      for (std::int64_t n = 240 * 2 * 16; n < 245 * 2 * 16; ++n) ASSERT_EQ(element(all.dv, n), 0);
      for (std::int64_t h = 0; h < 4; ++h) {
        ASSERT_EQ(element(all.lse, h * 210 + 200), -INFINITY);
      }
    }
  }
}

// q, k and v as slices of one tensor [batch, heads, seq, dim of all three].
TEST(AttentionLayouts, HeadsBeforeTokensInAPackedTensorGiveTheSameBits) {
  AttentionProblem problem = training();
  problem.seq_kv = problem.seq_q;
  problem.heads_kv = problem.heads_q;
  problem.dim_v = problem.dim_qk;
  const AttentionCall dense(problem);
  dense.fill(5);
  run_both("avx2", dense);
  const std::int64_t b = problem.batch, s = problem.seq_q, h = problem.heads_q, d = problem.dim_qk;
  const HostTensor packed(problem.dtype, {b, h, s, 3 * d}),
      gradient(problem.dtype, {b, h, s, 3 * d});
  const auto slice = [&](const HostTensor& from, std::int64_t part) {
    TensorView view =
        make_view(static_cast<char*>(from.data()) + part * d * size_bytes(problem.dtype),
                  problem.dtype, {b, s, h, d});
    view.strides = {h * s * 3 * d, 3 * d, s * 3 * d, 1};
    return view;
  };
  const auto copy = [&](const TensorView& strided, const TensorView& from, bool compare) {
    for (std::int64_t n = 0; n < elements(from); ++n) {
      const std::int64_t c = n % d, head = n / d % h, i = n / d / h % s, batch = n / d / h / s;
      const std::int64_t to =
          batch * strided.strides[0] + i * strided.strides[1] + head * strided.strides[2] + c;
      if (compare) {
        ASSERT_EQ(element(strided, to), element(from, n));
      } else {
        set(strided, to, element(from, n));
      }
    }
  };
  copy(slice(packed, 0), dense.q, false);
  copy(slice(packed, 1), dense.k, false);
  copy(slice(packed, 2), dense.v, false);
  const AttentionCall strided(problem);
  AttentionInputs inputs = dense.inputs();
  inputs.q = slice(packed, 0);
  inputs.k = slice(packed, 1);
  inputs.v = slice(packed, 2);
  const PlanOptions options{"cpu_simd", 2};
  run_with_workspace(plan_attention_forward(problem, options),
                     AttentionForwardArgs{inputs, strided.out, strided.lse});
  run_with_workspace(plan_attention_backward(problem, options),
                     AttentionBackwardArgs{inputs, strided.out, strided.lse, dense.dout, dense.dlse,
                                           slice(gradient, 0), slice(gradient, 1),
                                           slice(gradient, 2), strided.dsink});
  EXPECT_TRUE(same_bits(strided.out, dense.out));
  EXPECT_TRUE(same_bits(strided.lse, dense.lse));
  copy(slice(gradient, 0), dense.dq, true);
  copy(slice(gradient, 1), dense.dk, true);
  copy(slice(gradient, 2), dense.dv, true);
}

TEST(AttentionSimd, KeysWithVeryNegativeScoresLeaveNoNaN) {
  // lse is near -120: a padded key that scored 0 would overflow.
  for (const std::string& way : attention_ways()) {
    AttentionProblem problem{.seq_q = 70,
                             .seq_kv = 70,
                             .heads_q = 1,
                             .heads_kv = 1,
                             .dim_qk = 8,
                             .mask = kCausalMask,
                             .scale = 1};
    const AttentionCall call(problem);
    call.fill(6);
    for (std::int64_t n = 0; n < elements(call.q); ++n) set(call.q, n, 4);
    for (std::int64_t n = 0; n < elements(call.k); ++n) set(call.k, n, -4);
    run_both(way, call);
    for (const HostTensor* output : call.outputs()) {
      for (std::int64_t n = 0; n < elements(*output); ++n) {
        ASSERT_TRUE(std::isfinite(element(*output, n))) << way;
      }
    }
    EXPECT_NEAR(element(call.lse, 0), -128, 1e-4);
  }
}

TEST(AttentionSimd, ANaNStaysInItsSequenceAndHead) {
  for (const std::string& way : attention_ways()) {
    const AttentionCall call(training());
    call.fill(7);
    set(call.k, 0, NAN);  // batch 0, key 0, head 0
    run_both(way, call);
    const AttentionProblem& p = call.problem;
    for (std::int64_t n = 0; n < elements(call.out); ++n) {
      const std::int64_t head = n / p.dim_v % p.heads_q, b = n / p.dim_v / p.heads_q / p.seq_q;
      if (b != 0 || head / 2 != 0) {
        ASSERT_FALSE(std::isnan(element(call.out, n))) << way;
      }
    }
    EXPECT_TRUE(std::isnan(element(call.out, 0))) << way;
  }
}

}  // namespace
}  // namespace octet::testing
