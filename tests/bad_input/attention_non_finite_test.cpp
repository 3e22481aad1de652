// NaN and infinities of attention are data, not errors. They stay in their sequence and head, and a
// query without keys takes nothing and gives nothing, whatever arrives at it.
#include "bad_input/both_apis.hpp"

#include <cmath>
#include <limits>
#include <vector>

namespace octet::bad_input {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Causal from the end: queries 0 and 1 of a sequence see no key, query 2 sees key 0 alone.
constexpr std::int64_t kBatch = 2, kSeqQ = 5, kSeqKv = 3, kHeads = 2, kDim = 4;

float& at(const Tensor& tensor, std::int64_t index) {
  return static_cast<float*>(tensor.data())[index];
}
std::int64_t row_at(std::int64_t b, std::int64_t seq, std::int64_t i, std::int64_t head) {
  return ((b * seq + i) * kHeads + head) * kDim;
}
std::int64_t lse_at(std::int64_t b, std::int64_t head, std::int64_t i) {
  return (b * kHeads + head) * kSeqQ + i;
}

struct Attention {
  Tensor q = filled({kBatch, kSeqQ, kHeads, kDim}, 1),
         k = filled({kBatch, kSeqKv, kHeads, kDim}, 2),
         v = filled({kBatch, kSeqKv, kHeads, kDim}, 3), sink = filled({kHeads}, 4),
         out = filled({kBatch, kSeqQ, kHeads, kDim}, 5), lse = filled({kBatch, kHeads, kSeqQ}, 6),
         dout = filled({kBatch, kSeqQ, kHeads, kDim}, 7), dlse = filled({kBatch, kHeads, kSeqQ}, 8),
         dq = filled({kBatch, kSeqQ, kHeads, kDim}, 9),
         dk = filled({kBatch, kSeqKv, kHeads, kDim}, 10),
         dv = filled({kBatch, kSeqKv, kHeads, kDim}, 11), dsink = filled({kHeads}, 12);
  bool has_sink = false;

  static Tensor filled(std::initializer_list<std::int64_t> shape, int seed) {
    Tensor tensor(Dtype::f32, shape);
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    for (std::int64_t i = 0; i < count; ++i) at(tensor, i) = std::sin(static_cast<float>(i + seed));
    return tensor;
  }

  void compute(const char* backend) const {
    AttentionProblem problem{.batch = kBatch,
                             .seq_q = kSeqQ,
                             .seq_kv = kSeqKv,
                             .heads_q = kHeads,
                             .heads_kv = kHeads,
                             .dim_qk = kDim,
                             .dtype = Dtype::f32};
    problem.mask = kCausalMask;
    problem.sink = has_sink;
    AttentionInputs inputs{q, k, v, {}, {}, {}};
    if (has_sink) inputs.sink = sink;
    const auto forward = plan_attention_forward(problem, {backend});
    const Buffer forward_memory(forward.workspace_bytes);
    run(forward, {inputs, out, lse}, {forward_memory.data(), forward_memory.bytes()});
    const auto backward = plan_attention_backward(problem, {backend});
    const Buffer memory(backward.workspace_bytes);
    AttentionBackwardArgs args{inputs, out, lse, dout, dlse, dq, dk, dv, {}};
    if (has_sink) args.dsink = dsink;
    run(backward, args, {memory.data(), memory.bytes()});
  }

