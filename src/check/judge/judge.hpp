// The gates over an output that is given, whoever made it. gates.hpp says what each one asks.
#pragma once

#include "check/data/guarded.hpp"
#include "check/gates.hpp"
#include "check/judge/findings.hpp"
#include "check/reference/quantize_oracle.hpp"

#include <functional>
#include <span>
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

// All tiles of a tensor on CUDA are judged up to this many; beyond, as many drawn ones, and the
// four at the corners.
inline constexpr std::int64_t kJudgedTiles = 256;

// Q of a quantised tensor whose input is known: against quantize_oracle, whole on the CPU; on CUDA in
// 128x128 tiles, which the oracle quantises one by one as no block crosses their edges. `given`:
// [R, C]; `input`: the same shape, one dimension contiguous.
GateResult judge_quantizer(const std::string& tensor, const QuantizedView& given,
                           const TensorView& input, const OracleRules& rules,
                           const JudgeOptions& options);

// The tiles of a row_tiles x col_tiles tensor that are judged, numbered row by row, ascending.
std::vector<std::int64_t> judged_tiles(std::int64_t row_tiles, std::int64_t col_tiles,
                                       std::uint64_t seed);

// Writes row `row` of the reference; called by several threads at once.
using ReferenceRow = std::function<void(std::int64_t row, std::span<double> values)>;

// The rows that a member function of a reference writes.
template <class Reference>
ReferenceRow rows_of(const Reference& reference,
                     void (Reference::*row)(std::int64_t, std::span<double>) const) {
  return
      [&reference, row](std::int64_t r, std::span<double> values) { (reference.*row)(r, values); };
}
// A vector that is known whole, as the only row.
ReferenceRow row_of(const std::vector<double>& values);

struct ElementsClaim {
  TensorView out;  // [rows, cols] of f32, f16 or bf16, columns contiguous, on any device
  ReferenceRow reference;
  // The reference is rounded as the output is (see rounded()), and every element is equal to it.
  bool exact = false;
};

// E1 where there are kSnrOutputs outputs to compare, and E2.
std::vector<GateResult> judge_elements(const std::string& tensor, const ElementsClaim& claim,
                                       const JudgeOptions& options);

// The rows of an output that are judged, ascending: all of them, or beyond options.sample_beyond
// elements as many rows as have those, drawn one from each of as many equal runs, with the first and the
// last row.
std::vector<std::int64_t> judged_rows(std::int64_t rows, std::int64_t cols,
                                      const JudgeOptions& options);

}  // namespace octet
