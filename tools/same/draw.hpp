// A random problem: a few options picked by number, with their text. The same seed picks the same on
// every machine, and the text depends on nothing in the library.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <string_view>
#include <utility>

namespace octet::same {

class Draw {
 public:
  Draw(std::string_view op, int index) {
    std::uint64_t seed = 0xcbf29ce484222325u;  // FNV-1a of the operator's name, then the index
    for (const char c : op) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    random_.seed(seed + static_cast<std::uint64_t>(index));
  }

  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  // One of the choices, by its spelling: "dtype=bf16" is added to the text.
  template <class T>
  T pick(std::string_view option, std::initializer_list<std::pair<std::string_view, T>> choices) {
    const auto& [spelling, value] = *(choices.begin() + below(choices.size()));
    add(option, spelling);
    return value;
  }
  std::int64_t pick(std::string_view option, std::initializer_list<std::int64_t> choices) {
    const std::int64_t value = *(choices.begin() + below(choices.size()));
    add(option, std::to_string(value));
    return value;
  }
  // True once in `times`.
  bool once_in(std::uint64_t times, std::string_view option) {
    const bool value = below(times) == 0;
    if (value) add(option, "yes");
    return value;
  }
  // 1 to `largest`, as likely in each octave; a number of `steps`.
  std::int64_t size(std::string_view option, double largest, std::int64_t step = 1) {
    const double unit = static_cast<double>(below(1u << 30)) / (1u << 30);
    const auto drawn = static_cast<std::int64_t>(std::pow(largest / step, unit) + 0.5);
    add(option, std::to_string(drawn * step));
    return drawn * step;
  }

  const std::string& text() const { return text_; }

 private:
  void add(std::string_view option, std::string_view value) {
    if (!text_.empty()) text_ += ' ';
    text_.append(option).append("=").append(value);
  }

  std::mt19937_64 random_;
  std::string text_;
};

}  // namespace octet::same
