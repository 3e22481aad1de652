// A1 to A5 over outputs of attention that are corrupted on purpose.
#include "check/ops/attention_reference.hpp"
#include "check/ops/attention_trial.hpp"
#include "core/numeric.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

namespace octet {
namespace {

AttentionProblem causal_problem(Dtype dtype = Dtype::bf16) {
  AttentionProblem problem;
  problem.batch = 2;
  problem.seq_q = problem.seq_kv = 192;
  problem.heads_q = 4;
  problem.heads_kv = 2;
  problem.dim_qk = 32;
  problem.mask = kCausalMask;
  problem.dtype = dtype;
  return plan_attention_forward(problem).problem;
}

// A call whose outputs can be changed.
class Trial {
 public:
  explicit Trial(const AttentionProblem& problem)
      : problem_(problem),
        tensors_(problem, HeadLayout::bshd, sequence_lengths({}, problem, 1)),
        outputs_(problem, HeadLayout::bshd, 0) {
    std::uint32_t stream = 0;
    for (const TensorView& matrix : tensors_.matrices()) {
      fill_random(matrix, Distribution::normal, {1, stream++}, 0);
    }
    call = run_attention(problem, {}, tensors_, {}, outputs_, 0);
  }

  // Runs the problem with another mask into the same outputs.
  void run_masked(const AttentionMask& mask) {
    AttentionProblem other = problem_;
    other.mask = mask;
    call = run_attention(other, {}, tensors_, {}, outputs_, 0);
  }

  // Zeroes key `key` of the values of one head for one run.
  void run_without_value(std::int64_t sequence, std::int64_t head, std::int64_t key) {
    const TensorView v = call.inputs.v;
    std::vector<float> kept;
    for (std::int64_t c = 0; c < problem_.dim_v; ++c) {
      const std::int64_t at = offset(v, sequence, key, head, c);
      kept.push_back(load_f32(v.data, at, v.dtype));
      store_f32(v.data, at, v.dtype, 0);
    }
    run_attention(problem_, {}, tensors_, {}, outputs_, 0);
    for (std::int64_t c = 0; c < problem_.dim_v; ++c) {
      store_f32(v.data, offset(v, sequence, key, head, c), v.dtype,
                kept[static_cast<std::size_t>(c)]);
    }
  }

  static std::int64_t offset(const TensorView& view, std::int64_t b, std::int64_t row,
                             std::int64_t head, std::int64_t c) {
    return b * view.strides[0] + row * view.strides[1] + head * view.strides[2] + c;
  }

  std::vector<GateResult> judged(double whole_cost = kWholeAttentionCost) const {
    return judge_attention(problem_, call, {}, whole_cost);
  }
  // "A2 out": the gates that fail.
  std::set<std::string> failed() const {
    std::set<std::string> names;
    for (const GateResult& result : judged()) {
      if (!result.pass) names.insert(result.gate + " " + result.tensor);
    }
    return names;
  }

  AttentionBackwardArgs call;

 private:
  AttentionProblem problem_;
  AttentionTensors tensors_;
  AttentionOutputs outputs_;
};

// Scales rows of one head of a tensor.
void scale_rows(const TensorView& view, std::int64_t sequence, std::int64_t head,
                std::int64_t first, std::int64_t rows, float factor) {
  for (std::int64_t r = first; r < first + rows; ++r) {
    for (std::int64_t c = 0; c < view.shape[3]; ++c) {
      const std::int64_t at = Trial::offset(view, sequence, r, head, c);
      store_f32(view.data, at, view.dtype, factor * load_f32(view.data, at, view.dtype));
    }
  }
}

TEST(AttentionGates, PassWhatIsCorrect) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
    const Trial trial(causal_problem(dtype));
    EXPECT_EQ(trial.failed(), std::set<std::string>()) << name(dtype);
  }
}

TEST(AttentionGates, SeeADroppedKey) {
  Trial trial(causal_problem());
  trial.run_without_value(1, 0, 3);
  const std::set<std::string> failed = trial.failed();
  EXPECT_TRUE(failed.count("A2 out") > 0);
  EXPECT_TRUE(failed.count("A3 out") > 0);
  EXPECT_TRUE(failed.count("A2 dq") > 0);
}

