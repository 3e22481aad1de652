// The correctness gates: no timing without PASS. Each judges an output against an f64 reference
// that shares no code with what it judges.
//
//   G1  against the product of the unquantised inputs     > 25 dB; > 20 dB where an operand is e5m2;
//                                                         mx scales that are rounded down: > 23 dB
//   G2  against the product of the dequantised operands   16-bit out > 50 dB; f32 > 120, CUDA > 70
//   G3  every 1x128 and 128x1 strip of every output tile  16-bit out > 48 dB, f32 > 65 dB
//       and every element                                 |out - ref| <= half an ulp + c sum |a b|
//   G4  products of f32, f16 and bf16 operands            allclose 1e-2, > 45 dB; all f32 > 100 dB
//   G5  the same call twice                               equal bits
//   G6  outputs poisoned with NaN, guard bands around     every element written, none outside
//   M   products of mx operands, folded and not          > 90 dB in f64, whatever the kernel does
//   Q   quantised tensors, values and scales              the bits of an independent quantiser, for
//                                                         each matrix of a batch and each group alone
//   D   every group of a layer over groups                the bits of the dense layer on its rows; on CUDA,
//                                                         with more than four groups, G1 to G3 and Q judge
//                                                         the first, last, longest and shortest of them
//   F   a gated MLP fused and unfused                     equal bits; check_gated_mlp.cpp has its G1,
//                                                         check_linear_cross_entropy.cpp the head's
//   E1  outputs of elementwise and row-wise operators     16-bit out > 45 dB, f32 > 100 dB
//   E2  every element of them                             |out - ref| <= c (|ref| + rms(ref)) with
//                                                         c = 1e-2, f32 1e-4; finite where ref is
//   A1  attention: out and dv, dq and dk as a whole       bf16 > 50, > 48 dB; f16 > 62, > 60;
//                                                         f32 > 100, > 98
//   A2  strips of 64 rows of a head of them               2 dB less
//   A3  rows of out and dv                                bf16 > 44 dB, f16 > 56, f32 > 94
//   A4  its lse                                           |lse - ref| <= 2e-5 max(1, |ref|)
//   A5  attention on data of known results                exact_attention.cpp
//
// Why these are sound:
// - A wrong cast cannot excuse the wrong product that follows from it: the dequantised operands of
//   G2 and G3 come from quantize_oracle on the CPU. On CUDA they come from the device quantiser;
//   each has a Q of its own, and what the layer saves must equal them in every bit.
// - SNRs need 1,024 zero-mean outputs, and G1 also as many elements in each operand. G1 and G2 also
//   need them to share the energy: an effective number (findings.hpp) of 128 outputs, and for G1 of
//   128 elements of each operand, by the energy that they bring into the product. 1,024 normal
//   numbers count for 341; of outliers in a small tensor, or where one row is far larger than the
//   others, few count, and a few roundings decide the SNR. The operands and the reference say which
//   rule applies, never the output. G3 and G4 need no such number: their bounds hold for one element.
// - Where SNRs do not apply, G1, G2 and G4 check the bound per element instead. For G1 it follows
//   from the formats: a cast changes a normal value by at most 2^-4 of it (e4m3; 2^-3 e5m2) and a
//   subnormal by half its step, so the product of two is off by at most ((1 + ea)(1 + eb) - 1)
//   sum |a b| plus the share of the subnormals. Of mx blocks the largest values may be off by 2^-3 in
//   e4m3, too: they saturate where the scale, a power of two, is too small for them. This is a worst
//   case, and weak for long sums; G2 and G3 judge the kernel there.
// - G2 of mx operands takes them as they are folded. M says what folding them costs, on the first 512
//   rows of each: the product of folded operands beside that of the mx ones. With fewer outputs than
//   SNRs need, its bound per element is the subnormals' share of G1's.
// - fast_accumulation does not loosen G2: from K near 13,000 it fails on CUDA, and the value says why.
// - The bound per element has c = 2^-20 on the CPU, 2^-9 on CUDA. It catches what SNRs average
//   away, such as one element off by 2^-6, so G3 applies it to every element. Half an ulp is taken
//   at |ref| + c sum |a b|, where a correct result may lie. If all operands are zero, the output
//   must be exactly zero.
// - Rounding to a 16-bit output by itself leaves each element at least 48.16 dB (bf16), so 48 dB
//   per strip holds for any data. It does not hold for the rounding of sums where a strip cancels;
//   findings.hpp says which strips are judged.
// - Rounding to a subnormal is off by up to half a step, which may be all of the result: f16 products
//   of a contraction of one have some. SNRs and allclose do not count that half step where ref is
//   subnormal. The bound per element, which has it anyway, still fails what is one step off.
// - When the output is accumulated, its old value is part of the reference and of the sum. Where
//   the reference is not finite the output must not be finite either, and nothing else is checked.
// - The two calls of G5 write a dense and a pitched output, so both are poisoned and guarded.
// - E1 applies to 1,024 outputs or more, over those that are finite. Where an output is only a
//   rounding of its inputs (the sum with a residual), E2 requires equality.
// - A1 to A3 ask for the SNR where rounding by itself leaves 2 dB more, of 1,024 outputs (a row: 32).
//   dq and dk are differences, and cancel where a row sees few keys: there, and for fewer outputs, the
//   error may be twice what rounding each term by half an ulp explains (attention_reference.hpp).
// - Emulated at 4096 keys, a dropped tile of one head in 256 leaves 44 dB as a whole and 5 dB in its
//   strip, a dropped key 15 to 21 dB there. One dropped pair shows in no SNR; A5 sees it at the edges
//   of masks, and wherever else it is one of the pairs that a query is given there.
// - allclose of G4 is |out - ref| <= 1e-2 (|ref| + sum |a b| / sqrt(K)).
//
// On CUDA, data and reference are made on the device, and G5 and G6 are counted there, over the
// whole of every output. G1 to G4 and Q are judged on the host, from a copy of the whole output up
// to 2^22 elements and of the whole quantised tensor up to 256 tiles of 128x128. Beyond that, the
// copy has one row and one column of every tile of the output, and 256 randomly drawn tiles of the
// quantised tensor plus those at its corners. E1 and E2 use whole rows instead, one from each of as
// many runs of rows as 2^22 elements (10^8 on the CPU) allow. A1 to A4 take all strips where that
// costs 2^33 multiply-adds, else a sample of them with the first and the last; there dk and dv are
// judged by what forward wrote.
#pragma once

