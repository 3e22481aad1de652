// A text that is one number and nothing else.
#pragma once

#include <charconv>
#include <string_view>
#include <system_error>

namespace octet::tool {

// False where it is another text, or a number that `Number` cannot hold.
template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  return result.ec == std::errc{} && result.ptr == end;
}

}  // namespace octet::tool
