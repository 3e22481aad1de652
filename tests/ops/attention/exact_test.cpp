// Results that are exact: one visible key, scores that leave one key, and probabilities that are
// powers of two.
#include "ops/attention/attention_case.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace octet::testing {
namespace {

AttentionProblem small(std::int64_t seq_q, std::int64_t seq_kv, AttentionMask mask = {}) {
  return {.batch = 2,
          .seq_q = seq_q,
          .seq_kv = seq_kv,
          .heads_q = 4,
          .heads_kv = 2,
          .dim_qk = 16,
          .dim_v = 24,
          .dtype = Dtype::bf16,
          .mask = mask};
}

// Where row (b, i) of a head lies in a dense tensor.
std::int64_t at(std::int64_t b, std::int64_t i, std::int64_t head, std::int64_t c, std::int64_t seq,
                std::int64_t heads, std::int64_t dim) {
  return ((b * seq + i) * heads + head) * dim + c;
}

double small_integer(std::int64_t index) { return static_cast<double>(index * 7 % 13 - 6); }

TEST(AttentionExact, AQueryWithOneVisibleKeyReadsItsValue) {
  // A window of one key: query i sees key i + shift.
  for (const std::string& way : attention_ways()) {
    for (const auto& [queries, keys] :
         {std::pair<std::int64_t, std::int64_t>(70, 70), {5, 130}, {130, 5}, {64, 128}, {1, 1}}) {
      const AttentionCall call(small(queries, keys, {0, 0}));
      const AttentionProblem& p = call.problem;
      call.fill(3);
      // Scores of integers are exact, and so is lse.
      for (std::int64_t n = 0; n < elements(call.q); ++n) set(call.q, n, small_integer(n + 1));
      for (std::int64_t n = 0; n < elements(call.k); ++n) set(call.k, n, small_integer(n + 2));
      for (std::int64_t n = 0; n < elements(call.v); ++n) set(call.v, n, small_integer(n));
      for (std::int64_t n = 0; n < elements(call.dout); ++n)
        set(call.dout, n, small_integer(n + 5));
      run_both(way, call);
      for (std::int64_t b = 0; b < p.batch; ++b) {
        for (std::int64_t i = 0; i < queries; ++i) {
          const std::int64_t j = i + keys - queries;
          for (std::int64_t h = 0; h < p.heads_q; ++h) {
            for (std::int64_t c = 0; c < p.dim_v; ++c) {
              const double wanted =
                  j < 0 ? 0 : element(call.v, at(b, j, h / 2, c, keys, p.heads_kv, p.dim_v));
              ASSERT_EQ(element(call.out, at(b, i, h, c, queries, p.heads_q, p.dim_v)), wanted)
                  << way << " " << queries << "x" << keys << ", query " << i;
            }
            const double lse = element(call.lse, (b * p.heads_q + h) * queries + i);
            if (j < 0) {
              ASSERT_EQ(lse, -INFINITY);
              for (std::int64_t c = 0; c < p.dim_qk; ++c) {
                ASSERT_EQ(element(call.dq, at(b, i, h, c, queries, p.heads_q, p.dim_qk)), 0);
              }
            } else {
              ASSERT_TRUE(std::isfinite(lse));
            }
          }
        }
        // Every key is seen by at most one query of each of its two heads.
        for (std::int64_t j = 0; j < keys; ++j) {
          const std::int64_t i = j - keys + queries;
          for (std::int64_t h = 0; h < p.heads_kv; ++h) {
            for (std::int64_t c = 0; c < p.dim_v; ++c) {
              double wanted = 0;
              for (std::int64_t reader = 2 * h; i >= 0 && reader < 2 * h + 2; ++reader) {
                wanted += element(call.dout, at(b, i, reader, c, queries, p.heads_q, p.dim_v));
              }
              ASSERT_EQ(element(call.dv, at(b, j, h, c, keys, p.heads_kv, p.dim_v)), wanted)
                  << way << " key " << j;
            }
          }
        }
      }
    }
  }
}

TEST(AttentionExact, AKeyFarAboveAllOthersIsReadAlone) {
  // Query i wants key 37 * i + 11 (mod keys): its score there is 200, and 0 at all other keys.
  constexpr std::int64_t kSeq = 67;
  AttentionProblem problem = small(kSeq, kSeq);
  problem.dim_qk = kSeq;
  problem.scale = 1;
  for (const std::string& way : attention_ways()) {
    const AttentionCall call(problem);
    const AttentionProblem& p = call.problem;
    for (std::int64_t n = 0; n < elements(call.v); ++n) set(call.v, n, small_integer(n));
    for (std::int64_t n = 0; n < elements(call.dout); ++n) set(call.dout, n, small_integer(n + 5));
    std::vector<double> dv(static_cast<std::size_t>(elements(call.dv)));
    for (std::int64_t b = 0; b < p.batch; ++b) {
      for (std::int64_t i = 0; i < kSeq; ++i) {
        const std::int64_t wanted = (37 * i + 11) % kSeq;
        for (std::int64_t h = 0; h < p.heads_q; ++h) {
          set(call.q, at(b, i, h, wanted, kSeq, p.heads_q, p.dim_qk), 20);
          for (std::int64_t c = 0; c < p.dim_v; ++c) {
            dv[static_cast<std::size_t>(at(b, wanted, h / 2, c, kSeq, p.heads_kv, p.dim_v))] +=
                element(call.dout, at(b, i, h, c, kSeq, p.heads_q, p.dim_v));
          }
        }
        for (std::int64_t h = 0; h < p.heads_kv; ++h) {
          set(call.k, at(b, i, h, i, kSeq, p.heads_kv, p.dim_qk), 10);
        }
      }
    }
    run_both(way, call);
    for (std::int64_t b = 0; b < p.batch; ++b) {
      for (std::int64_t i = 0; i < kSeq; ++i) {
        for (std::int64_t h = 0; h < p.heads_q; ++h) {
          ASSERT_EQ(element(call.lse, (b * p.heads_q + h) * kSeq + i), 200) << way;
          for (std::int64_t c = 0; c < p.dim_v; ++c) {
            ASSERT_EQ(
                element(call.out, at(b, i, h, c, kSeq, p.heads_q, p.dim_v)),
                element(call.v, at(b, (37 * i + 11) % kSeq, h / 2, c, kSeq, p.heads_kv, p.dim_v)))
                << way << " query " << i;
          }
        }
      }
    }
    for (std::int64_t n = 0; n < elements(call.dv); ++n) {
      ASSERT_EQ(element(call.dv, n), dv[static_cast<std::size_t>(n)]) << way;
    }
    for (std::int64_t n = 0; n < elements(call.dq); ++n) ASSERT_EQ(element(call.dq, n), 0) << way;
    for (std::int64_t n = 0; n < elements(call.dk); ++n) ASSERT_EQ(element(call.dk, n), 0) << way;
  }
}

TEST(AttentionExact, EqualScoresOfAPowerOfTwoOfKeysShareTheProbability) {
  // q is 0, and a query sees 16 keys: p is 1/16. Integers leave every sum exact, dS included.
  AttentionProblem problem = small(64, 79, {15, 0});
  problem.dtype = Dtype::f32;
  problem.scale = 1;
  for (const std::string& way : attention_ways()) {
    const AttentionCall call(problem);
    const AttentionProblem& p = call.problem;
    std::memset(call.q.data(), 0, call.q.bytes());
    std::memset(call.dlse.data(), 0, call.dlse.bytes());
    for (std::int64_t n = 0; n < elements(call.k); ++n) set(call.k, n, small_integer(n + 3));
    for (std::int64_t n = 0; n < elements(call.v); ++n) set(call.v, n, 16 * small_integer(n));
    for (std::int64_t n = 0; n < elements(call.dout); ++n) set(call.dout, n, small_integer(n + 5));
    run_both(way, call);
    for (std::int64_t b = 0; b < p.batch; ++b) {
      for (std::int64_t i = 0; i < p.seq_q; ++i) {
        for (std::int64_t h = 0; h < p.heads_q; ++h) {
          double delta = 0;
          for (std::int64_t c = 0; c < p.dim_v; ++c) {
            double sum = 0;
            for (std::int64_t j = i; j < i + 16; ++j) {
              sum += element(call.v, at(b, j, h / 2, c, p.seq_kv, p.heads_kv, p.dim_v));
            }
            const std::int64_t place = at(b, i, h, c, p.seq_q, p.heads_q, p.dim_v);
            ASSERT_EQ(element(call.out, place), sum / 16) << way;
            delta += element(call.dout, place) * sum / 16;
          }
          for (std::int64_t c = 0; c < p.dim_qk; ++c) {
            double dq = 0;
            for (std::int64_t j = i; j < i + 16; ++j) {
              double dp = 0;
              for (std::int64_t e = 0; e < p.dim_v; ++e) {
                dp += element(call.dout, at(b, i, h, e, p.seq_q, p.heads_q, p.dim_v)) *
                      element(call.v, at(b, j, h / 2, e, p.seq_kv, p.heads_kv, p.dim_v));
              }
              dq += (dp - delta) / 16 *
                    element(call.k, at(b, j, h / 2, c, p.seq_kv, p.heads_kv, p.dim_qk));
            }
            // lse is log(16) rounded, so p is 1/16 within some 2^-22.
            ASSERT_NEAR(element(call.dq, at(b, i, h, c, p.seq_q, p.heads_q, p.dim_qk)), dq,
                        1e-2 + 1e-5 * std::abs(dq))
                << way;
          }
        }
      }
    }
  }
}

// Keys that are visible and all score -infinity are as good as none.
TEST(AttentionExact, AQueryWhoseScoresAreAllMinusInfinityGetsZeros) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::string& way : attention_ways()) {
    const AttentionCall call(
        {.seq_q = 2, .seq_kv = 3, .heads_q = 1, .heads_kv = 1, .dim_qk = 1, .dim_v = 2});
    call.fill(1);
    set(call.q, 0, 1);
    set(call.q, 1, 1);
    for (std::int64_t j = 0; j < 3; ++j) set(call.k, j, -infinity);
    run_both(way, call);
    for (std::int64_t i = 0; i < 2; ++i) {
      EXPECT_EQ(element(call.lse, i), -infinity) << way;
      for (std::int64_t c = 0; c < 2; ++c) EXPECT_EQ(element(call.out, i * 2 + c), 0) << way;
    }
    for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(element(call.dv, i), 0) << way;
  }
}

}  // namespace
}  // namespace octet::testing
