#include "check/judge/written_twice.hpp"

#include "check/judge/trial.hpp"
#include "core/views.hpp"

#include <limits>

namespace octet {

WrittenTwice::WrittenTwice(Dtype dtype, std::int64_t rows, std::int64_t cols, std::int64_t gap,
                           Device device)
    : first_(dtype, rows, cols, 0, device), second_(dtype, rows, cols, gap, device) {}

WrittenTwice::WrittenTwice(Dtype dtype, std::int64_t length, Device device)
    : is_vector_(true), first_(dtype, 1, length, 0, device), second_(dtype, 1, length, 0, device) {}

TensorView WrittenTwice::view(int call) const {
  const TensorView& matrix = (call == 0 ? first_ : second_).view();
  return is_vector_ ? as_vector(matrix) : matrix;
}

void WrittenTwice::fill_from(const TensorView& values) {
  const TensorView matrix = is_vector_ ? as_row(values) : values;
  first_.fill_from(matrix);
  second_.fill_from(matrix);
}

void WrittenTwice::judge(const std::string& tensor, const ReferenceRow& reference,
                         const JudgeOptions& options, GateReport& report) const {
  judge(tensor, {first_.view(), reference, false}, options, report);
}

void WrittenTwice::judge_exact(const std::string& tensor, const ReferenceRow& reference,
                               const JudgeOptions& options, GateReport& report) const {
  judge(tensor, {first_.view(), reference, true}, options, report);
}

void WrittenTwice::judge(const std::string& tensor, const ElementsClaim& claim,
                         const JudgeOptions& options, GateReport& report) const {
  add(report, judge_elements(tensor, claim, options));
  judge_memory(tensor, first_, second_, report);
}

IntegersTwice::IntegersTwice(std::int64_t rows, std::int64_t cols, std::int64_t gap, Device device)
    : first_(Dtype::i32, rows, cols, 0, device), second_(Dtype::i32, rows, cols, gap, device) {
  const Tensor pattern(Dtype::i32, {rows, cols}, device);
  fill(elements_of(pattern), 0x5A);
  first_.fill_from(pattern);
  second_.fill_from(pattern);
}

IntegersTwice::IntegersTwice(std::int64_t length, Device device)
    : IntegersTwice(1, length, 0, device) {
  is_vector_ = true;
}

TensorView IntegersTwice::view(int call) const {
  const TensorView& matrix = (call == 0 ? first_ : second_).view();
  return is_vector_ ? as_vector(matrix) : matrix;
}

std::vector<std::int32_t> IntegersTwice::values() const {
  const TensorView& view = first_.view();
  std::vector<std::int32_t> values(static_cast<std::size_t>(view.rows() * view.cols()));
  copy(view, make_view(values.data(), Dtype::i32, {view.rows(), view.cols()}));
  return values;
}

void IntegersTwice::judge(const std::string& tensor, std::span<const std::int32_t> wanted,
                          GateReport& report) const {
  const std::vector<std::int32_t> given = values();
  std::size_t first = 0;
  while (first < given.size() && given[first] == wanted[first]) ++first;
  const bool equal = first == given.size();
  const auto cols = static_cast<std::size_t>(first_.view().cols());
  report.results.push_back({"E2", tensor, equal,
                            equal ? "all equal"
                                  : text("row ", first / cols, ", column ", first % cols, ": ",
                                         given[first], " instead of ", wanted[first]),
                            "equal", std::numeric_limits<double>::quiet_NaN()});
  judge_memory(tensor, first_, second_, report);
}

Fp8WrittenTwice::Fp8WrittenTwice(const Fp8Output& fp8, std::int64_t rows, std::int64_t cols,
                                 Device device, const OracleRules& rules) {
  const auto rules_of = [&](BlockShape block) {
    OracleRules own = rules;
    own.format = fp8.format;
    own.block = block;
    own.amax_floor = fp8.amax_floor;
    own.pow2_scales = fp8.pow2_scales;
    return own;
  };
  if (fp8.block) out_.emplace(rules_of(*fp8.block), rows, cols, device);
  if (fp8.transposed_block) {
    transposed_.emplace(rules_of(*fp8.transposed_block), cols, rows, device);
  }
}

Fp8Copies Fp8WrittenTwice::copies(int call) const {
  const auto view = [&](const std::optional<Copy>& copy) {
    return copy ? (call == 0 ? copy->first : copy->second).view() : QuantizedView();
  };
  return {view(out_), view(transposed_)};
}

void Fp8WrittenTwice::judge(const std::string& prefix, const TensorView& output,
                            const JudgeOptions& options, GateReport& report) const {
  if (out_) out_->judge(prefix + "out", output, options, report);
  if (transposed_) {
    transposed_->judge(prefix + "transposed", transposed(output), options, report);
  }
}

Fp8WrittenTwice::Copy::Copy(const OracleRules& rules_, std::int64_t rows, std::int64_t cols,
                            Device device)
    : rules(rules_),
      first(QuantizedLayout(rows, cols, rules.format, rules.block), true, device),
      second(QuantizedLayout(rows, cols, rules.format, rules.block), false, device) {
  if (rules.given_scale == 0) return;
  first.give_scales();
  second.give_scales();
}

void Fp8WrittenTwice::Copy::judge(const std::string& tensor, const TensorView& output,
                                  const JudgeOptions& options, GateReport& report) const {
  report.results.push_back(judge_quantizer(tensor, first.view(), output, rules, options));
  judge_memory(tensor, first, second, report);
}

}  // namespace octet
