// From the arguments of a call to the parameters of the kernels.
#pragma once

#include "device/rows/launch.hpp"
#include "ops/adamw/cuda_sm90_step.cuh"

namespace octet::sm90 {

inline AdamWParams params_of(const AdamWProblem& problem, const AdamWArgs& args) {
  AdamWParams params{};
  params.w = args.w.data;
  params.g = args.g.data;
  params.m = args.m.data;
  params.v = args.v.data;
  params.master = static_cast<float*>(args.master.data);
  params.grad_scale = static_cast<const float*>(args.grad_scale.data);
  params.count = problem.count;
  params.factors = factors_of(args);
  params.dtype = problem.dtype;
  params.grad_dtype = problem.grad_dtype;
  params.moments_dtype = problem.moments_dtype;
  return params;
}

// Whether every tensor begins on a 16-byte boundary.
inline bool are_aligned(const AdamWArgs& args) {
  return cuda::are_aligned16({args.w, args.g, args.m, args.v, args.master});
}

}  // namespace octet::sm90