TEST(AttentionGates, SeeADiagonalThatIsOffByOne) {
  for (const AttentionMask mask :
       {AttentionMask{.right = 1}, AttentionMask{.left = 191, .right = 1}}) {
    Trial trial(causal_problem());
    trial.run_masked(mask);
    const std::set<std::string> failed = trial.failed();
    for (const char* wanted : {"A1 out", "A2 out", "A3 out", "A4 lse", "A2 dq", "A2 dk", "A2 dv"}) {
      EXPECT_TRUE(failed.count(wanted) > 0) << wanted;
    }
  }
}

TEST(AttentionGates, SeeAWindowThatIsShortByOne) {
  Trial trial(causal_problem());
  trial.run_masked({.left = 190, .right = 0});  // only the last query misses a key, the first
  EXPECT_TRUE(trial.failed().count("A3 out") > 0);
}

TEST(AttentionGates, SeeADroppedTileInTheStripAndItsRows) {
  // What a dropped block of keys leaves of dk and dv, and a dropped block of queries of out and dq.
  Trial trial(causal_problem());
  scale_rows(trial.call.dv, 1, 1, 64, 64, 0);
  scale_rows(trial.call.dk, 0, 0, 64, 64, 0);
  EXPECT_EQ(trial.failed(), (std::set<std::string>{"A1 dk", "A1 dv", "A2 dk", "A2 dv", "A3 dv"}));
  Trial other(causal_problem());
  scale_rows(other.call.out, 0, 3, 128, 64, 0);
  scale_rows(other.call.dq, 0, 3, 128, 64, 0);
  EXPECT_EQ(other.failed(),
            (std::set<std::string>{"A1 dq", "A1 out", "A2 dq", "A2 out", "A3 out"}));
}

TEST(AttentionGates, SeeOneRowThatIsOffByTwoPercent) {
  Trial trial(causal_problem());
  scale_rows(trial.call.out, 1, 2, 100, 1, 1.02f);
  EXPECT_EQ(trial.failed(), std::set<std::string>{"A3 out"});
  for (const GateResult& result : trial.judged()) {
    if (result.gate == "A3" && result.tensor == "out") {
      EXPECT_NE(result.value.find("sequence 1, head 2, row 100"), std::string::npos)
          << result.value;
    }
  }
}

TEST(AttentionGates, SeeALogarithmThatIsOff) {
  Trial trial(causal_problem());
  static_cast<float*>(trial.call.lse.data)[300] += 4e-4f;
  EXPECT_EQ(trial.failed(), std::set<std::string>{"A4 lse"});
}

TEST(AttentionGates, SeeANaN) {
  Trial trial(causal_problem());
  store_f32(trial.call.dk.data, 77, Dtype::bf16, std::nanf(""));
  EXPECT_EQ(trial.failed(), (std::set<std::string>{"A1 dk", "A2 dk"}));
}

TEST(AttentionGates, AQueryWithoutKeysIsZeroAndNothingElse) {
  AttentionProblem problem = causal_problem();
  problem.seq_kv = 150;  // the first 42 queries see none
  Trial trial(problem);
  EXPECT_EQ(trial.failed(), std::set<std::string>());
  store_f32(trial.call.out.data, 5, Dtype::bf16, 1e-6f);
  EXPECT_TRUE(trial.failed().count("A3 out") > 0);
}

TEST(AttentionGates, ASampleHasTheFirstStripAndTheLast) {
  Trial trial(causal_problem());
  for (const GateResult& result : trial.judged(1)) {
    EXPECT_TRUE(result.pass) << result.gate << " " << result.tensor << " " << result.value;
    EXPECT_NE(result.value.find(" in 2 sampled strips"), std::string::npos) << result.value;
  }
  scale_rows(trial.call.dv, 1, 1, 191, 1, 1.02f);
  const std::vector<GateResult> results = trial.judged(1);
  EXPECT_TRUE(std::any_of(results.begin(), results.end(), [](const GateResult& result) {
    return result.gate == "A3" && result.tensor == "dv" && !result.pass;
  }));
}

std::int64_t failures(const std::vector<GateResult>& results, const std::string& tensor) {
  return std::count_if(results.begin(), results.end(), [&](const GateResult& result) {
    return result.gate == "A5" && result.tensor == tensor && !result.pass;
  });
}

// The reference knows the mask of the problem; what ran had another.
TEST(ExactAttention, SeesOneDroppedPair) {
  AttentionProblem problem = causal_problem();
  problem.mask = {.left = 191, .right = 0};
  const auto results = check_exact_attention(problem, {});
  ASSERT_EQ(results.size(), 4u);
  for (const GateResult& result : results) EXPECT_TRUE(result.pass) << result.value;
  // The last query no longer sees the first key.
  const auto shorter = [](AttentionProblem& ran) { ran.mask.left = 190; };
  const auto wrong = check_exact_attention(problem, {}, shorter);
  EXPECT_EQ(failures(wrong, "out"), 1);
  EXPECT_EQ(failures(wrong, "dv"), 1);
}

