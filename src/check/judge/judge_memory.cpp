// G5, G6 and Q: bits and memory.
#include "check/judge/compare_outputs.hpp"
#include "check/judge/judge.hpp"
#include "check/data/quantized_copies.hpp"
#include "core/message.hpp"

#include <limits>

namespace octet {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

GateResult difference_result(const char* gate, const std::string& tensor,
                             std::int64_t differences) {
  return {gate, tensor, differences == 0, text(differences, " differ"), "equal bits", kNaN};
}

}  // namespace

GateResult judge_g5(const std::string& tensor, const TensorView& first, const TensorView& second) {
  return difference_result("G5", tensor, compare_whole_outputs(first, second).different);
}

GateResult judge_g5(const std::string& tensor, const QuantizedView& first,
                    const QuantizedView& second) {
  return difference_result("G5", tensor, count_differences(first, second));
}

GateResult judge_quantized(const std::string& tensor, const QuantizedView& given,
                           const QuantizedView& wanted) {
  return difference_result("Q", tensor, count_differences(given, wanted));
}

GateResult judge_g6(const std::string& tensor, const GuardFindings& first,
                    const GuardFindings& second) {
  const std::int64_t unwritten = first.unwritten + second.unwritten;
  const std::int64_t outside = first.outside + second.outside;
  const std::int64_t bad_padding = first.bad_padding + second.bad_padding;
  std::string value = text(unwritten, " unwritten, ", outside, " bytes outside");
  if (bad_padding != 0) value += text(", ", bad_padding, " of the padding not cleared");
  return {"G6", tensor, unwritten == 0 && outside == 0 && bad_padding == 0, value, "0, 0", kNaN};
}

}  // namespace octet
