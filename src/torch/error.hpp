// Failures inside of an operator: thrown and caught in this library, never across its border.
#pragma once

#include <octet/octet.h>

#include <exception>
#include <string>

namespace octet_torch {

// Beyond the numbers of octet_status: an argument has a dtype that the operator does not take.
inline constexpr octet_status kWrongDtype = 1000;

struct Failure : std::exception {
  Failure(octet_status code, std::string words) : status(code), text(std::move(words)) {}
  const char* what() const noexcept override { return text.c_str(); }

  octet_status status;
  std::string text;
};

[[noreturn]] inline void refuse(const std::string& text) {
  throw Failure(OCTET_INVALID_ARGUMENT, text);
}

[[noreturn]] inline void refuse_dtype(const std::string& text) { throw Failure(kWrongDtype, text); }

// Passes on what octet said.
inline void check(octet_status status) {
  if (status != OCTET_OK) throw Failure(status, octet_last_error());
}

}  // namespace octet_torch