TEST(ExactAttention, SeesAWrongScale) {
  const auto wrong = check_exact_attention(causal_problem(), {},
                                           [](AttentionProblem& ran) { ran.scale = -ran.scale; });
  for (const char* tensor : {"out", "dv", "dq", "dk"}) EXPECT_EQ(failures(wrong, tensor), 1);
}

TEST(ExactAttention, IsLeftOutWhereNoFactorIsInRange) {
  AttentionProblem problem = causal_problem();
  problem.scale = 1e-8f;
  EXPECT_TRUE(check_exact_attention(problem, {}).empty());
}

TEST(CheckAttention, PassesForEveryLayoutLengthAndDtype) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
    for (const HeadLayout layout :
         {HeadLayout::bshd, HeadLayout::sbhd, HeadLayout::bhsd, HeadLayout::packed}) {
      AttentionProblem problem{.batch = 2,
                               .seq_q = 70,
                               .seq_kv = 70,
                               .heads_q = 4,
                               .heads_kv = 2,
                               .dim_qk = 40,
                               .dim_v = 24,
                               .dtype = dtype};
      problem.mask = layout == HeadLayout::sbhd ? kCausalMask : AttentionMask{9, 3};
      problem.sink = layout == HeadLayout::bhsd;
      DataOptions options;
      options.head_layout = layout;
      options.distribution =
          layout == HeadLayout::packed ? Distribution::skewed : Distribution::normal;
      const GateReport report = check_attention(problem, options);
      for (const GateResult& result : report.results) {
        EXPECT_TRUE(result.pass) << describe(problem) << " " << result.gate << " " << result.tensor
                                 << " " << result.value;
      }
    }
  }
}

TEST(CheckAttention, TakesSequencesOfAnyLengthAndRowsBehindThem) {
  AttentionProblem problem{
      .batch = 4, .seq_q = 65, .seq_kv = 80, .heads_q = 3, .heads_kv = 1, .dim_qk = 32};
  problem.mask = kCausalMask;
  problem.offsets_dtype = Dtype::i64;
  problem.total_q = 100;
  problem.total_kv = 120;
  problem.sink = true;
  problem.out_dtype = Dtype::f32;
  DataOptions options;
  options.sequence_spread = *parse_sequence_spread("65x80,0,0x5,30x20");
  const GateReport report = check_attention(problem, options);
  for (const GateResult& result : report.results) {
    EXPECT_TRUE(result.pass) << result.gate << " " << result.tensor << " " << result.value;
  }
  options.sequence_spread = *parse_sequence_spread("65,40,1,1");
  EXPECT_THROW(check_attention(problem, options), Error) << "107 queries in 100 rows";
}

TEST(SequenceLengths, SpreadAsTheirNamesSay) {
  for (const char* text : {"uniform", "mild", "skew", "longtail", "7,3x5,0"}) {
    const auto spread = parse_sequence_spread(text);
    ASSERT_TRUE(spread) << text;
    EXPECT_EQ(name(*spread), text);
  }
  for (const char* text : {"", "x", "3,", "3x", "-1", "3xx4", "even"}) {
    EXPECT_FALSE(parse_sequence_spread(text)) << text;
  }
  const auto lengths = [](const char* text) {
    return sequence_lengths(*parse_sequence_spread(text), 64, {1024, 2048}, 1);
  };
  for (const char* text : {"uniform", "mild", "skew", "longtail"}) {
    const auto all = lengths(text);
    EXPECT_EQ(all[0], (SequenceLength{1024, 2048})) << text;
    for (const auto& [queries, keys] : all) {
      EXPECT_LE(queries, 1024);
      EXPECT_NEAR(static_cast<double>(keys), 2.0 * static_cast<double>(queries), 2) << text;
    }
  }
  for (const auto& [queries, keys] : lengths("mild")) EXPECT_GE(queries, 512);
  EXPECT_EQ(lengths("longtail")[8].queries, 1024);
  EXPECT_LE(lengths("longtail")[9].queries, 128);
  EXPECT_EQ(lengths("skew"), lengths("skew"));
}

}  // namespace
}  // namespace octet
