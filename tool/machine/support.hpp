// What is supported where, found by asking every implementation about probe problems.
#pragma once

#include <string>
#include <vector>

namespace octet::tool {

struct Support {
  std::string op;
  std::string blocks;  // "1x128 . 128x128"
  std::string dtypes;  // of the operands
  std::string outputs;
  std::vector<std::string>
      answers;  // per device of support_devices(): an implementation, or why none

  bool same_answers(const Support& other) const { return answers == other.answers; }
};

// Answers that name no implementation begin so.
inline bool is_refusal(const std::string& answer) { return answer.rfind("no: ", 0) == 0; }

// The machines the probes are asked for, whatever this one is: "cpu AVX-512", ...
std::vector<std::string> support_devices();

// support_<operator>.cpp has each.
std::vector<Support> probe_quantize();
std::vector<Support> probe_copies();  // dequantize and repack
std::vector<Support> probe_gemm();
std::vector<Support> probe_fp8_linear();
std::vector<Support> probe_rms_norm();  // this and the following: support_memory.cpp
std::vector<Support> probe_rope();
std::vector<Support> probe_rms_norm_rope();
std::vector<Support> probe_gated_activation();
std::vector<Support> probe_gated_mlp();

// Joins probes that differ in their dtypes alone, then those that differ in their outputs alone.
std::vector<Support> merge_support(const std::vector<Support>& probes);

// Every operator, merged, without what no device takes.
std::vector<Support> probe_everything();

}  // namespace octet::tool