#include "check/data/attention_data.hpp"
#include "check/data/group_sizes.hpp"
#include "check/data/random.hpp"

#include <octet/octet.hpp>

#include <string>
#include <vector>

namespace octet {

struct GateResult {
  std::string gate;    // "G2"
  std::string tensor;  // "dw"
  bool pass = false;
  std::string value;  // "55.6 dB"
  std::string bound;  // "> 50 dB"
  double snr_db = 0;  // of G1, G2, G4, E1 and A1; NaN for the others
};

struct GateReport {
  std::vector<GateResult> results;

  bool pass() const;
  // The SNR of one gate for one tensor; NaN if it was not measured.
  double snr_db(const std::string& gate, const std::string& tensor) const;
};

// The data an operator is checked and timed with, and the forced implementations.
struct DataOptions {
  Distribution distribution = Distribution::normal;
  std::uint64_t seed = 1;
  int threads = 0;               // as PlanOptions
  std::string backend;           // of the operator, or of the products of a layer or MLP; or empty
  std::string quantize_backend;  // of a layer's casts; or empty
  // Elements after every row of the second call's outputs: not a multiple of a vector. 0 for a
  // backend that only writes dense rows. Only the gates use it.
  std::int64_t row_gap = 5;
  GroupSpread group_spread{};  // of operators over groups
  // Of attention: lengths where the problem has offsets, and where heads lie where it has none.
  SequenceSpread sequence_spread{};
  HeadLayout head_layout = HeadLayout::bshd;
  bool transposed_source = false;  // of repack: columns are contiguous instead of rows
};

// Each makes its own data, runs the operator and judges every output.
GateReport check_fp8_linear(const Fp8LinearProblem& problem, const DataOptions& options);
GateReport check_gemm(const GemmProblem& problem, const DataOptions& options);
// Over groups: each group is judged, and the worst of each gate is reported.
GateReport check_grouped_gemm(const GroupedGemmProblem& problem, const DataOptions& options);
GateReport check_fp8_grouped_linear(const Fp8GroupedLinearProblem& problem,
                                    const DataOptions& options);
GateReport check_quantize(const QuantizeProblem& problem, const DataOptions& options);
GateReport check_dequantize(const DequantizeProblem& problem, const DataOptions& options);
GateReport check_repack(const RepackProblem& problem, const DataOptions& options);
GateReport check_attention(const AttentionProblem& problem, const DataOptions& options);
GateReport check_adamw(const AdamWProblem& problem, const DataOptions& options);
GateReport check_gated_mlp(const GatedMlpProblem& problem, const DataOptions& options);
GateReport check_moe_route(const MoeRouteProblem& problem, const DataOptions& options);
GateReport check_moe_maps(const MoeMapsProblem& problem, const DataOptions& options);
GateReport check_moe_mlp(const MoeMlpProblem& problem, const DataOptions& options);
GateReport check_moe_permute(const MoePermuteProblem& problem, const DataOptions& options);
GateReport check_moe_unpermute(const MoeUnpermuteProblem& problem, const DataOptions& options);
GateReport check_rms_norm(const RmsNormProblem& problem, const DataOptions& options);
GateReport check_rope(const RopeProblem& problem, const DataOptions& options);
GateReport check_rms_norm_rope(const RmsNormRopeProblem& problem, const DataOptions& options);
GateReport check_gated_activation(const GatedActivationProblem& problem,
                                  const DataOptions& options);
GateReport check_linear_cross_entropy(const LinearCrossEntropyProblem& problem,
                                      const DataOptions& options);

}  // namespace octet
