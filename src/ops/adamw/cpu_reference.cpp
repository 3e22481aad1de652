// The formula, one element at a time.
#include "core/checks.hpp"
#include "core/numeric.hpp"
#include "cpu/threads.hpp"
#include "ops/adamw/problem.hpp"

#include <cmath>

namespace octet {
namespace {

constexpr std::int64_t kTaskElements = 1 << 14;

void update(const AdamWProblem& problem, const AdamWArgs& args, const AdamWFactors& f, float scale,
            std::int64_t i) {
  const TensorView& weight = problem.master ? args.master : args.w;
  const float g = load_f32(args.g.data, i, problem.grad_dtype) * scale;
  const float m = std::fma(f.beta1, load_f32(args.m.data, i, problem.moments_dtype), f.rest1 * g);
  const float v =
      std::fma(f.beta2, load_f32(args.v.data, i, problem.moments_dtype), (f.rest2 * g) * g);
  const float ratio = m / std::fma(std::sqrt(v), f.root_factor, f.eps);
  const float w = std::fma(-f.step_size, ratio, load_f32(weight.data, i, weight.dtype) * f.decay);
  store_f32(args.m.data, i, problem.moments_dtype, m);
  store_f32(args.v.data, i, problem.moments_dtype, v);
  if (problem.master) store_f32(args.master.data, i, Dtype::f32, w);
  store_f32(args.w.data, i, problem.dtype, w);
}

void run_reference(const AdamWProblem& problem, const AdamWArgs& args, const RunContext& context) {
  const AdamWFactors factors = factors_of(args);
  const float scale = problem.grad_scale ? load_f32(args.grad_scale.data, 0, Dtype::f32) : 1.0f;
  parallel_for(context.threads, ceil_div(problem.count, kTaskElements), [&](std::int64_t task) {
    const std::int64_t end = std::min((task + 1) * kTaskElements, problem.count);
    for (std::int64_t i = task * kTaskElements; i < end; ++i) {
      update(problem, args, factors, scale, i);
    }
  });
}

std::string refuse(const AdamWProblem& problem, const Machine&) {
  const std::string refusal = refuse_off_cpu(problem.device);
  return refusal.empty() && problem.fp8 ? kAdamWNoFp8 : refusal;
}

}  // namespace

constinit const AdamWImplementation kAdamWCpuReference{
    "cpu_reference", refuse, [](const AdamWProblem& problem, const Machine&) {
      return planned<AdamWArgs>(problem, "scalar", 0, run_reference);
    }};

}  // namespace octet
