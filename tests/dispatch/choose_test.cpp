// Which implementation runs a problem: the argument wins over the environment, which wins over the
// order of the list. If none takes it, a message says why.
#include "dispatch/choose.hpp"

#include "support/environment.hpp"
#include "support/refusal.hpp"

#include <gtest/gtest.h>

namespace octet {
namespace {

const std::vector<Candidate> kCandidates{
    {"cuda_wgmma", "no CUDA device"}, {"cpu_simd", ""}, {"cpu_reference", ""}};

Request request(std::string argument = {}, std::string environment = {}) {
  return {"gemm", "fp8", "gemm --shape 1x2x3", std::move(argument), std::move(environment)};
}

TEST(Choose, TakesTheFirstThatTakesTheProblem) {
  const Choice choice = choose(request(), kCandidates);
  EXPECT_EQ(choice.index, 1u);
  EXPECT_EQ(choice.why, "number 2 of 3, the first that takes the problem");
}

TEST(Choose, EnvironmentBeatsOrder) {
  const Choice choice = choose(request("", "cpu_reference"), kCandidates);
  EXPECT_EQ(choice.index, 2u);
  EXPECT_EQ(choice.why, "forced by OCTET_GEMM_BACKEND");
}

TEST(Choose, ArgumentBeatsEnvironment) {
  const Choice choice = choose(request("cpu_reference", "cpu_simd"), kCandidates);
  EXPECT_EQ(choice.index, 2u);
  EXPECT_EQ(choice.why, "forced by argument");
  EXPECT_EQ(choose(request("cpu_simd", "nonsense"), kCandidates).index, 1u)
      << "an environment that is not asked cannot fail";
}

TEST(Choose, AnUnknownNameListsTheNamesThereAre) {
  EXPECT_EQ(refusal([] { choose(request("nonsense"), kCandidates); }, ErrorCode::invalid_argument),
            "gemm: no implementation is called \"nonsense\", forced by argument; there are: "
            "cuda_wgmma, cpu_simd, cpu_reference");
  EXPECT_EQ(
      refusal([] { choose(request("", "cpu_sim"), kCandidates); }, ErrorCode::invalid_argument),
      "gemm: no implementation is called \"cpu_sim\", forced by OCTET_GEMM_BACKEND; there are: "
      "cuda_wgmma, cpu_simd, cpu_reference");
}

TEST(Choose, AForcedRefusalSaysWhyAndNeverFallsBack) {
  EXPECT_EQ(refusal([] { choose(request("cuda_wgmma"), kCandidates); }, ErrorCode::unsupported),
            "gemm: cuda_wgmma, forced by argument, does not take this problem: no CUDA device\n"
            "  problem: gemm --shape 1x2x3");
}

TEST(Choose, WhereNobodyTakesItEveryRefusalIsListed) {
  const std::vector<Candidate> unwilling{{"cuda_wgmma", "no CUDA device"},
                                         {"cpu_simd", "a is on cuda"}};
  EXPECT_EQ(refusal([&] { choose(request(), unwilling); }, ErrorCode::unsupported),
            "no implementation takes this problem\n"
            "  problem: gemm --shape 1x2x3\n"
            "  cuda_wgmma: no CUDA device\n"
            "  cpu_simd: a is on cuda");
}

TEST(Choose, LogsTheChoiceAndEveryRefusalWhenAsked) {
  testing::internal::CaptureStderr();
  {
    const ScopedVariable log("OCTET_LOG", "dispatch");
    choose(request(), kCandidates);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "octet dispatch: gemm --shape 1x2x3\n"
            "  chosen: cpu_simd (number 2 of 3, the first that takes the problem)\n"
            "  cuda_wgmma: no CUDA device\n");
}

TEST(Choose, IsSilentOtherwise) {
  testing::internal::CaptureStderr();
  {
    const ScopedVariable log("OCTET_LOG", "");
    choose(request(), kCandidates);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Choose, RefusesToLogWhatThereIsNot) {
  const ScopedVariable log("OCTET_LOG", "Dispatch");
  EXPECT_EQ(refusal([] { choose(request(), kCandidates); }, ErrorCode::invalid_argument),
            "OCTET_LOG must be dispatch, calls or dispatch,calls, got \"Dispatch\"");
}

TEST(ParseForced, ReadsOneNameForEveryPrecision) {
  EXPECT_EQ(parse_forced("V", "cpu_simd", "fp8"), "cpu_simd");
  EXPECT_EQ(parse_forced("V", "cpu_simd", "other"), "cpu_simd");
}

TEST(ParseForced, ReadsANamePerPrecision) {
  const char* value = "fp8:cpu_simd,other:cpu_reference";
  EXPECT_EQ(parse_forced("V", value, "fp8"), "cpu_simd");
  EXPECT_EQ(parse_forced("V", value, "other"), "cpu_reference");
  EXPECT_EQ(parse_forced("V", "other:cpu_reference", "fp8"), "") << "not named, not forced";
}

TEST(ParseForced, RefusesOtherSyntax) {
  const auto message = [](const char* value) {
    return refusal([&] { parse_forced("OCTET_GEMM_BACKEND", value, "fp8"); },
                   ErrorCode::invalid_argument);
  };
  EXPECT_EQ(message("fp4:cpu_simd"),
            "OCTET_GEMM_BACKEND must be NAME or fp8:NAME,other:NAME, got \"fp4:cpu_simd\" in it");
  EXPECT_EQ(message("fp8:cpu_simd,cpu_reference"),
            "OCTET_GEMM_BACKEND must be NAME or fp8:NAME,other:NAME, got \"cpu_reference\" in it");
  EXPECT_EQ(message(",fp8:cpu_simd"),
            "OCTET_GEMM_BACKEND must be NAME or fp8:NAME,other:NAME, got \"\" in it");
  EXPECT_EQ(message("fp8:cpu_simd,fp8:cpu_reference"),
            "OCTET_GEMM_BACKEND must be NAME or fp8:NAME,other:NAME, got fp8 twice");
  EXPECT_EQ(message("fp8:"),
            "OCTET_GEMM_BACKEND must be NAME or fp8:NAME,other:NAME, got \"fp8:\" in it");
}

TEST(MakeRequest, ReadsTheVariableOfItsOperator) {
  const ScopedVariable gemm("OCTET_GEMM_BACKEND", "fp8:one,other:two");
  const ScopedVariable quantize("OCTET_QUANTIZE_BACKEND", "three");
  EXPECT_EQ(make_request("gemm", "fp8", "", "").forced_environment, "one");
  EXPECT_EQ(make_request("gemm", "other", "", "").forced_environment, "two");
  EXPECT_EQ(make_request("quantize", "fp8", "", "").forced_environment, "three");
  EXPECT_EQ(make_request("repack", "fp8", "", "").forced_environment, "");
}

TEST(MakeRequest, TakesAnEmptyVariableForNone) {
  const ScopedVariable gemm("OCTET_GEMM_BACKEND", "");
  EXPECT_EQ(make_request("gemm", "fp8", "", "").forced_environment, "");
}

}  // namespace
}  // namespace octet
