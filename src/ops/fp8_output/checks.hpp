// What operators that write FP8 ask of it: the options, and the copies they are given.
#pragma once

#include <octet/ops/fp8_output.hpp>
#include <octet/ops/quantize.hpp>

#include <string>
#include <string_view>

namespace octet {

// How messages call the copies and their shapes.
struct Fp8Names {
  std::string_view out = "fp8.out";
  std::string_view transposed = "fp8.transposed";
  std::string_view out_shape = "[rows, cols]";
  std::string_view transposed_shape = "[cols, rows]";
};

// " --fp8 e4m3 --block 1x128 --transposed-block 1x128", with the other options where they are set.
std::string describe(const Fp8Output& fp8);
void check_fp8_output(std::string_view op, const Fp8Output& fp8);
// Copies of a [rows, cols] output. Overlaps are the operator's to check.
void check_fp8_copies(std::string_view op, const Fp8Output& fp8, const Fp8Copies& copies,
                      std::int64_t rows, std::int64_t cols, Device device,
                      const Fp8Names& names = {});
// The copies that are wanted; views without data in place of the others.
Fp8Copies wanted_copies(const Fp8Output& fp8, const Fp8Copies& copies);

// The quantiser behind the plain operator.
QuantizeProblem quantize_problem(const Fp8Output& fp8, std::int64_t rows, std::int64_t cols,
                                 Dtype input, Device device);

}  // namespace octet
