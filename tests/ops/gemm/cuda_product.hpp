// A product with exact sums, in poisoned memory, on the CPU and on a Hopper GPU.
#pragma once

#include <gtest/gtest.h>

#include "ops/gemm/sm90/wgmma.hpp"
#include "ops/gemm/product_case.hpp"
#include "support/device_image.hpp"

#include <cstdint>
#include <random>
#include <vector>

namespace octet::testing {

// Poisoned memory with d in the middle: `offset` elements from the start, rows `pitch` apart.
struct Output {
  static constexpr std::uint8_t kPoison = 0xFF;  // NaN in every dtype
  std::vector<std::uint8_t> bytes;
  TensorView view;

  // If d is accumulated to, it holds multiples of `unit`.
  Output(const GemmProblem& problem, std::int64_t offset, std::int64_t pitch, float unit = 1)
      : bytes(
            static_cast<std::size_t>((offset + problem.m * pitch) * size_bytes(problem.out_dtype)) +
                512,
            kPoison),
        view(make_matrix(bytes.data() + 256 + offset * size_bytes(problem.out_dtype),
                         problem.out_dtype, problem.m, problem.n, pitch)) {
    if (!problem.accumulate) return;
    for (std::int64_t r = 0; r < problem.m; ++r) {
      for (std::int64_t c = 0; c < problem.n; ++c) {
        store_f32(view.data, r * pitch + c, problem.out_dtype,
                  unit * static_cast<float>((r + c) % 7));
      }
    }
  }
};

// Integers in [-2, 2] as an operand of any format and major. Rows of a plain one are padded with NaN.
class ExactOperand {
 public:
  ExactOperand(std::int64_t rows, std::int64_t k, const GemmOperand& operand,
               std::mt19937_64& random) {
    if (is_fp8(operand.dtype)) {
      fp8_ = small_integers(rows, k, operand, random);
      view_ = fp8_.view();
      return;
    }
    const std::int64_t lines = operand.major == Major::k ? rows : k;
    const std::int64_t contiguous = operand.major == Major::k ? k : rows;
    const std::int64_t pitch = round_up(contiguous, 8) + 8;
    plain_ = Tensor(operand.dtype, {lines, pitch});
    std::memset(plain_.data(), 0xFF,
                static_cast<std::size_t>(lines * pitch * size_bytes(operand.dtype)));
    for (std::int64_t i = 0; i < lines; ++i) {
      for (std::int64_t j = 0; j < contiguous; ++j) {
        store_f32(plain_.data(), i * pitch + j, operand.dtype,
                  static_cast<float>(static_cast<int>(random() % 5) - 2));
      }
    }
    const TensorView matrix = make_matrix(plain_.data(), operand.dtype, lines, contiguous, pitch);
    view_ = operand.major == Major::k ? matrix : transposed(matrix);
  }

  const QuantizedView& view() const { return view_; }
  operator const QuantizedView&() const { return view_; }  // NOLINT: meant to convert

 private:
  QuantizedTensor fp8_;
  Tensor plain_;
  QuantizedView view_;
};

struct Product {
  GemmProblem problem;
  std::mt19937_64 random;
  ExactOperand a;
  ExactOperand b;
  float unit = 1;  // of the initial d if it is accumulated to

  explicit Product(const GemmProblem& given, std::uint64_t seed = 1)
      : problem(given),
        random(seed),
        a(given.m, given.k, given.a, random),
        b(given.n, given.k, given.b, random) {}

  GemmProblem on_device() const {
    GemmProblem result = problem;
    result.device = OnCuda::kDevice;
    return result;
  }

  // The expected bytes of d's memory, including everything around d.
  std::vector<std::uint8_t> wanted(std::int64_t offset, std::int64_t pitch) const {
    const Output out(problem, offset, pitch, unit);
    const GemmPlan plan = plan_gemm(problem);
    const Buffer workspace(plan.workspace_bytes);
    const Tensor bias = integer_bias(problem);
    run(plan, {a, b, out.view, bias.view()}, {workspace.data(), workspace.bytes()});
    return out.bytes;
  }

  // The bytes after `launch` of the product on device copies of everything.
  template <class Launch>
  std::vector<std::uint8_t> given(std::int64_t offset, std::int64_t pitch,
                                  const Launch& launch) const {
    OnCuda device;
    const Output out(problem, offset, pitch, unit);
    const DeviceImage image(out.bytes.data(), out.bytes.size());
    launch(GemmArgs{device.copy_in(a.view()), device.copy_in(b.view()), image.at(out.view),
                    device.copy_in(integer_bias(problem).view())});
    cuda::synchronize(0);
    return image.download();
  }

  std::vector<std::uint8_t> given(std::int64_t offset, std::int64_t pitch) const {
    return given(offset, pitch, [&](const GemmArgs& args) {
      run(plan_gemm(on_device(), {"cuda_sm90_wgmma", 0}), args);
    });
  }

  void expect_exact(std::int64_t offset, std::int64_t pitch) const {
    EXPECT_TRUE(given(offset, pitch) == wanted(offset, pitch))
        << "octet check " << describe(on_device()) << ", d " << offset << " elements in, pitch "
        << pitch << ", " << name(choose_sm90_gemm(problem, cuda::multiprocessors(0)));
  }
};

inline constexpr BlockShape kPairings[] = {kBlock128x128, kBlock1x128};
inline constexpr Dtype kOuts[] = {Dtype::f32, Dtype::f16, Dtype::bf16};

}  // namespace octet::testing
