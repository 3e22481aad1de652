// The message of a call that must fail.
#pragma once

#include <octet/error.hpp>

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

}  // namespace octet
