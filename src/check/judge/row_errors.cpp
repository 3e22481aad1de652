#include "check/judge/row_errors.hpp"

#include "cpu/instruction_set.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace octet {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Half the distance between neighbouring numbers of the format around a magnitude.
inline double half_ulp(const FloatFormat& format, double magnitude) {
  const double power_of_two =
      std::bit_cast<double>(std::bit_cast<std::uint64_t>(magnitude) & 0x7FF0000000000000u);
  return (power_of_two > format.smallest_normal ? power_of_two : format.smallest_normal) *
         format.half_ulp_of_one;
}

inline double slack_of(const ElementBound& bound, double magnitude) {
  return bound.relative * magnitude + (magnitude > 0 ? bound.absolute : 0);
}

// Judges a whole row as if all its numbers were finite.
OCTET_CPU_CLONES void judge_finite(RowErrors& row, const ElementBound& bound,
                                   const FloatFormat& format) {
  const double half_step = format.smallest_normal * format.half_ulp_of_one;
  for (int i = 0; i < kTile; ++i) {
    const double slack = slack_of(bound, row.magnitude[i]);
    const double size = std::fabs(row.ref[i]);
    const double off = std::fabs(row.out[i] - row.ref[i]);
    row.share[i] = off / (half_ulp(format, size + slack) + slack);
    row.error[i] = std::max(off - (size < format.smallest_normal ? half_step : 0), 0.0);
  }
}

bool is_within(const double (&share)[kTile]) {
  bool within = true;
  for (const double value : share) within &= value <= 1;  // false for NaN
  return within;
}

// Judges one output that is not finite, whose reference is not finite, or that is beyond its bound.
void judge_closely(RowErrors& row, int i, const ElementBound& bound, const FloatFormat& format) {
  const double out = row.out[i];
  const double ref = row.ref[i];
  const double slack = slack_of(bound, row.magnitude[i]);
  const bool overflow = std::isinf(out) && std::signbit(out) == std::signbit(ref) &&
                        std::fabs(ref) + slack >= format.overflow;
  const bool rightly_not_finite = !std::isfinite(ref) ? !std::isfinite(out) : overflow;
  if (rightly_not_finite || !std::isfinite(ref)) {
    row.ref[i] = row.error[i] = row.magnitude[i] = 0;
    row.share[i] = rightly_not_finite ? 0 : kInfinity;
    --row.counted;
  } else if (!std::isfinite(out)) {
    row.error[i] = row.share[i] = kInfinity;
  }
}

}  // namespace

void RowErrors::judge(const ElementBound& bound, const FloatFormat& format) {
  counted = cols;
  judge_finite(*this, bound, format);
  if (is_within(share)) return;
  for (int i = 0; i < cols; ++i) judge_closely(*this, i, bound, format);
}

OCTET_CPU_CLONES double energy(const double (&x)[kTile]) {
  constexpr int kLanes = 16;
  double lanes[kLanes] = {};
  for (int i = 0; i < kTile; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += x[i + lane] * x[i + lane];
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

OCTET_CPU_CLONES double fourth_powers(const double (&x)[kTile]) {
  double squares[kTile];
  for (int i = 0; i < kTile; ++i) squares[i] = x[i] * x[i];
  return energy(squares);
}

Largest largest(const double (&x)[kTile]) {
  const double* found = std::max_element(x, x + kTile);
  return {*found, static_cast<int>(found - x)};
}

OCTET_CPU_CLONES void add_squares(const double (&x)[kTile], double (&sums)[kTile]) {
  for (int i = 0; i < kTile; ++i) sums[i] += x[i] * x[i];
}

}  // namespace octet
