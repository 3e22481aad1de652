// How far the outputs of one row are from their reference, and how far they may be.
#pragma once

#include "check/reference/decode.hpp"
#include "check/reference/reference.hpp"

namespace octet {

// An output may be off by half an ulp of its dtype + relative * sum |a * b| + absolute. If all
// operands are zero it must be exactly zero.
struct ElementBound {
  double relative = 0;
  double absolute = 0;
};

// Part of a row within one tile. All entries beyond the last column are 0.
struct RowErrors {
  int cols = 0;
  double out[kTile] = {};
  double ref[kTile] = {};
  double magnitude[kTile] = {};  // sum |a * b|

  // |out - ref|, less half a step where ref is subnormal: rounding leaves as much there, however
  // small ref is. Infinite where out should be finite and is not.
  double error[kTile] = {};
  double share[kTile] = {};  // of its bound
  // Outputs that count towards SNRs. Where output and reference are rightly not finite, the entries
  // above are 0 and do not count.
  int counted = 0;

  // Computes error, share and counted from the members above them.
  void judge(const ElementBound& bound, const FloatFormat& format);
};

// The sum of x[i] * x[i], in a fixed order.
double energy(const double (&x)[kTile]);
// The sum of x[i]^4.
double fourth_powers(const double (&x)[kTile]);
// The largest of x and where it is; x has no NaN.
struct Largest {
  double value;
  int index;
};
Largest largest(const double (&x)[kTile]);
// sums[i] += x[i] * x[i]
void add_squares(const double (&x)[kTile], double (&sums)[kTile]);

}  // namespace octet
