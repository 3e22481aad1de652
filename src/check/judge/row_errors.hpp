// How far the outputs of one row are from their reference, and how far they may be.
#pragma once

#include "check/reference/decode.hpp"
#include "check/reference/reference.hpp"

namespace octet {

// An output may be off by half an ulp of its dtype + relative * sum |a * b| + absolute; with no
// operand but zeros it is exactly zero.
struct ElementBound {
  double relative = 0;
  double absolute = 0;
};

// Part of a row within one tile. Behind the last column everything is 0.
struct RowErrors {
  int cols = 0;
  double out[kTile] = {};
  double ref[kTile] = {};
  double magnitude[kTile] = {};  // sum |a * b|

  double error[kTile] = {};  // |out - ref|; infinite where out should be finite and is not
  double share[kTile] = {};  // of its bound
  // Towards SNRs. Reference and output that are rightly not finite are not counted: all is 0 then.
  int counted = 0;

  // Fills the second half from the first.
  void judge(const ElementBound& bound, const FloatFormat& format);
};

// The sum of x[i] * x[i], in a fixed order.
double energy(const double (&x)[kTile]);
// The largest of x and where it is; x has no NaN.
struct Largest {
  double value;
  int index;
};
Largest largest(const double (&x)[kTile]);
// sums[i] += x[i] * x[i]
void add_squares(const double (&x)[kTile], double (&sums)[kTile]);

}  // namespace octet
