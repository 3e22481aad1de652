// The tuner behind octet tune, with candidates whose times and bits are made up, and the problems that it reads.
#include "bench/tune/search.hpp"
#include "bench/tune/tunable.hpp"
#include "tool/tune/problem_text.hpp"
#include "tool/tune/tuner.hpp"
#include "refusal.hpp"

#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

namespace octet::tool {
namespace {

TEST(ProblemText, ReadsWhatDescribeWrites) {
  std::vector<std::string> problems;
  GemmProblem gemm{.m = 33, .n = 40, .k = 130};
  problems.push_back(describe(gemm));
  gemm.a = {Dtype::e5m2, kEachRow};
  gemm.b = {Dtype::e4m3, kWholeTensor};
  gemm.fast_accumulation = true;
  gemm.bias_dtype = Dtype::f32;
  gemm.max_multiprocessors = 7;
  problems.push_back(describe(gemm));
  gemm = {.m = 1, .n = 2, .k = 3};
  gemm.a = {Dtype::bf16, {}, Major::mn};
  gemm.b = {Dtype::bf16, {}, Major::k};
  gemm.out_dtype = Dtype::f32;
  gemm.accumulate = true;
  problems.push_back(describe(gemm));
  GroupedGemmProblem grouped;
  grouped.groups = 3;
  grouped.rows = 50;
  grouped.n = 40;
  grouped.k = 130;
  grouped.tail = GroupTail::untouched;
  grouped.expected_rows = 44;
  problems.push_back(describe(grouped));
  grouped = {.over = GroupedOver::contraction, .groups = 2, .rows = 30, .n = 20, .k = 10};
  grouped.b.block = kBlock1x128;
  grouped.out_dtype = Dtype::f32;
  grouped.accumulate = true;
  problems.push_back(describe(grouped));
  AttentionProblem attention;
  attention.batch = 2;
  attention.seq_q = 30;
  attention.seq_kv = 40;
  attention.heads_q = 4;
  attention.heads_kv = 2;
  attention.dim_qk = 32;
  attention.dim_v = 16;
  attention.mask.left = 5;
  attention.mask.right = 0;
  attention.sink = true;
  attention.scale = 0.3f;
  attention.out_dtype = Dtype::f32;
  problems.push_back(describe(attention));
  attention = {};
  attention.batch = 2;
  attention.seq_q = attention.seq_kv = 30;
  attention.heads_q = attention.heads_kv = 2;
  attention.dim_qk = 16;
  attention.mask.right = 0;
  attention.offsets_dtype = Dtype::i32;
  attention.total_q = attention.total_kv = 60;
  problems.push_back(describe(attention));
  problems.push_back(describe(attention) + ", backward");
  for (const std::string& problem : problems) {
    const auto tunable = read_problem(problem, kCpu, {});
    EXPECT_GE(tunable->candidates().size(), 1u) << problem;
    std::string text = problem;
    text.erase(text.find(" --device cpu"), 13);
    EXPECT_EQ(tunable->key().problem, text);
    EXPECT_EQ(read_problem(text, kCpu, {})->key(), tunable->key()) << "as a table has it";
  }
}

TEST(ProblemText, RefusesOtherTexts) {
  for (const std::string text :
       {"rope --shape 1x2x3", "gemm", "gemm --shape 1x2 --a bf16 --b bf16 --out bf16",
        "gemm --shape 1x2x3 --a bf16 --b bf16 --out bf17",
        "gemm --shape 1x2x3 --a bf16 --b bf16 --out bf16 --unknown 3",
        "attention --batch 1 --seq x --heads 1 --head-dim 8 --dtype bf16"}) {
    EXPECT_NE(refusal([&] { read_problem(text, kCpu, {}); }), "nothing was refused") << text;
  }
}

// A problem whose candidates take as long as they say and write the bits that they say.
class FakeTunable : public bench::Tunable {
 public:
  explicit FakeTunable(std::vector<bench::TuneCandidate> candidates) {
    candidates_ = std::move(candidates);
    key_ = {"fake", "device", "-", "abc"};
  }
  void allocate(std::int64_t, void*) override { allocated = true; }
  std::int64_t differences(std::size_t candidate) override {
    if (candidate == breaking) throw Error(ErrorCode::device_error, "cuda: an illegal address");
    return different[candidate];
  }
  void synchronize() const override {
    if (is_broken) throw Error(ErrorCode::device_error, "cuda: broken");
  }
  bench::Part part(std::size_t candidate) override {
    return [this, candidate](std::int64_t) {
      ++calls[candidate];
      const auto end =
          std::chrono::steady_clock::now() + std::chrono::microseconds(micros[candidate]);
      while (std::chrono::steady_clock::now() < end) {
      }
    };
  }
  TunedChoice chosen_now() const override {
    return takes_table ? process_table()->entries.at(key_) : candidates_[0].choice;
  }
  GateReport check() const override {
    const bool pass = !failing.contains(chosen_now().implementation);
    return {{{"G2", "d", pass, "3 dB", "> 50 dB", 3}}};
  }

