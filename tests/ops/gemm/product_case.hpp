// Operands, an output and the ways to run one product, for the tests of gemm.
#pragma once

#include <gtest/gtest.h>

#include "core/numeric.hpp"
#include "ops/gemm/cpu_simd.hpp"
#include "ops/gemm/problem.hpp"
#include "support/on_cuda.hpp"

#include <octet/octet.hpp>

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace octet::testing {

inline GemmProblem make_problem(std::int64_t m, std::int64_t n, std::int64_t k, BlockShape b_block,
                                Dtype out = Dtype::f32) {
  GemmProblem problem{.m = m, .n = n, .k = k};
  problem.b.block = b_block;
  problem.out_dtype = out;
  return problem;
}

// The formats of a and b.
struct Pairing {
  const char* name;
  GemmOperand a;
  GemmOperand b;
};

inline GemmProblem make_problem(std::int64_t m, std::int64_t n, std::int64_t k,
                                const Pairing& operands) {
  GemmProblem problem = make_problem(m, n, k, operands.b.block);
  problem.a = operands.a;
  problem.b = operands.b;
  return problem;
}

// One way to compute a product.
struct Runner {
  std::string name;
  std::function<void(const GemmProblem&, const GemmArgs&, int threads)> run;
};

inline Runner through_the_api(const std::string& backend) {
  return {backend, [backend](const GemmProblem& problem, const GemmArgs& args, int threads) {
            const GemmPlan plan = plan_gemm(problem, {backend, threads});
            const Buffer workspace(plan.workspace_bytes);
            run(plan, args, {workspace.data(), workspace.bytes()});
          }};
}

inline Runner with_kernels(const GemmKernels& kernels) {
  return {text(kernels.name, "_", kernels.rows, "x", kernels.cols),
          [&kernels](const GemmProblem& problem, const GemmArgs& args, int threads) {
            const GemmChunks cut = gemm_chunks(product_bounds(problem), kernels);
            const Buffer workspace(cut.bytes());
            const CpuProduct product = cpu_product(problem, args);
            run_products({&product, 1}, cut, kernels, workspace.data(), threads);
          }};
}

// The Hopper kernel on device copies of everything; d comes back.
inline Runner on_cuda() {
  return {"cuda_sm90_wgmma", [](const GemmProblem& problem, const GemmArgs& args, int) {
            GemmProblem device_problem = problem;
            device_problem.device = OnCuda::kDevice;
            OnCuda device;
            const GemmArgs device_args{device.copy_in(args.a), device.copy_in(args.b),
                                       device.copy_in(args.d), device.copy_in(args.bias)};
            const GemmPlan plan = plan_gemm(device_problem);
            run(plan, device_args);
            cuda::synchronize(0);
            OnCuda::copy_out(device_args.d, args.d);
          }};
}

// Every micro-tile of every instruction set this CPU has.
inline std::vector<const GemmKernels*> kernels_of_this_cpu() {
  const Machine machine = this_machine(kCpu, 1);
  std::vector<const GemmKernels*> result;
  if (machine.avx2) {
    for (const GemmKernels& kernels : gemm_kernels_avx2()) result.push_back(&kernels);
  }
  if (machine.avx512) {
    for (const GemmKernels& kernels : gemm_kernels_avx512()) result.push_back(&kernels);
  }
  return result;
}

inline std::vector<Runner> simd_runners() {
  std::vector<Runner> runners;
  for (const GemmKernels* kernels : kernels_of_this_cpu())
    runners.push_back(with_kernels(*kernels));
  return runners;
}

inline std::vector<Runner> all_runners() {
  std::vector<Runner> runners = simd_runners();
  runners.push_back(through_the_api("cpu_reference"));
  return runners;
}

// The FP8 code of a value that FP8 represents exactly.
inline std::uint8_t code_of(float value, Dtype dtype) {
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const float decoded = dtype == Dtype::e4m3 ? f32_from_e4m3(byte) : f32_from_e5m2(byte);
    if (decoded == value) return byte;
  }
  ADD_FAILURE() << value << " is not an " << name(dtype);
  return 0;
}

inline std::uint8_t& value_at(const QuantizedView& view, std::int64_t row, std::int64_t col) {
  return static_cast<std::uint8_t*>(view.values.data)[row * view.values.strides[0] + col];
}

inline float& scale_at(const QuantizedView& view, std::int64_t row, std::int64_t col) {
  return static_cast<float*>(
      view.scales.data)[row * view.scales.strides[0] + col * view.scales.strides[1]];
}

// Integers in [-2, 2], each block scaled by a power of two in [1, 8]: every partial sum is exact in
// f32, in any order.
inline QuantizedTensor small_integers(std::int64_t rows, std::int64_t k, const GemmOperand& operand,
                                      std::mt19937_64& random) {
  QuantizedTensor tensor(rows, k, operand.dtype, operand.block);
  const QuantizedView& view = tensor.view();
  std::uint8_t codes[5];
  for (int i = 0; i < 5; ++i) codes[i] = code_of(static_cast<float>(i - 2), operand.dtype);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < k; ++c) value_at(view, r, c) = codes[random() % 5];
  }
  for (std::int64_t r = 0; r < view.scales.rows(); ++r) {
    for (std::int64_t c = 0; c < view.scales.cols(); ++c) {
      scale_at(view, r, c) = static_cast<float>(1 << random() % 4);
    }
  }
  return tensor;
}

// [N] integers in [-100, 100], which every dtype holds exactly; empty if the problem has no bias.
inline Tensor integer_bias(const GemmProblem& problem) {
  if (!problem.bias_dtype) return {};
  Tensor bias(*problem.bias_dtype, {problem.n});
  for (std::int64_t n = 0; n < problem.n; ++n) {
    store_f32(bias.data(), n, *problem.bias_dtype, static_cast<float>(n * 37 % 201 - 100));
  }
  return bias;
}

// f32, and the dtype of the output.
inline std::vector<Dtype> bias_dtypes(Dtype out) {
  if (out == Dtype::f32) return {Dtype::f32};
  return {Dtype::f32, out};
}

inline std::string seed_and_command(std::uint64_t seed, const GemmProblem& problem) {
  return "seed " + std::to_string(seed) + ", octet check " + describe(problem);
}

}  // namespace octet::testing
