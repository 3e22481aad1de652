// The gates on a given output, whoever wrote it. gates.hpp says what each one requires.
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

// SNRs need at least this many outputs; G1 also needs as many elements of each operand.
inline constexpr std::int64_t kSnrOutputs = 1024;
// G1 and G2 also need an effective number (findings.hpp) of them: where fewer have the energy, a few
// roundings decide the SNR of a correct kernel. 1,024 normal numbers count for 341; the least seen in
// 20,000 products of 32x32x32 is 215. Of 128, the roundings to bf16 leave less than 50 dB once in
// 10^11, and mx casts that saturate, emulated, less than the 23 dB of G1 twice in 100,000; of 64, 220
// times.
inline constexpr double kSnrEffective = 128;

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
  bool mx = false;         // mx blocks, folded or not
  bool saturates = false;  // whose largest values may be beyond the limit: MxScale::floor, even
};

// `claim` has the operands before quantisation.
GateResult judge_g1(const std::string& tensor, const ProductClaim& claim,
                    const QuantizedFormats& formats, const JudgeOptions& options);
// G2 and G3. `claim` has the quantised operands.
std::vector<GateResult> judge_kernel(const std::string& tensor, const ProductClaim& claim,
                                     const JudgeOptions& options);
// Says in the G2 and G3 that failed on CUDA what fast_accumulation has to do with it.
void explain_fast_accumulation(const JudgeOptions& options, GateReport& report);
// M: what folding mx operands to blocks of 128 costs, in f64 and whatever the kernel does. `claim` has
// the operands before quantisation, `a` and `b` say how they are folded. Judges at most the first
// kFoldedRows rows of each.
inline constexpr std::int64_t kFoldedRows = 512;
GateResult judge_folding(const std::string& tensor, const ProductClaim& claim, const OracleRules& a,
                         const OracleRules& b, const JudgeOptions& options);
// G4 and G3, for operands that are not quantised.
std::vector<GateResult> judge_float_product(const std::string& tensor, const ProductClaim& claim,
                                            const JudgeOptions& options);
// A gate that asks for equal bits, from the number of elements that differ.
GateResult judge_differences(const std::string& gate, const std::string& tensor,
                             std::int64_t differences);
GateResult judge_g5(const std::string& tensor, const TensorView& first, const TensorView& second);
GateResult judge_g5(const std::string& tensor, const QuantizedView& first,
                    const QuantizedView& second);
GateResult judge_g6(const std::string& tensor, const GuardFindings& first,
                    const GuardFindings& second);
// Q: a quantised tensor against the one of quantize_oracle.
GateResult judge_quantized(const std::string& tensor, const QuantizedView& given,
                           const QuantizedView& wanted);

// Up to this many tiles of a tensor on CUDA are all judged; beyond that, this many drawn ones and
// the four at the corners.
inline constexpr std::int64_t kJudgedTiles = 256;

// Q of a quantised tensor whose input is known, against quantize_oracle: the whole tensor on the
// CPU; on CUDA 128x128 tiles, which the oracle can quantise one by one because no block crosses
// their edges, or the scale is that of the largest element, which the device finds; whole rows (or
// columns) where each has a scale. `given`: [R, C]; `input`: the same shape, one dimension
// contiguous.
GateResult judge_quantizer(const std::string& tensor, const QuantizedView& given,
                           const TensorView& input, const OracleRules& rules,
                           const JudgeOptions& options);

// The largest finite magnitude of a matrix on any device.
double largest_finite(const TensorView& matrix);

// The tiles of a row_tiles x col_tiles tensor that are judged, numbered row by row, ascending.
std::vector<std::int64_t> judged_tiles(std::int64_t row_tiles, std::int64_t col_tiles,
                                       std::uint64_t seed);

// Writes row `row` of the reference; called by several threads at once.
using ReferenceRow = std::function<void(std::int64_t row, std::span<double> values)>;

// The rows that a member function of a reference computes.
template <class Reference>
ReferenceRow rows_of(const Reference& reference,
                     void (Reference::*row)(std::int64_t, std::span<double>) const) {
  return
      [&reference, row](std::int64_t r, std::span<double> values) { (reference.*row)(r, values); };
}
// A vector that is known as a whole, as the only row.
ReferenceRow row_of(const std::vector<double>& values);

struct ElementsClaim {
  TensorView out;  // [rows, cols] of f32, f16 or bf16, columns contiguous, on any device
  ReferenceRow reference;
  // The reference is rounded like the output (see rounded()), and every element must equal it.
  bool exact = false;
};

// E1, if there are kSnrOutputs outputs to compare, and E2.
std::vector<GateResult> judge_elements(const std::string& tensor, const ElementsClaim& claim,
                                       const JudgeOptions& options);

// The rows of an output that are judged, ascending. Up to options.sample_beyond elements all rows
// are judged; beyond that, as many rows as fit: one drawn from each of as many equal runs of rows,
// but the first row from the first run and the last row from the last.
std::vector<std::int64_t> judged_rows(std::int64_t rows, std::int64_t cols,
                                      const JudgeOptions& options);

}  // namespace octet
