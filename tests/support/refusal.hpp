// The message of a call that must fail.
#pragma once

#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <string>

namespace octet {

// The message of the Error that `call` must throw with this code.
std::string refusal(const auto& call, ErrorCode code = ErrorCode::invalid_argument) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

// The message with which the plans of both passes refuse a problem.
template <class Problem>
std::string refusal_of_both(const Problem& problem, const auto& plan_forward,
                            const auto& plan_backward,
                            ErrorCode code = ErrorCode::invalid_argument) {
  const std::string forward = refusal([&] { plan_forward(problem, {}); }, code);
  EXPECT_EQ(refusal([&] { plan_backward(problem, {}); }, code), forward);
  return forward;
}

// The message with which a plan refuses to run, given the workspace it asks for.
template <class Plan, class Args>
std::string run_refusal(const Plan& plan, const Args& args) {
  const Buffer workspace(plan.workspace_bytes);
  return refusal([&] { run(plan, args, {workspace.data(), workspace.bytes()}); });
}

}  // namespace octet
