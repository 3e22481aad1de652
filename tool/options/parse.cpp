#include "tool/options/parse.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>

namespace octet::tool {

std::string with_underscores(std::string op) {
  std::replace(op.begin(), op.end(), '-', '_');
  return op;
}

bool parse_whole(std::string_view text, std::int64_t least, std::int64_t most,
                 std::int64_t& value) {
  return parse_number(text, value) && value >= least && value <= most;
}

bool parse_shape(std::string_view text, std::int64_t* factors, int count) {
  for (int i = 0; i < count; ++i) {
    const std::size_t end = i + 1 < count ? text.find('x') : text.size();
    if (end == std::string_view::npos) return false;
    if (!parse_whole(text.substr(0, end), 1, std::numeric_limits<std::int64_t>::max(),
                     factors[i])) {
      return false;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return true;
}

std::vector<std::int64_t> parse_extents(std::string_view what, const std::string& text,
                                        std::string_view form) {
  constexpr std::array<const char*, 4> kNumbers{"no", "one", "two", "three"};
  const auto count = static_cast<std::size_t>(std::count(form.begin(), form.end(), 'x')) + 1;
  std::vector<std::int64_t> extents(count);
  if (!parse_shape(text, extents.data(), static_cast<int>(count))) {
    refuse_usage("{} must be {}, {} whole numbers between 1 and {}, got \"{}\"", what, form,
                 kNumbers.at(count), std::numeric_limits<std::int64_t>::max(), text);
  }
  return extents;
}

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

}  // namespace octet::tool