  bool row_is_finite(const Tensor& tensor, std::int64_t row) const {
    for (std::int64_t c = 0; c < kDim; ++c) {
      if (!std::isfinite(at(tensor, row + c))) return false;
    }
    return true;
  }
};

class AttentionNonFinite : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      plan_attention_forward({.seq_q = 1, .seq_kv = 1, .heads_q = 1, .heads_kv = 1, .dim_qk = 1},
                             {GetParam()});
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

// The maximum of scores may lose a NaN; the sum keeps it.
TEST_P(AttentionNonFinite, ANaNStaysInItsSequenceAndHead) {
  Attention attention;
  at(attention.k, row_at(1, kSeqKv, 0, 1)) = kNaN;
  attention.compute(GetParam());
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const bool touched = b == 1 && head == 1;
      for (std::int64_t i = 0; i < kSeqQ; ++i) {
        const float lse = at(attention.lse, lse_at(b, head, i));
        if (i < 2) {
          EXPECT_EQ(lse, -kInfinity) << "no key: " << b << " " << head << " " << i;
        } else {
          EXPECT_EQ(std::isnan(lse), touched) << b << " " << head << " " << i;
          EXPECT_EQ(attention.row_is_finite(attention.out, row_at(b, kSeqQ, i, head)), !touched);
          EXPECT_EQ(attention.row_is_finite(attention.dq, row_at(b, kSeqQ, i, head)), !touched);
        }
      }
      for (std::int64_t j = 0; j < kSeqKv; ++j) {
        EXPECT_EQ(attention.row_is_finite(attention.dk, row_at(b, kSeqKv, j, head)), !touched);
        EXPECT_EQ(attention.row_is_finite(attention.dv, row_at(b, kSeqKv, j, head)), !touched);
      }
    }
  }
}

// The gradient at lse = -infinity is often NaN, as that of a merge of nothing with nothing.
TEST_P(AttentionNonFinite, AQueryWithoutKeysGivesNothingWhateverArrivesAtItsLse) {
  Attention clean, dirty;
  clean.compute(GetParam());
  at(dirty.dlse, lse_at(0, 0, 1)) = kNaN;
  dirty.compute(GetParam());
  for (std::int64_t c = 0; c < kDim; ++c) {
    EXPECT_EQ(at(dirty.out, row_at(0, kSeqQ, 1, 0) + c), 0);
    EXPECT_EQ(at(dirty.dq, row_at(0, kSeqQ, 1, 0) + c), 0);
  }
  for (std::int64_t i = 0; i < kBatch * kSeqKv * kHeads * kDim; ++i) {
    EXPECT_EQ(at(dirty.dk, i), at(clean.dk, i)) << i;
    EXPECT_EQ(at(dirty.dv, i), at(clean.dv, i)) << i;
  }
}

TEST_P(AttentionNonFinite, ASinkOfMinusInfinityIsNone) {
  Attention without, with;
  without.compute(GetParam());
  with.has_sink = true;
  at(with.sink, 0) = at(with.sink, 1) = -kInfinity;
  with.compute(GetParam());
  for (std::int64_t i = 0; i < kBatch * kSeqQ * kHeads * kDim; ++i) {
    EXPECT_EQ(at(with.out, i), at(without.out, i)) << i;
    EXPECT_EQ(at(with.dq, i), at(without.dq, i)) << i;
  }
  for (std::int64_t i = 0; i < kBatch * kHeads * kSeqQ; ++i) {
    EXPECT_EQ(at(with.lse, i), at(without.lse, i)) << i;
  }
  EXPECT_EQ(at(with.dsink, 0), 0);
  EXPECT_EQ(at(with.dsink, 1), 0);
}

// A query without keys has the sink as its only logit.
TEST_P(AttentionNonFinite, ASinkOfNaNSpoilsItsHeadAlone) {
  Attention attention;
  attention.has_sink = true;
  at(attention.sink, 1) = kNaN;
  attention.compute(GetParam());
  for (std::int64_t i = 0; i < kSeqQ; ++i) {
    EXPECT_TRUE(std::isfinite(at(attention.lse, lse_at(0, 0, i)))) << i;
    EXPECT_TRUE(std::isnan(at(attention.lse, lse_at(0, 1, i)))) << i;
  }
  EXPECT_EQ(at(attention.lse, lse_at(0, 0, 0)), at(attention.sink, 0));
  EXPECT_TRUE(std::isfinite(at(attention.dsink, 0)));
  EXPECT_TRUE(std::isnan(at(attention.dsink, 1)));
}

INSTANTIATE_TEST_SUITE_P(All, AttentionNonFinite, testing::Values("cpu_simd", "cpu_reference"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace octet::bad_input
