// G1 to G4: products against their reference.
#include "check/cuda_gates.hpp"
#include "check/judge/judge.hpp"
#include "check/reference/decode.hpp"
#include "check/reference/on_host.hpp"
#include "check/reference/reference.hpp"
#include "core/message.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace octet {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string with_decimals(double value, int decimals) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", decimals, value);
  return buffer;
}

std::string decibel_text(double db) { return with_decimals(db, 1) + " dB"; }

SearchOptions search_options(const JudgeOptions& options, ElementBound bound) {
  SearchOptions search;
  search.bound = bound;
  search.sample_beyond = options.sample_beyond;
  search.seed = options.seed;
  search.threads = options.threads;
  return search;
}

// The rounding of sums, in units of sum |a * b|: the c of docs/numerics.md.
double summation_error(DeviceType device) {
  return device == DeviceType::cuda ? std::ldexp(1, -9) : std::ldexp(1, -20);
}

std::string sample_text(const Findings& findings) {
  return findings.sampled ? " in sampled strips" : "";
}

GateResult snr_result(const char* gate, const std::string& tensor, const Findings& findings,
                      double bound_db) {
  const double db = findings.snr_db();
  return {gate,
          tensor,
          db > bound_db,
          decibel_text(db) + sample_text(findings),
          text("> ", bound_db, " dB"),
          db};
}

GateResult element_result(const char* gate, const std::string& tensor, const Findings& findings) {
  const bool pass = findings.element_share <= 1;
  std::string value = "worst element " + with_decimals(findings.element_share, 3);
  if (!pass) value += " at " + findings.element;
  return {gate, tensor, pass, value + sample_text(findings), "<= 1 of its bound", kNaN};
}

GateResult strip_result(const std::string& tensor, const Findings& findings, double bound_db) {
  const bool strips_pass = findings.strip_db > bound_db;
  const GateResult elements = element_result("G3", tensor, findings);
  std::string value = "no strip long enough, ";
  if (!findings.strip.empty()) {
    value = "worst strip " + decibel_text(findings.strip_db);
    if (!strips_pass) value += " at " + findings.strip;
    value += ", ";
  }
  return {"G3",
          tensor,
          strips_pass && elements.pass,
          value + elements.value,
          text("> ", bound_db, " dB, ", elements.bound),
          kNaN};
}

double strip_bound_db(Dtype out) { return out == Dtype::f32 ? 65 : 48; }

// One-signed sums are biased in the 14 bits of a Hopper slice: strips of a correct kernel have 61
// to 65 dB there, so only the bound per element judges them.
bool has_strips(const JudgeOptions& options) {
  return options.zero_mean || options.device == DeviceType::cpu;
}

double kernel_bound_db(Dtype out, DeviceType device) {
  if (out != Dtype::f32) return 50;
  return device == DeviceType::cuda ? 70 : 120;
}

// The error bound of a cast to FP8: a share of the value where it is normal, and half the step of
// the subnormals, which grows with the scale.
struct CastError {
  double relative;
  double absolute;
};

CastError cast_error(Dtype format, double largest, const QuantizedFormats& formats) {
  const bool e4m3 = format == Dtype::e4m3;
  const double scale = std::max(largest, double{formats.amax_floor}) / (e4m3 ? 448 : 57344);
  if (formats.mx) {
    // The scale is at most twice as large. Values above the limit, up to 8/7 of it, saturate: an
    // eighth of them at most. Folding rounds subnormals once more.
    return {std::ldexp(1, -3) + std::ldexp(1, -20), scale * std::ldexp(1, e4m3 ? -8 : -15)};
  }
  return {std::ldexp(1, e4m3 ? -4 : -3) + std::ldexp(1, -20),
          scale * (formats.pow2_scales ? 2 : 1) * std::ldexp(1, e4m3 ? -10 : -17)};
}

