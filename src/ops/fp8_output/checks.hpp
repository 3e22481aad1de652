// What operators that write FP8 check: the options, and the copies they are given.
#pragma once

#include "core/call.hpp"

#include <octet/ops/fp8_output.hpp>
#include <octet/ops/quantize.hpp>

#include <string>
#include <string_view>

namespace octet {

// The names of the copies and of their shapes in messages.
struct Fp8Names {
  std::string_view out = "fp8.out";
  std::string_view transposed = "fp8.transposed";
  std::string_view out_shape = "[rows, cols]";
  std::string_view transposed_shape = "[cols, rows]";
};

// " --fp8 e4m3 --block 1x128 --transposed-block 1x128", with the other options if set.
std::string describe(const Fp8Output& fp8);
void check_fp8_output(std::string_view op, const Fp8Output& fp8);
// Lists the requested copies of a [rows, cols] output, and clears the views of the others.
void write_fp8_copies(Call& call, const std::optional<Fp8Output>& fp8, Fp8Copies& copies,
                      std::int64_t rows, std::int64_t cols, const Fp8Names& names = {});

// The cast that follows the plain operator if it is not fused.
QuantizeProblem quantize_problem(const Fp8Output& fp8, std::int64_t rows, std::int64_t cols,
                                 Dtype input, Device device);

}  // namespace octet
