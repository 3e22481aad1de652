// Builds the text of messages from parts: text("gemm: K must be >= 1, got ", k).
#pragma once

#include <octet/error.hpp>

#include <sstream>
#include <string>

namespace octet {

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return stream.str();
}

template <class... Parts>
[[noreturn]] void fail(ErrorCode code, const Parts&... parts) {
  throw Error(code, text(parts...));
}

template <class... Parts>
[[noreturn]] void refuse_argument(const Parts&... parts) {
  throw Error(ErrorCode::invalid_argument, text(parts...));
}

}  // namespace octet