// Bound of |a'b' - ab| summed over k, for a' = a (1 + ea) + da and b' = b (1 + eb) + db.
ElementBound quantisation_bound(const ProductClaim& claim, const QuantizedFormats& formats,
                                DeviceType device) {
  const double largest_a = largest_finite(claim.a.values);
  const double largest_b = largest_finite(claim.b.values);
  const CastError a = cast_error(formats.a, largest_a, formats);
  const CastError b = cast_error(formats.b, largest_b, formats);
  const auto k = static_cast<double>(claim.a.values.cols());
  return {(1 + a.relative) * (1 + b.relative) - 1 + 2 * summation_error(device),
          k * (a.absolute * 2 * largest_b + b.absolute * 2 * largest_a + a.absolute * b.absolute)};
}

// Sums over the rows of a matrix, for each of its columns. Of large matrices some rows are enough.
struct ColumnSums {
  std::vector<double> squares;
  std::vector<double> fourth_powers;

  ColumnSums(const TensorView& matrix, JudgeOptions options)
      : squares(static_cast<std::size_t>(matrix.cols())), fourth_powers(squares.size()) {
    options.sample_beyond = std::int64_t{1} << 20;
    const std::vector<std::int64_t> rows = judged_rows(matrix.rows(), matrix.cols(), options);
    const DecodedRows source(matrix, rows);
    std::vector<double> values(squares.size());
    for (const std::int64_t row : rows) {
      source.read(row, values);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double square = values[i] * values[i];
        squares[i] += square;
        fourth_powers[i] += square * square;
      }
    }
  }
};

// How many elements of an operand have the energy of the product, of the operand with fewer: element
// a[m, k] brings a[m, k]^2 times the sum of b[n, k]^2 over n.
double effective_operand(const ProductClaim& claim, const JudgeOptions& options) {
  const ColumnSums a(claim.a.values, options);
  const ColumnSums b(claim.b.values, options);
  double energy = 0;
  double squares_a = 0;  // of the energies that the elements of a bring
  double squares_b = 0;
  for (std::size_t k = 0; k < a.squares.size(); ++k) {
    energy += a.squares[k] * b.squares[k];
    squares_a += a.fourth_powers[k] * b.squares[k] * b.squares[k];
    squares_b += b.fourth_powers[k] * a.squares[k] * a.squares[k];
  }
  return effective_number(energy, std::max(squares_a, squares_b));
}

// The first rows of an operand, as mx blocks and folded.
struct FoldedRows {
  PartOnHost input;
  OracleTensor folded;
  OracleTensor exact;

  FoldedRows(const TensorView& matrix, OracleRules rules, int threads)
      : input(matrix, {0, std::min(kFoldedRows, matrix.rows()), 0, matrix.cols()}),
        folded(quantize_oracle(input.view(), rules, threads)) {
    rules.fold_mx = false;
    rules.block = rules.block == kBlock1x128 ? kBlock1x32 : kBlock32x32;
    exact = quantize_oracle(input.view(), rules, threads);
  }
};

std::int64_t elements(const TensorView& matrix) { return matrix.rows() * matrix.cols(); }

}  // namespace

double largest_finite(const TensorView& matrix) {
  if (matrix.device.type == DeviceType::cuda) return cuda::largest_finite(matrix);
  double largest = 0;
  for (std::int64_t r = 0; r < matrix.rows(); ++r) {
    for (std::int64_t c = 0; c < matrix.cols(); ++c) {
      const double magnitude = std::fabs(decode(matrix, r, c));
      if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
    }
  }
  return largest;
}

GateResult judge_g1(const std::string& tensor, const ProductClaim& claim,
                    const QuantizedFormats& formats, const JudgeOptions& options) {
  const std::int64_t fewest =
      std::min({elements(claim.out), elements(claim.a.values), elements(claim.b.values)});
  if (options.zero_mean && fewest >= kSnrOutputs &&
      effective_operand(claim, options) >= kSnrEffective) {
    SearchOptions search = search_options(options, {});
    search.elements = false;
    const Findings findings = search_product(claim, search);
    const bool e4m3 = formats.a == Dtype::e4m3 && formats.b == Dtype::e4m3;
    // Of mx scales that are rounded down, one block in five has a largest value that saturates, off by
    // up to an eighth of it. Outliers are such values: they leave 24.4 dB in e4m3.
    const double bound_db = !e4m3 ? 20 : formats.saturates ? 23 : 25;
    if (findings.effective_outputs() >= kSnrEffective) {
      return snr_result("G1", tensor, findings, bound_db);
    }
  }
  const ElementBound bound = quantisation_bound(claim, formats, options.device);
  return element_result("G1", tensor, search_product(claim, search_options(options, bound)));
}

