// E1 and E2: outputs of elementwise and row-wise operators, row by row.
#include "check/judge/judge.hpp"
#include "check/reference/on_host.hpp"
#include "core/message.hpp"
#include "cpu/threads.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace octet {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// Distinct from the streams that make data and draw strips and tiles.
constexpr std::uint32_t kRowStream = 0x72;

double least_db(Dtype dtype) { return dtype == Dtype::f32 ? 100 : 45; }
double tolerance_of(const ElementsClaim& claim) {
  if (claim.exact) return 0;
  return claim.out.dtype == Dtype::f32 ? 1e-4 : 1e-2;
}

// The element that is furthest beyond its relative bound.
struct Worst {
  double excess = -kInfinity;  // |out - ref| - tolerance |ref|; infinite where one is not finite
  std::int64_t row = 0;
  std::int64_t col = 0;
  double out = 0;
  double ref = 0;
};

struct ElementFindings {
  std::int64_t counted = 0;  // outputs that are finite and should be
  double signal = 0;
  double noise = 0;
  Worst worst;

  void add(const ElementFindings& other) {
    counted += other.counted;
    signal += other.signal;
    noise += other.noise;
    if (other.worst.excess > worst.excess) worst = other.worst;
  }
};

// Whether an output overflowed because its rounded reference does.
bool rightly_infinite(double out, double ref, double tolerance, Dtype dtype) {
  return std::isinf(out) && std::signbit(out) == std::signbit(ref) &&
         std::fabs(ref) * (1 + tolerance) >= float_format(dtype).overflow;
}

void judge_row(std::span<const double> out, std::span<const double> ref, std::int64_t row,
               double tolerance, Dtype dtype, ElementFindings& findings) {
  for (std::size_t c = 0; c < out.size(); ++c) {
    const double error = std::fabs(out[c] - ref[c]);
    double excess = error - tolerance * std::fabs(ref[c]);
    if (std::isfinite(out[c]) && std::isfinite(ref[c])) {
      ++findings.counted;
      findings.signal += ref[c] * ref[c];
      findings.noise += error * error;
    } else if (std::isfinite(out[c]) == std::isfinite(ref[c]) ||
               rightly_infinite(out[c], ref[c], tolerance, dtype)) {
      continue;
    } else {
      excess = kInfinity;
    }
    if (excess > findings.worst.excess) {
      findings.worst = {excess, row, static_cast<std::int64_t>(c), out[c], ref[c]};
    }
  }
}

// Searches in a fixed number of parts, so that sums do not depend on the number of threads.
ElementFindings search(const ElementsClaim& claim, const std::vector<std::int64_t>& rows,
                       int threads) {
  constexpr std::int64_t kParts = 64;
  const auto count = static_cast<std::int64_t>(rows.size());
  const DecodedRows given(claim.out, rows);
  std::vector<ElementFindings> parts(kParts);
  parallel_for(threads != 0 ? threads : default_threads(), kParts, [&](std::int64_t part) {
    std::vector<double> out(static_cast<std::size_t>(claim.out.cols()));
    std::vector<double> ref(out.size());
    for (std::int64_t i = count * part / kParts; i < count * (part + 1) / kParts; ++i) {
      const std::int64_t row = rows[static_cast<std::size_t>(i)];
      given.read(row, out);
      claim.reference(row, ref);
      judge_row(out, ref, row, tolerance_of(claim), claim.out.dtype,
                parts[static_cast<std::size_t>(part)]);
    }
  });
  ElementFindings all;
  for (const ElementFindings& part : parts) all.add(part);
  return all;
}

std::string decibel_text(double db) {
  std::ostringstream stream;
  stream.precision(1);
  stream << std::fixed << db << " dB";
  return stream.str();
}

GateResult snr_result(const std::string& tensor, const ElementFindings& findings, Dtype dtype,
                      const std::string& sample) {
  const double db =
      findings.noise > 0 ? 10 * std::log10(findings.signal / findings.noise) : kInfinity;
  return {"E1",
          tensor,
          db > least_db(dtype),
          decibel_text(db) + sample,
          text("> ", least_db(dtype), " dB"),
          db};
}

GateResult closeness_result(const std::string& tensor, const ElementFindings& findings,
                            double tolerance, const std::string& sample) {
  const double rms =
      findings.counted > 0 ? std::sqrt(findings.signal / static_cast<double>(findings.counted)) : 0;
  const Worst& worst = findings.worst;
  const bool pass = !(worst.excess > tolerance * rms);
  std::string value = "all close";
  if (!pass) {
    value =
        text("row ", worst.row, ", column ", worst.col, ": ", worst.out, " instead of ", worst.ref);
  }
  return {"E2",
          tensor,
          pass,
          value + sample,
          tolerance == 0 ? "equal" : text("<= ", tolerance, " (|ref| + rms)"),
          kNaN};
}

}  // namespace

ReferenceRow row_of(const std::vector<double>& values) {
  return [&values](std::int64_t, std::span<double> to) {
    std::copy(values.begin(), values.end(), to.begin());
  };
}

std::vector<GateResult> judge_elements(const std::string& tensor, const ElementsClaim& claim,
                                       const JudgeOptions& options) {
  const std::vector<std::int64_t> rows = judged_rows(claim.out.rows(), claim.out.cols(), options);
  const ElementFindings findings = search(claim, rows, options.threads);
  const bool all = static_cast<std::int64_t>(rows.size()) == claim.out.rows();
  const std::string sample = all ? "" : text(" in ", rows.size(), " sampled rows");
  std::vector<GateResult> results;
  if (!claim.exact && findings.counted >= kSnrOutputs) {
    results.push_back(snr_result(tensor, findings, claim.out.dtype, sample));
  }
  results.push_back(closeness_result(tensor, findings, tolerance_of(claim), sample));
  return results;
}

std::vector<std::int64_t> judged_rows(std::int64_t rows, std::int64_t cols,
                                      const JudgeOptions& options) {
  const std::int64_t most = std::max<std::int64_t>(options.sample_beyond / cols, 2);
  std::vector<std::int64_t> result;
  if (rows <= most) {
    result.resize(static_cast<std::size_t>(rows));
    std::iota(result.begin(), result.end(), 0);
    return result;
  }
  for (std::int64_t i = 0; i < most; ++i) {
    const std::int64_t begin = rows * i / most;
    const auto length = static_cast<std::uint32_t>(rows * (i + 1) / most - begin);
    result.push_back(begin + random_below({options.seed, kRowStream}, RandomUse::sample,
                                          static_cast<std::uint64_t>(i), length));
  }
  result.front() = 0;
  result.back() = rows - 1;
  return result;
}

}  // namespace octet
