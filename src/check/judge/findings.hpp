// What the gates measure: one output compared with its reference as a whole, strip by strip and
// element by element, in one pass over the tiles of the reference.
//
// A strip is the 128 (or fewer, at the tails) outputs of one row or one column of a 128x128 tile.
// Its SNR is judged if it has at least kStripLength outputs and does not cancel: its energy is at
// least kCancelling^2 of that of sum |a * b|. Below that, the rounding of sums can be as large as
// the result even in a correct kernel, and only the bound per element, which every output has to
// meet, judges it.
#pragma once

#include "check/judge/row_errors.hpp"

#include <octet/quantized.hpp>

#include <cstdint>
#include <limits>
#include <string>

namespace octet {

inline constexpr int kStripLength = 32;
inline constexpr double kCancelling = 1.0 / 4096;
// Beyond this many outputs, one row and one column of every tile are judged instead of all.
inline constexpr std::int64_t kSampleBeyond = 100'000'000;
// The same on CUDA, where outputs and references are copied to the host.
inline constexpr std::int64_t kSampleBeyondOnCuda = std::int64_t{1} << 22;

// The claim that out = a b^T, or old + a b^T.
struct ProductClaim {
  TensorView out;    // [M, N]
  QuantizedView a;   // [M, K], quantised or not
  QuantizedView b;   // [N, K]
  TensorView old{};  // [M, N] before the call; no data if out was overwritten
};

struct SearchOptions {
  ElementBound bound;
  bool elements = true;    // false: only the SNR of the whole output
  bool closeness = false;  // compute close_share
  std::int64_t sample_beyond = kSampleBeyond;
  std::uint64_t seed = 1;  // of the sample
  int threads = 0;
};

// How many numbers have the energy of all, (sum x^2)^2 / sum x^4: all of them if they are of one
// size, a third of normal numbers, one if it is far larger than the others.
inline double effective_number(double squares, double fourth_powers) {
  return fourth_powers > 0 ? squares * squares / fourth_powers : 0;
}

struct Findings {
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  std::int64_t outputs = 0;  // of the tensor
  bool sampled = false;
  double signal = 0;
  double noise = 0;
  double fourth_powers = 0;  // sum of ref^4
  double strip_db = kNone;   // of the worst strip; infinite if no strip was judged
  std::string strip;         // "row 3, columns 128..255"
  double element_share = 0;  // of its bound, at the worst element
  std::string element;       // "row 3, column 130: 1.5 instead of 1.484"
  double close_share = 0;    // of 1e-2 (|ref| + sum |a * b| / sqrt(K)), at the worst element

  double snr_db() const;
  double effective_outputs() const { return effective_number(signal, fourth_powers); }
};

Findings search_product(const ProductClaim& claim, const SearchOptions& options);

}  // namespace octet