std::vector<GateResult> judge_kernel(const std::string& tensor, const ProductClaim& claim,
                                     const JudgeOptions& options) {
  const Findings findings =
      search_product(claim, search_options(options, {summation_error(options.device), 0}));
  const Dtype out = claim.out.dtype;
  const bool has_snr = options.zero_mean && findings.outputs >= kSnrOutputs &&
                       findings.effective_outputs() >= kSnrEffective;
  return {has_snr ? snr_result("G2", tensor, findings, kernel_bound_db(out, options.device))
                  : element_result("G2", tensor, findings),
          has_strips(options) ? strip_result(tensor, findings, strip_bound_db(out))
                              : element_result("G3", tensor, findings)};
}

void explain_fast_accumulation(const JudgeOptions& options, GateReport& report) {
  if (options.device != DeviceType::cuda) return;
  for (GateResult& result : report.results) {
    if (result.pass || (result.gate != "G2" && result.gate != "G3")) continue;
    if (result.value.find("fast_accumulation") != std::string::npos) continue;
    result.value +=
        "; fast_accumulation keeps about 14 bits of a sum, so the error grows with K and passes "
        "the bound near K = 13000: leave it out";
  }
}

GateResult judge_folding(const std::string& tensor, const ProductClaim& claim, const OracleRules& a,
                         const OracleRules& b, const JudgeOptions& options) {
  const FoldedRows left(claim.a.values, a, options.threads);
  const FoldedRows right(claim.b.values, b, options.threads);
  const Tensor product(Dtype::f32, {left.exact.rows, right.exact.rows});
  auto* to = static_cast<float*>(product.data());
  for_each_tile({left.folded.view(), right.folded.view(), {}, false, options.threads},
                [&](const ReferenceTile& tile) {
                  for (int r = 0; r < tile.rows; ++r) {
                    for (int c = 0; c < tile.cols; ++c) {
                      to[(tile.first_row + r) * right.exact.rows + tile.first_col + c] =
                          static_cast<float>(tile.value[r * kTile + c]);
                    }
                  }
                });
  const ProductClaim folded{product, left.exact.view(), right.exact.view(), {}};
  const bool has_snr = options.zero_mean && elements(product) >= kSnrOutputs;
  // A fold is off by half a step of the subnormals, which is less than a cast to mx blocks.
  const QuantizedFormats formats{a.format, b.format, 0, false, true, true};
  ElementBound bound =
      quantisation_bound({{}, left.input.view(), right.input.view(), {}}, formats, DeviceType::cpu);
  bound.relative = summation_error(DeviceType::cpu);
  SearchOptions search = search_options(options, bound);
  search.elements = !has_snr;
  const Findings findings = search_product(folded, search);
  GateResult result =
      has_snr ? snr_result("M", tensor, findings, 90) : element_result("M", tensor, findings);
  if (claim.a.values.rows() > kFoldedRows || claim.b.values.rows() > kFoldedRows) {
    result.value += text(" of ", left.exact.rows, "x", right.exact.rows);
  }
  return result;
}

std::vector<GateResult> judge_float_product(const std::string& tensor, const ProductClaim& claim,
                                            const JudgeOptions& options) {
  SearchOptions search = search_options(options, {summation_error(options.device), 0});
  search.closeness = true;
  const Findings findings = search_product(claim, search);
  const bool is_f32 = claim.a.values.dtype == Dtype::f32 && claim.out.dtype == Dtype::f32;
  const bool has_snr = options.zero_mean && findings.outputs >= kSnrOutputs;
  GateResult g4 = has_snr ? snr_result("G4", tensor, findings, is_f32 ? 100 : 45)
                          : element_result("G4", tensor, findings);
  g4.pass = g4.pass && findings.close_share <= 1;
  g4.value += ", worst difference " + with_decimals(findings.close_share / 100, 6);
  g4.bound += ", <= 1e-2";
  return {g4, strip_result(tensor, findings, strip_bound_db(claim.out.dtype))};
}

}  // namespace octet
