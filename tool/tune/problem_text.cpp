#include "tool/tune/problem_text.hpp"

#include "tool/options/op_options.hpp"
#include "tool/options/parse.hpp"

#include "core/message.hpp"
#include "dispatch/tuned.hpp"
#include "ops/attention/problem.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/grouped_gemm/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <type_traits>

namespace octet::tool {
namespace {

constexpr std::string_view kBackward = ", backward";

// The words of a canonical text: options with a value, and flags.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text), backward_(text.ends_with(kBackward)) {
    if (backward_) text.remove_suffix(kBackward.size());
    forward_text_ = text;
    std::string option;
    for (const std::string& word : split(text)) {
      if (op_.empty()) {
        op_ = word;
      } else if (word.starts_with("--")) {
        option = word;
        values_[option];
      } else {
        values_[option] = word;
      }
    }
  }

  const std::string& op() const { return op_; }
  const std::string& forward_text() const { return forward_text_; }  // without the pass
  bool backward() const { return backward_; }
  bool has(const std::string& option) const { return values_.contains(option); }
  // Empty if it is not there.
  std::string value(const std::string& option) const {
    const auto found = values_.find(option);
    return found == values_.end() ? "" : found->second;
  }
  std::int64_t whole(const std::string& option, std::int64_t otherwise = 0) const {
    if (!has(option)) return otherwise;
    std::int64_t number = 0;
    if (!parse_number(value(option), number)) refuse();
    return number;
  }
  Dtype dtype(const std::string& option) const {
    const auto read = parse_dtype(value(option));
    if (!read) refuse();
    return *read;
  }
  std::optional<Dtype> optional_dtype(const std::string& option) const {
    return has(option) ? std::optional(dtype(option)) : std::nullopt;
  }
  GemmOperand operand(const std::string& option) const {
    return parse_operand(option, value(option));
  }
  // "4096", or "128x4096" where both differ.
  std::pair<std::int64_t, std::int64_t> both(const std::string& option) const {
    const std::string given = value(option);
    const std::size_t cross = given.find('x');
    std::int64_t first = 0, second = 0;
    if (!parse_number(given.substr(0, cross), first)) refuse();
    if (cross == std::string::npos) return {first, first};
    if (!parse_number(given.substr(cross + 1), second)) refuse();
    return {first, second};
  }
  [[noreturn]] void refuse() const {
    refuse_usage("\"{}\" is not a problem as OCTET_LOG=calls and tuning tables have them", text_);
  }

 private:
  static std::vector<std::string> split(std::string_view text) {
    std::vector<std::string> words;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(' '), text.size());
      if (end > 0) words.emplace_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return words;
  }

  std::string text_;
  std::string forward_text_;
  bool backward_;
  std::string op_;
  std::map<std::string, std::string> values_;
};

void read_shape(const Words& words, std::int64_t& first, std::int64_t& second,
                std::int64_t& third) {
  std::int64_t shape[3];
  if (!parse_shape(words.value("--shape"), shape, 3)) words.refuse();
  first = shape[0];
  second = shape[1];
  third = shape[2];
}

GemmProblem read_gemm(const Words& words) {
  GemmProblem problem;
  read_shape(words, problem.m, problem.n, problem.k);
  problem.a = words.operand("--a");
  problem.b = words.operand("--b");
  problem.out_dtype = words.dtype("--out");
  problem.accumulate = words.has("--accumulate");
  problem.bias_dtype = words.optional_dtype("--bias");
  problem.fast_accumulation = words.has("--fast-accumulation");
  problem.max_multiprocessors = static_cast<std::int32_t>(words.whole("--max-multiprocessors"));
  return problem;
}

GroupedGemmProblem read_grouped_gemm(const Words& words) {
  GroupedGemmProblem problem;
  problem.over =
      words.value("--over") == "contraction" ? GroupedOver::contraction : GroupedOver::rows;
  problem.groups = words.whole("--groups");
  read_shape(words, problem.rows, problem.n, problem.k);
  problem.a = words.operand("--a");
  problem.b = words.operand("--b");
  problem.out_dtype = words.dtype("--out");
  problem.accumulate = words.has("--accumulate");
  problem.tail = words.value("--tail") == "untouched" ? GroupTail::untouched : GroupTail::zero;
  problem.expected_rows = words.whole("--expected-rows");
  problem.max_multiprocessors = static_cast<std::int32_t>(words.whole("--max-multiprocessors"));
  return problem;
}

