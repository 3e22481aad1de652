// What is supported where. Every implementation is asked about probe problems on every kind of
// machine; the probes of an operator are in its own file (Operator::support).
#pragma once

#include "dispatch/implementation.hpp"

#include <octet/dtype.hpp>
#include <octet/ops/fp8_output.hpp>
#include <octet/quantized.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace octet::tool {

struct Support {
  std::string op;
  std::string blocks;  // "1x128 . 128x128"
  std::string dtypes;  // of the operands
  std::string outputs;
  // Per machine of probe_devices(): the name of an implementation, or why there is none.
  std::vector<std::string> answers;

  bool same_answers(const Support& other) const { return answers == other.answers; }
};

// Answers that name no implementation begin with "no: ".
inline bool is_refusal(const std::string& answer) { return answer.rfind("no: ", 0) == 0; }

inline constexpr Dtype kProbeFloats[] = {Dtype::bf16, Dtype::f16, Dtype::f32};
inline constexpr Dtype kProbeFp8[] = {Dtype::e4m3, Dtype::e5m2};
// Of layers: that of x and w, and that of the gradients.
struct ProbeFormats {
  const char* name;
  Dtype format, grad_format;
};
inline constexpr ProbeFormats kProbeFormats[] = {{"e4m3", Dtype::e4m3, Dtype::e4m3},
                                                 {"hybrid", Dtype::e4m3, Dtype::e5m2},
                                                 {"e5m2", Dtype::e5m2, Dtype::e5m2}};
inline constexpr std::int64_t kProbeExtent = 256;

struct ProbeDevice {
  std::string name;
  Device device;
  Machine machine;
};

// A fixed list, so that the table is the same on every machine.
const std::vector<ProbeDevice>& probe_devices();

// The first implementation that takes the problem, or the refusal of the last one for this kind of
// device. Names begin with cu (cuda_..., cublaslt, cudnn) or cpu_.
template <class Problem, class Args>
std::string answer(std::span<const Implementation<Problem, Args>> list, Problem problem,
                   const ProbeDevice& probe) {
  problem.device = probe.device;
  const std::string kind = probe.device.type == DeviceType::cuda ? "cu" : "cpu_";
  std::string reason =
      fmt::format("no: there is no {}implementation yet", kind == "cu" ? "CUDA " : "CPU ");
  for (const auto& entry : list) {
    if (entry.only_forced) continue;
    const std::string refusal = entry.refuse(problem, probe.machine);
    if (refusal.empty()) return entry.name;
    if (std::string_view(entry.name).substr(0, kind.size()) == kind) reason = "no: " + refusal;
  }
  return reason;
}

// The refusal of the operator itself, which is the same on every device; empty if it takes the
// problem.
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

// The answers for forward and backward together. A refusal of either pass wins; implementations
// that differ are both named.
inline std::vector<std::string> both(const std::vector<std::string>& forward,
                                     const std::vector<std::string>& backward) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < forward.size(); ++i) {
    if (forward[i] == backward[i] || is_refusal(forward[i])) {
      result.push_back(forward[i]);
    } else if (is_refusal(backward[i])) {
      result.push_back(backward[i]);
    } else {
      result.push_back(fmt::format("{} backward={}", forward[i], backward[i]));
    }
  }
  return result;
}

// An operator on rows whose output has the dtype of the input or is FP8.
template <class Problem, class ForwardArgs, class BackwardArgs>
std::vector<Support> probe_rows(const std::string& op,
                                std::span<const Implementation<Problem, ForwardArgs>> forward,
                                std::span<const Implementation<Problem, BackwardArgs>> backward) {
  std::vector<Support> result;
  for (const Dtype dtype : kProbeFloats) {
    const auto add = [&](const std::string& blocks, const std::string& output,
                         const std::optional<Fp8Output>& fp8) {
      Problem problem;
      problem.rows = problem.cols = kProbeExtent;
      problem.dtype = dtype;
      problem.fp8 = fp8;
      result.push_back({op, blocks, std::string(name(dtype)), output,
                        both(answers(forward, problem), answers(backward, problem))});
    };
    add("none", "the same", std::nullopt);
    for (const Dtype format : kProbeFp8) {
      const std::string output(name(format));
      add("1x128 both ways", output, Fp8Output{.format = format});
      add("1xall", output, Fp8Output{format, kEachRow, std::nullopt});
      add("1xall both ways", output, Fp8Output{format, kEachRow, kEachRow});
    }
  }
  return result;
}

// q and k for operators on heads.
template <class Problem>
void set_heads(Problem& problem, Dtype dtype) {
  problem.seq = kProbeExtent;
  problem.q_heads = 8;
  problem.k_heads = 2;
  problem.head_dim = 128;
  problem.dtype = dtype;
}

// The answer for an operator made of parts. Every part must be supported: "quantize=cpu_simd
// gemm=cpu_simd", or the first refusal.
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