  bool allocated = false, takes_table = true, is_broken = false;
  std::size_t breaking = 100;     // a candidate that throws
  std::set<std::string> failing;  // implementations whose gates fail
  std::map<std::size_t, std::int64_t> different, micros;
  std::map<std::size_t, int> calls;
};

bench::TuneCandidate candidate(const std::string& implementation, double predicted = 1,
                               bool only_forced = false) {
  return {{implementation, "configuration of " + implementation}, predicted, only_forced};
}

TunedEntry tune(FakeTunable& problem, const TunerOptions& options = {.seconds = 0.05}) {
  return tune_problem(problem, options, [](const std::string&) {});
}

TEST(Tuner, TakesTheFastestOfThoseWithTheSameBits) {
  FakeTunable problem(
      {candidate("usual"), candidate("slow"), candidate("fast"), candidate("wrong")});
  problem.micros = {{0, 1000}, {1, 3000}, {2, 400}, {3, 10}};
  problem.different[3] = 12;
  const TunedEntry entry = tune(problem);
  EXPECT_EQ(entry.choice.implementation, "fast");
  EXPECT_EQ(entry.usual.implementation, "usual");
  EXPECT_GT(entry.gain, 1.5);
  ASSERT_EQ(entry.trials.size(), 4u);
  EXPECT_EQ(entry.trials[0].result, "default");
  EXPECT_TRUE(entry.trials[2].result.ends_with("x, chosen")) << entry.trials[2].result;
  EXPECT_EQ(entry.trials[3].result, "changes 12 elements");
  EXPECT_EQ(problem.calls[3], 0) << "never timed";
}

TEST(Tuner, OtherBitsAreChosenOnlyByName) {
  FakeTunable problem({candidate("usual"), candidate("other"), candidate("forced", 1, true)});
  problem.micros = {{0, 1000}, {1, 300}, {2, 100}};
  problem.different = {{1, 12}, {2, 12}};
  EXPECT_EQ(tune(problem).choice.implementation, "usual");
  const TunedEntry named = tune(problem, {.seconds = 0.05, .allow = {"other"}});
  EXPECT_EQ(named.choice.implementation, "other");
  EXPECT_EQ(named.trials[2].result, "not tried: only with --allow forced");
}

TEST(Tuner, LeavesOutWhatTheModelSaysIsFarBehind) {
  FakeTunable problem({candidate("usual"), candidate("hopeless", 1.4)});
  problem.micros = {{0, 1000}, {1, 100}};
  EXPECT_EQ(tune(problem).choice.implementation, "usual");
  EXPECT_FALSE(problem.allocated) << "nothing to compare";
  EXPECT_EQ(tune(problem).trials[1].result, "not tried: predicted 1.40 of the time");
  EXPECT_EQ(tune(problem, {.all = true, .seconds = 0.05}).choice.implementation, "hopeless");
}

TEST(Tuner, AWinnerThatFailsItsGatesIsNotChosen) {
  FakeTunable problem({candidate("usual"), candidate("fast")});
  problem.micros = {{0, 1000}, {1, 300}};
  problem.failing = {"fast"};
  const TunedEntry failed = tune(problem);
  EXPECT_EQ(failed.choice.implementation, "usual");
  EXPECT_EQ(failed.trials[1].result, "FAIL: G2 of d: 3 dB, wanted > 50 dB");
  problem.failing.clear();
  problem.takes_table = false;
  EXPECT_EQ(tune(problem).trials[1].result,
            "FAIL: with it in a table the library runs usual configuration of usual");
}

TEST(Tuner, TheNextFastestTakesThePlaceOfOneThatFails) {
  FakeTunable problem(
      {candidate("usual"), candidate("second"), candidate("fast"), candidate("third")});
  problem.micros = {{0, 3000}, {1, 800}, {2, 200}, {3, 2000}};
  problem.failing = {"fast"};
  const TunedEntry entry = tune(problem);
  EXPECT_EQ(entry.choice.implementation, "second");
  EXPECT_GT(entry.gain, 1.5);
  EXPECT_EQ(entry.trials[2].result, "FAIL: G2 of d: 3 dB, wanted > 50 dB");
  EXPECT_TRUE(entry.trials[1].result.ends_with("x, chosen")) << entry.trials[1].result;
}

TEST(Tuner, ADefaultThatFailsItsGatesIsNotChosenEither) {
  for (const bool alone : {false, true}) {
    FakeTunable problem(alone ? std::vector{candidate("usual")}
                              : std::vector{candidate("usual"), candidate("slow")});
    problem.micros = {{0, 300}, {1, 1000}};
    problem.failing = {"usual"};
    std::string message;
    try {
      tune(problem);
    } catch (const Error& error) {
      message = error.what();
    }
    EXPECT_EQ(message,
              "the default, usual configuration of usual, may not be used: FAIL: G2 of d: 3 dB, "
              "wanted > 50 dB");
  }
}

TEST(Tuner, ABrokenDeviceEndsTheSearch) {
  FakeTunable problem({candidate("usual"), candidate("broken"), candidate("fast")});
  problem.micros = {{0, 1000}, {2, 300}};
  problem.breaking = 1;
  const TunedEntry entry = tune(problem);
  EXPECT_EQ(entry.choice.implementation, "fast") << "only the candidate failed";
  EXPECT_EQ(entry.trials[1].result, "cuda: an illegal address");
  problem.is_broken = true;
  EXPECT_THROW(tune(problem), Error);
}

TEST(Search, OneThatThrowsFailsOnlyItself) {
  const bench::SearchResult result = bench::search_fastest(
      3,
      [](std::size_t i) {
        if (i == 1) throw std::runtime_error("too large");
        bench::Verdict verdict;
        verdict.pass = true;
        return verdict;
      },
      [](std::size_t, std::size_t) { return 1.5; }, [] {});
  EXPECT_EQ(result.chosen, 2u);
  EXPECT_EQ(result.trials[1].verdict.note, "too large");
}

}  // namespace
}  // namespace octet::tool