AttentionMask read_mask(const Words& words) {
  AttentionMask mask;
  if (words.value("--align") == "top-left") mask.align = MaskAlignment::top_left;
  if (words.has("--causal")) mask.right = 0;
  if (!words.has("--window")) return mask;
  const std::string window = words.value("--window");
  const std::size_t comma = window.find(',');
  const auto reach = [&](const std::string& text) -> std::int64_t {
    std::int64_t keys = kNoWindow;
    if (text != "all" && !parse_number(text, keys)) words.refuse();
    return keys;
  };
  mask.left = reach(window.substr(0, comma));
  mask.right = reach(comma == std::string::npos ? "" : window.substr(comma + 1));
  return mask;
}

AttentionProblem read_attention(const Words& words) {
  AttentionProblem problem;
  problem.batch = words.whole("--batch");
  std::tie(problem.seq_q, problem.seq_kv) = words.both("--seq");
  std::tie(problem.heads_q, problem.heads_kv) = words.both("--heads");
  std::tie(problem.dim_qk, problem.dim_v) = words.both("--head-dim");
  problem.mask = read_mask(words);
  if (words.has("--scale") && !parse_number(words.value("--scale"), problem.scale)) words.refuse();
  problem.sink = words.has("--sink");
  if (words.has("--total")) {
    std::tie(problem.total_q, problem.total_kv) = words.both("--total");
    problem.offsets_dtype = words.dtype("--offsets");
  }
  problem.dtype = words.dtype("--dtype");
  problem.out_dtype = words.optional_dtype("--out");
  problem.workspace_limit = words.whole("--workspace-limit", problem.workspace_limit);
  return problem;
}

// Sets the device, whatever the text has, and requires that the problem says what was read.
template <class Problem>
Problem on_device(Problem problem, const Words& words, Device device) {
  problem.device = device;
  if (tuning_problem(describe(problem), false) != tuning_problem(words.forward_text(), false)) {
    words.refuse();
  }
  return problem;
}

// Calls use(problem, words) with the problem that the text describes.
template <class Use>
void read(const std::string& text, Device device, const Use& use) {
  const Words words(text);
  if (words.op() == "gemm") {
    use(on_device(read_gemm(words), words, device), words);
  } else if (words.op() == "grouped-gemm") {
    use(on_device(read_grouped_gemm(words), words, device), words);
  } else if (words.op() == "attention") {
    use(on_device(read_attention(words), words, device), words);
  } else {
    words.refuse();
  }
}

}  // namespace

std::string operator_of(std::string_view problem) {
  return std::string(problem.substr(0, problem.find(' ')));
}

std::vector<std::string> implementations_of(std::string_view op) {
  std::vector<std::string> names;
  const auto add = [&](const auto& list) {
    for (const auto& one : list) {
      if (std::ranges::find(names, one.name) == names.end()) names.emplace_back(one.name);
    }
  };
  if (op == "gemm") add(gemm_implementations());
  if (op == "grouped-gemm") add(grouped_gemm_implementations());
  if (op == "attention") {
    add(attention_forward_implementations());
    add(attention_backward_implementations());
  }
  return names;
}

Device device_of_call(const std::string& problem) {
  read(problem, kCpu, [](const auto&, const Words&) {});
  const Words words(problem);
  return words.has("--device") ? parse_device(words.value("--device")) : kCpu;
}

std::unique_ptr<bench::Tunable> read_problem(const std::string& problem, Device device,
                                             const DataOptions& options) {
  std::unique_ptr<bench::Tunable> result;
  read(problem, device, [&]<class Problem>(const Problem& one, const Words& words) {
    if constexpr (!std::is_same_v<Problem, AttentionProblem>) {
      result = bench::make_tunable(one, options);
    } else if (words.backward()) {
      result = bench::make_tunable_backward(one, options);
    } else {
      result = bench::make_tunable_forward(one, options);
    }
  });
  return result;
}

}  // namespace octet::tool
