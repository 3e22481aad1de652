// Makes the same bad call through C++ and through C, and wants the same code and the same words
// from both, with not a byte of the call's memory changed.
#pragma once

#include "bad_input/arena.hpp"
#include "bad_input/c_structs.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace octet::bad_input {

using PlanOwner = std::unique_ptr<octet_plan, decltype(&octet_plan_destroy)>;

// The functions of one operator, by the types of its problem and arguments.
inline auto cpp_plan(const GemmProblem& p) { return plan_gemm(p); }
inline auto cpp_plan(const QuantizeProblem& p) { return plan_quantize(p); }
inline auto cpp_plan(const DequantizeProblem& p) { return plan_dequantize(p); }
inline auto cpp_plan(const RepackProblem& p) { return plan_repack(p); }
inline auto cpp_plan(const Fp8LinearForward& p) { return plan_fp8_linear_forward(p.problem); }
inline auto cpp_plan(const Fp8LinearBackward& p) { return plan_fp8_linear_backward(p.problem); }

inline octet_status c_plan(const GemmProblem& p, octet_plan** plan) {
  const auto c = to_c(p);
  return octet_plan_gemm(&c, nullptr, plan);
}
inline octet_status c_plan(const QuantizeProblem& p, octet_plan** plan) {
  const auto c = to_c(p);
  return octet_plan_quantize(&c, nullptr, plan);
}
inline octet_status c_plan(const DequantizeProblem& p, octet_plan** plan) {
  const auto c = to_c(p);
  return octet_plan_dequantize(&c, nullptr, plan);
}
inline octet_status c_plan(const RepackProblem& p, octet_plan** plan) {
  const auto c = to_c(p);
  return octet_plan_repack(&c, nullptr, plan);
}
inline octet_status c_plan(const Fp8LinearForward& p, octet_plan** plan) {
  const auto c = to_c(p.problem);
  return octet_plan_fp8_linear_forward(&c, nullptr, plan);
}
inline octet_status c_plan(const Fp8LinearBackward& p, octet_plan** plan) {
  const auto c = to_c(p.problem);
  return octet_plan_fp8_linear_backward(&c, nullptr, plan);
}

inline octet_status c_run(const octet_plan* plan, const GemmArgs& args, const Workspace& w) {
  const auto c = to_c(args);
  return octet_run_gemm(plan, &c, w.data, w.bytes, nullptr);
}
inline octet_status c_run(const octet_plan* plan, const QuantizeArgs& args, const Workspace& w) {
  const auto c = to_c(args);
  return octet_run_quantize(plan, &c, w.data, w.bytes, nullptr);
}
inline octet_status c_run(const octet_plan* plan, const DequantizeArgs& args, const Workspace& w) {
  const auto c = to_c(args);
  return octet_run_dequantize(plan, &c, w.data, w.bytes, nullptr);
}
inline octet_status c_run(const octet_plan* plan, const RepackArgs& args, const Workspace& w) {
  const auto c = to_c(args);
  return octet_run_repack(plan, &c, w.data, w.bytes, nullptr);
}
inline octet_status c_run(const octet_plan* plan, const Fp8LinearForwardArgs& args,
                          const Workspace& w) {
  const auto c = to_c(args);
  return octet_run_fp8_linear_forward(plan, &c, w.data, w.bytes, nullptr);
}
inline octet_status c_run(const octet_plan* plan, const Fp8LinearBackwardArgs& args,
                          const Workspace& w) {
  const auto c = to_c(args);
  return octet_run_fp8_linear_backward(plan, &c, w.data, w.bytes, nullptr);
}

// `call` must throw an Error with this code and exactly these words.
template <class Call>
void expect_error(ErrorCode code, const std::string& message, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown, wanted: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), message);
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << message;
  }
}

inline void expect_status(ErrorCode code, const std::string& message, octet_status status) {
  EXPECT_EQ(status, static_cast<octet_status>(code)) << octet_status_name(status);
  EXPECT_EQ(octet_last_error(), message);
}

template <class Problem>
void expect_plan_refused(ErrorCode code, const std::string& message, const Problem& problem) {
  expect_error(code, message, [&] { cpp_plan(problem); });
  octet_plan* plan = reinterpret_cast<octet_plan*>(1);
  expect_status(code, message, c_plan(problem, &plan));
  EXPECT_EQ(plan, nullptr) << "a failed call leaves no plan";
}

template <class Problem, class Args>
void expect_run_refused(ErrorCode code, const std::string& message, const Arena& arena,
                        const Problem& problem, const Args& args, const Workspace& workspace) {
  const std::vector<char> before = arena.snapshot();
  expect_error(code, message, [&] { run(cpp_plan(problem), args, workspace); });
  EXPECT_EQ(arena.snapshot(), before) << "C++ wrote, then said: " << message;

  octet_plan* made = nullptr;
  ASSERT_EQ(c_plan(problem, &made), OCTET_OK) << octet_last_error();
  const PlanOwner plan(made, octet_plan_destroy);
  expect_status(code, message, c_run(plan.get(), args, workspace));
  EXPECT_EQ(arena.snapshot(), before) << "C wrote, then said: " << message;
}

}  // namespace octet::bad_input
