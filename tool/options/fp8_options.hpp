// The options of block-scaled FP8 copies: those of a cast, and of what an operator writes.
#pragma once

#include "tool/options/options.hpp"

#include <octet/ops/fp8_output.hpp>

namespace octet::tool {

struct Fp8Options {
  std::optional<Dtype> format;
  std::string block;  // empty: not given; "none": no copy in the input's orientation
  std::string transposed_block;
  std::optional<float> amax_floor;
  bool pow2_scales = false;
};

// Of a cast: --format and the others.
void add_cast_options(CLI::App& app, Fp8Options& options);
// Of what an operator writes: --fp8, which asks for it, and the others.
void add_fp8_options(CLI::App& app, Fp8Options& options, const std::string& format_help);

// The copies whose blocks are given; both in 1x128 blocks where none is.
Fp8Output cast_output(const Fp8Options& options);
// Both copies, in 1x128 blocks where no others are given. Nothing where no --fp8 is given; refuses
// the others without it.
std::optional<Fp8Output> wanted_fp8(const Fp8Options& options);

}  // namespace octet::tool
