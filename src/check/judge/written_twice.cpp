#include "check/judge/written_twice.hpp"

#include "check/judge/trial.hpp"
#include "core/views.hpp"

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

Fp8WrittenTwice::Fp8WrittenTwice(const Fp8Output& fp8, std::int64_t rows, std::int64_t cols,
                                 Device device) {
  if (fp8.block) out_.emplace(fp8, *fp8.block, rows, cols, device);
  if (fp8.transposed_block) transposed_.emplace(fp8, *fp8.transposed_block, cols, rows, device);
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

Fp8WrittenTwice::Copy::Copy(const Fp8Output& fp8, BlockShape block, std::int64_t rows,
                            std::int64_t cols, Device device)
    : rules{fp8.format, block, fp8.amax_floor, fp8.pow2_scales},
      first(QuantizedLayout(rows, cols, fp8.format, block), true, device),
      second(QuantizedLayout(rows, cols, fp8.format, block), false, device) {}

void Fp8WrittenTwice::Copy::judge(const std::string& tensor, const TensorView& output,
                                  const JudgeOptions& options, GateReport& report) const {
  report.results.push_back(judge_quantizer(tensor, first.view(), output, rules, options));
  judge_memory(tensor, first, second, report);
}

}  // namespace octet
