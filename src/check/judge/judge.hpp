// The gates over an output that is given, whoever made it. gates.hpp says what each one asks.
#pragma once

#include "check/judge/findings.hpp"
#include "check/gates.hpp"
#include "check/data/guarded.hpp"

#include <string>
#include <vector>

namespace octet {

// SNRs need at least this many outputs; that of G1 as many elements of each operand, too.
inline constexpr std::int64_t kSnrOutputs = 1024;

struct JudgeOptions {
  bool zero_mean = true;  // false: one-signed data, judged by the bounds per element
  DeviceType device = DeviceType::cpu;
  std::int64_t sample_beyond = kSampleBeyond;
  std::uint64_t seed = 1;  // of the sample
  int threads = 0;
};

// How the operands of a product were quantised.
struct QuantizedFormats {
  Dtype a = Dtype::e4m3;
  Dtype b = Dtype::e4m3;
  float amax_floor = 0;
  bool pow2_scales = false;
};

// `claim` has the operands before they were quantised.
GateResult judge_g1(const std::string& tensor, const ProductClaim& claim,
                    const QuantizedFormats& formats, const JudgeOptions& options);
// G2 and G3. `claim` has the quantised operands.
std::vector<GateResult> judge_kernel(const std::string& tensor, const ProductClaim& claim,
                                     const JudgeOptions& options);
// G4 and G3, of operands that are not quantised.
std::vector<GateResult> judge_float_product(const std::string& tensor, const ProductClaim& claim,
                                            const JudgeOptions& options);
GateResult judge_g5(const std::string& tensor, const TensorView& first, const TensorView& second);
GateResult judge_g5(const std::string& tensor, const QuantizedView& first,
                    const QuantizedView& second);
GateResult judge_g6(const std::string& tensor, const GuardFindings& first,
                    const GuardFindings& second);
// Q: a quantised tensor against that of quantize_oracle.
GateResult judge_quantized(const std::string& tensor, const QuantizedView& given,
                           const QuantizedView& wanted);

}  // namespace octet
