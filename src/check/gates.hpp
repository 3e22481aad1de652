// The correctness gates: no timing without PASS. Each judges an output against a reference in f64
// that shares no code with what it judges.
//
//   G1  against the product of the unquantised inputs          > 25 dB e4m3, > 20 dB e5m2
//   G2  against the product of the dequantised operands        16-bit out > 50 dB; f32 > 120 (CPU),
//   > 70 (CUDA) G3  G2 for every 1x128 and 128x1 strip of every output tile    16-bit out > 48 dB,
//   f32 > 65 dB G4  products of 16-bit operands                            allclose 1e-2 and > 45
//   dB G5  the same call twice                                    equal bits G6  outputs poisoned
//   with NaN, guard bands around them     every element written, none outside
//
// SNR gates hold for at least 1,024 zero-mean outputs. For fewer, and for one-signed data, the
// bound is per element: |out - ref| <= half an ulp of the output + c * sum |a * b|.
#pragma once

#include "check/random.hpp"

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
  double snr_db = 0;  // of G1, G2 and G4; NaN elsewhere
};

struct GateReport {
  std::vector<GateResult> results;

  bool pass() const;
  // The SNR of one gate for one tensor; NaN where it was not asked.
  double snr_db(const std::string& gate, const std::string& tensor) const;
};

struct GateOptions {
  Distribution distribution = Distribution::normal;
  std::uint64_t seed = 1;
  int threads = 0;               // as PlanOptions
  std::string gemm_backend;      // forced, or empty
  std::string quantize_backend;  // forced, or empty
};

// Each makes its own data, runs the operator and judges all it wrote.
GateReport check_fp8_linear(const Fp8LinearProblem& problem, const GateOptions& options);
GateReport check_gemm(const GemmProblem& problem, const GateOptions& options);
GateReport check_quantize(const QuantizeProblem& problem, const GateOptions& options);

}  // namespace octet
