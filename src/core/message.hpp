// Builds the text of messages from parts: text("gemm: K must be >= 1, got ", k).
#pragma once

#include <octet/error.hpp>

#include <charconv>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>

namespace octet {

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return stream.str();
}

// The fewest digits, but at least the six of "%g", that read back to the same finite f32.
inline std::string exact_text(float value) {
  char digits[32];
  for (int precision = 6;; ++precision) {
    const auto end =
        std::to_chars(digits, std::end(digits), value, std::chars_format::general, precision).ptr;
    float read = 0;
    std::from_chars(digits, end, read);
    if (read == value || precision >= std::numeric_limits<float>::max_digits10) {
      return {digits, end};
    }
  }
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
