// Parsers for the texts of options and fields: numbers, shapes, names. An error of the command line
// is one line on stderr and exit status 2.
#pragma once

#include <fmt/core.h>

#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace octet::tool {

inline constexpr int kExitFailed = 1;  // a gate failed, or a case could not be run
inline constexpr int kExitUsage = 2;

class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Parts>
[[noreturn]] void refuse_usage(fmt::format_string<Parts...> format, Parts&&... parts) {
  throw UsageError(fmt::format(format, std::forward<Parts>(parts)...));
}

// Parses the whole text as a number. Returns false if it is none or out of the range of `Number`.
template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  return result.ec == std::errc{} && result.ptr == end;
}

// "grouped_gemm" of "grouped-gemm": the library's name of an operator.
std::string with_underscores(std::string op);

// Parses decimal digits as a number in [least, most]; false for anything else.
bool parse_whole(std::string_view text, std::int64_t least, std::int64_t most, std::int64_t& value);

// "MxNxK" or "RxC": exactly `count` factors, each at least 1.
bool parse_shape(std::string_view text, std::int64_t* factors, int count);

// Parses "8x2048x4096" for the form "BxSxH". Throws UsageError that says what `what` must be.
std::vector<std::int64_t> parse_extents(std::string_view what, const std::string& text,
                                        std::string_view form);

// Names are compared without regard to case.
bool same_name(std::string_view a, std::string_view b);

}  // namespace octet::tool
