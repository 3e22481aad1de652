// The tensors of a step of adamw, with random contents that a seed repeats.
#pragma once

#include "check/judge/compare_outputs.hpp"
#include "core/message.hpp"
#include "core/numeric.hpp"
#include "ops/adamw/problem.hpp"
#include "support/simd.hpp"

#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string>

namespace octet {

inline constexpr Dtype kFloats[] = {Dtype::f32, Dtype::f16, Dtype::bf16};
inline constexpr Dtype kMomentDtypes[] = {Dtype::f32, Dtype::bf16};

// Every combination of dtypes, with and without a master copy.
template <class Body>
void for_every_problem(std::int64_t count, const Body& body) {
  for (const Dtype dtype : kFloats) {
    for (const Dtype grad : kFloats) {
      for (const Dtype moments : kMomentDtypes) {
        for (const bool master : {false, true}) {
          body(AdamWProblem{count, dtype, grad, moments, master, (count + master) % 2 == 0});
        }
      }
    }
  }
}

class AdamWCase {
 public:
  // `skip`: elements before the first in every tensor, so that none is aligned.
  explicit AdamWCase(const AdamWProblem& given, std::uint64_t seed = 1, std::int64_t skip = 0)
      : problem(given) {
    Random random(seed);
    const auto tensor = [&](Dtype dtype, double scale, bool positive) {
      owners_.emplace_back(dtype, std::initializer_list<std::int64_t>{given.count + skip + kGuard});
      std::normal_distribution<double> normal(0, scale);
      for (std::int64_t i = 0; i < given.count + skip + kGuard; ++i) {
        const double value = normal(random);
        store_f32(owners_.back().data(), i, dtype,
                  static_cast<float>(positive ? std::fabs(value) : value));
      }
      TensorView view = owners_.back().view();
      view.data = static_cast<char*>(view.data) + skip * size_bytes(dtype);
      view.shape[0] = given.count;
      return view;
    };
    owners_.reserve(6);
    args.w = tensor(given.dtype, 1, false);
    args.g = tensor(given.grad_dtype, 0.1, false);
    args.m = tensor(given.moments_dtype, 0.1, false);
    args.v = tensor(given.moments_dtype, 0.01, true);
    if (given.master) args.master = tensor(Dtype::f32, 1, false);
    if (given.grad_scale) {
      owners_.emplace_back(Dtype::f32, std::initializer_list<std::int64_t>{1});
      *static_cast<float*>(owners_.back().data()) = 0.7f;
      args.grad_scale = owners_.back().view();
    }
    args.lr = 0.01;
    args.weight_decay = 0.1;
    args.step = 7;
  }

  void run_on(const PlanOptions& options) const {
    const AdamWPlan plan = plan_adamw(problem, options);
    const Buffer workspace(plan.workspace_bytes);
    run(plan, args, {workspace.data(), workspace.bytes()});
  }

  static float at(const TensorView& view, std::int64_t i) {
    return load_f32(view.data, i, view.dtype);
  }

  static constexpr std::int64_t kGuard = 3;  // elements after the last, which stay as they were
  AdamWProblem problem;
  AdamWArgs args;

 private:
  friend void expect_equal(const AdamWCase& given, const AdamWCase& wanted,
                           const std::string& path);
  std::vector<Tensor> owners_;
};

// All memory, the elements around the tensors included. A NaN equals any NaN.
inline void expect_equal(const AdamWCase& given, const AdamWCase& wanted, const std::string& path) {
  for (std::size_t t = 0; t < wanted.owners_.size(); ++t) {
    const TensorView a = given.owners_[t].view(), b = wanted.owners_[t].view();
    for (std::int64_t i = 0; i < b.shape[0]; ++i) {
      const float x = AdamWCase::at(a, i), y = AdamWCase::at(b, i);
      ASSERT_TRUE(bits_of(x) == bits_of(y) || (std::isnan(x) && std::isnan(y)))
          << path << ": octet check " << describe(wanted.problem) << "\ntensor " << t << " at " << i
          << " is " << x << ", not " << y;
    }
  }
}

// The FP8 copies of a parameter, each in memory of its own that is poisoned.
struct AdamWCopies {
  QuantizedTensor out;
  QuantizedTensor transposed;

  explicit AdamWCopies(const AdamWProblem& problem)
      : out(problem.rows, problem.cols, problem.fp8->format,
            problem.fp8->block.value_or(kBlock128x128)),
        transposed(problem.cols, problem.rows, problem.fp8->format,
                   problem.fp8->transposed_block.value_or(kBlock128x128)) {
    for (const QuantizedView& view : {out.view(), transposed.view()}) {
      std::memset(view.values.data, 0x55,
                  static_cast<std::size_t>(view.values.shape[0] * view.values.strides[0]));
    }
  }
  Fp8Copies views() const { return {out, transposed}; }
};

inline void expect_equal(const AdamWCopies& given, const AdamWCopies& wanted,
                         const AdamWProblem& problem, const std::string& path) {
  if (problem.fp8->block) {
    EXPECT_EQ(count_differences(given.out, wanted.out), 0) << path << ": " << describe(problem);
  }
  if (problem.fp8->transposed_block) {
    EXPECT_EQ(count_differences(given.transposed, wanted.transposed), 0)
        << path << ": " << describe(problem);
  }
}

// A matrix whose step is written in FP8: the options repeat with the seed.
inline AdamWProblem matrix_problem(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  AdamWProblem problem{.count = rows * cols, .rows = rows, .cols = cols};
  problem.grad_scale = seed % 2 == 0;
  Fp8Output fp8{seed % 2 == 0 ? Dtype::e4m3 : Dtype::e5m2, kBlock128x128, kBlock128x128};
  if (seed % 5 == 1) fp8.block.reset();
  if (seed % 5 == 2) fp8.transposed_block.reset();
  if (seed % 7 == 3) fp8.block = kBlock1x128;
  if (seed % 7 == 4) fp8.transposed_block = kBlock1x128;
  fp8.pow2_scales = seed % 3 == 1;
  if (seed % 4 == 1) fp8.amax_floor = 2;
  problem.fp8 = fp8;
  return problem;
}

// The plain step, then quantize of what it left in w: what every FP8 output must equal.
inline void run_apart(const AdamWCase& one, const AdamWCopies& copies) {
  const AdamWProblem& p = one.problem;
  AdamWProblem plain = p;
  plain.fp8.reset();
  run(plan_adamw(plain, {"cpu_reference"}), one.args);
  QuantizeProblem cast;
  cast.rows = p.rows;
  cast.cols = p.cols;
  cast.input_dtype = p.dtype;
  cast.format = p.fp8->format;
  cast.block = p.fp8->block;
  cast.transposed_block = p.fp8->transposed_block;
  cast.amax_floor = p.fp8->amax_floor;
  cast.pow2_scales = p.fp8->pow2_scales;
  const TensorView w = make_view(one.args.w.data, p.dtype, {p.rows, p.cols});
  run(plan_quantize(cast, {"cpu_reference"}), {w, copies.out, copies.transposed});
}

}  // namespace octet
