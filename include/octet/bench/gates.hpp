// Whether an output is right, judged against an f64 reference of your own, which should share no
// code with what it judges. No time without PASS.
//
//   SNR          10 log10(sum ref^2 / sum (ref - out)^2) over the whole output, in dB
//   per element  |out - ref| <= absolute + relative |ref|
//
// The SNR of a large output forgives a few wrong elements; the bound per element does not. Where
// the reference is not finite the output must not be finite either; it is not checked further.
#pragma once

#include <octet/tensor.hpp>

#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace octet::bench {

// At least one of them must be given.
struct Bounds {
  std::optional<double> snr_db{};    // the output must have more than this
  std::optional<double> relative{};  // either one sets the bound per element; the other is 0
  std::optional<double> absolute{};
};

struct Verdict {
  bool pass = false;
  double snr_db = std::numeric_limits<double>::quiet_NaN();  // infinite if the output is exact
  std::string note{};  // what failed: "SNR 20.1 dB, wanted > 25 dB"

  const char* check() const { return pass ? "PASS" : "FAIL"; }
};

// `out` is dense, of any dtype but ue8m0, on any device; the kernel that computes it must be done.
// Throws Error if the sizes differ or no bound is given.
OCTET_API Verdict judge(const TensorView& out, std::span<const double> reference,
                        const Bounds& bounds);
OCTET_API Verdict judge(std::span<const double> out, std::span<const double> reference,
                        const Bounds& bounds);

// Calls `run` once and judges what it wrote.
using Gate = std::function<Verdict(const std::function<void()>& run)>;

// Fills `out` with NaN before the call, so that an element that is not written fails, and waits for
// the device after it. For a kernel that adds to its output, write a gate of your own around
// judge().
OCTET_API Gate make_gate(const TensorView& out, std::vector<double> reference,
                         const Bounds& bounds);

}  // namespace octet::bench
