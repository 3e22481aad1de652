// What is supported where, found by asking every implementation about probe problems on every kind of
// machine.
#pragma once

#include "dispatch/implementation.hpp"

#include <octet/dtype.hpp>
#include <octet/quantized.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace octet::tool {

struct Support {
  std::string op;
  std::string blocks;  // "1x128 . 128x128"
  std::string dtypes;  // of the operands
  std::string outputs;
  // Per machine of probe_devices(): an implementation, or why none.
  std::vector<std::string> answers;

  bool same_answers(const Support& other) const { return answers == other.answers; }
};

// Answers that name no implementation begin so.
inline bool is_refusal(const std::string& answer) { return answer.rfind("no: ", 0) == 0; }

// support_casts.cpp
std::vector<Support> probe_quantize();
std::vector<Support> probe_copies();  // dequantize and repack
// support_products.cpp
std::vector<Support> probe_gemm();
std::vector<Support> probe_fp8_linear();
std::vector<Support> probe_gated_mlp();
// support_memory.cpp
std::vector<Support> probe_rms_norm();
std::vector<Support> probe_rope();
std::vector<Support> probe_rms_norm_rope();
std::vector<Support> probe_gated_activation();

inline constexpr Dtype kProbeFloats[] = {Dtype::bf16, Dtype::f16, Dtype::f32};
inline constexpr Dtype kProbeFp8[] = {Dtype::e4m3, Dtype::e5m2};
inline constexpr std::int64_t kProbeExtent = 256;

struct ProbeDevice {
  std::string name;
  Device device;
  Machine machine;
};

// Fixed, so that the table is the same wherever it is made.
const std::vector<ProbeDevice>& probe_devices();

// The first that takes the problem, or the reason of the last that is of the device's kind: names
// begin with cu (cuda_..., cublaslt) or with cpu_.
template <class Problem, class Args>
std::string answer(std::span<const Implementation<Problem, Args>> list, Problem problem,
                   const ProbeDevice& probe) {
  problem.device = probe.device;
  const std::string kind = probe.device.type == DeviceType::cuda ? "cu" : "cpu_";
  std::string reason =
      fmt::format("no: there is no {}implementation yet", kind == "cu" ? "CUDA " : "CPU ");
  for (const auto& entry : list) {
    const std::string refusal = entry.refuse(problem, probe.machine);
    if (refusal.empty()) return entry.name;
    if (std::string_view(entry.name).substr(0, kind.size()) == kind) reason = "no: " + refusal;
  }
  return reason;
}

// The refusal of the operator itself, the same on every device; empty where there is none.
template <class Problem>
std::string operator_refusal(const Problem& problem) {
  try {
    check(problem);
    return {};
  } catch (const Error& error) {
    const std::string_view message = error.what();
    return fmt::format("no: {}", message.substr(message.find(": ") + 2));
  }
}

template <class Problem, class Args>
std::vector<std::string> answers(std::span<const Implementation<Problem, Args>> list,
                                 const Problem& problem) {
  std::vector<std::string> result;
  const std::string refusal = operator_refusal(problem);
  for (const ProbeDevice& probe : probe_devices()) {
    result.push_back(refusal.empty() ? answer(list, problem, probe) : refusal);
  }
  return result;
}

// What is made of several operators is taken where every part is: "quantize=cpu_simd gemm=cpu_simd",
// or the first refusal.
class AnswerOfParts {
 public:
  void add(const std::string& op, const std::string& part) {
    const std::string text = is_refusal(part) ? part : fmt::format("{}={}", op, part);
    if (std::find(parts_.begin(), parts_.end(), text) == parts_.end()) parts_.push_back(text);
  }
  std::string text() const {
    const auto refused = std::find_if(parts_.begin(), parts_.end(), is_refusal);
    return refused != parts_.end() ? *refused : fmt::format("{}", fmt::join(parts_, " "));
  }

 private:
  std::vector<std::string> parts_;
};

}  // namespace octet::tool
