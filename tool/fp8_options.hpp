// The options of block-scaled FP8 copies: those of a cast, and of what an operator writes.
#pragma once

#include "options.hpp"

#include <octet/ops/fp8_output.hpp>

namespace octet::tool {

struct Fp8Options {
  std::optional<Dtype> format;
  std::string block;  // empty: not given; "none": no copy in the input's orientation
  std::string transposed_block;
  std::optional<double> amax_floor;
  bool pow2_scales = false;
};

// `format_name`: of the option that names the format, "--fp8" where it also asks for FP8.
void add_fp8_options(CLI::App& app, Fp8Options& options, const std::string& format_name,
                     const std::string& format_help);
// Both copies in 1x128 blocks where no block is given.
Fp8Output fp8_output(const Fp8Options& options);
// Nothing where no --fp8 is given; refuses the others without it.
std::optional<Fp8Output> wanted_fp8(const Fp8Options& options);

}  // namespace octet::tool
