// The options of a norm: the same for rms-norm and rms-norm-rope.
#pragma once

#include "tool/options/data_options.hpp"

namespace octet::tool {

struct NormOptions {
  std::optional<Dtype> weight;
  std::optional<float> eps;
  bool one_plus_weight = false;
  bool inference = false;
  std::optional<Dtype> dg;
};

inline void add_norm_options(CLI::App& app, NormOptions& options, bool timed) {
  add_dtype(app, "--weight", options.weight, kFloats, "of g; bf16");
  add_f32(app, "--eps", options.eps, "added to the mean of the squares; 1e-6");
  add_flag(app, "--one-plus-weight", options.one_plus_weight, "multiply by 1 + g");
  add_dtype(app, "--dg", options.dg, kFloats, "of the gradient of g; f32");
  if (!timed) add_flag(app, "--inference", options.inference, "write nothing for backward");
}

template <class Problem>
void apply(const NormOptions& options, Problem& problem) {
  problem.weight = options.weight.value_or(problem.weight);
  problem.eps = options.eps.value_or(problem.eps);
  problem.one_plus_weight = options.one_plus_weight;
  problem.training = !options.inference;
  problem.dg = options.dg.value_or(problem.dg);
}

}  // namespace octet::tool
