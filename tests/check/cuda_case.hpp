// Tensors and products on a CUDA device, for the tests of the gates.
#pragma once

#include "check/data/guarded.hpp"
#include "check/judge/compare_outputs.hpp"
#include "check/judge/judge.hpp"
#include "check/judge/trial.hpp"
#include "check/product_case.hpp"
#include "support/on_cuda.hpp"

namespace octet {

inline constexpr Device kCuda{DeviceType::cuda, 0};

inline Tensor random_on(Device device, Dtype dtype, std::int64_t rows, std::int64_t cols,
                        Distribution distribution, std::uint32_t stream) {
  DataOptions options;
  options.distribution = distribution;
  return random_matrix(dtype, rows, cols, stream, options, device);
}

// For the names of tests.
inline const char* name(Distribution distribution) {
  switch (distribution) {
    case Distribution::normal: return "normal";
    case Distribution::skewed: return "skewed";
    case Distribution::outliers: return "outliers";
    default: return "one_signed";
  }
}

// The bytes of a dense tensor on any device.
inline std::vector<unsigned char> bytes_of(const Tensor& tensor) {
  std::vector<unsigned char> bytes(tensor.bytes());
  if (tensor.view().device.type == DeviceType::cuda) {
    cuda::copy(bytes.data(), tensor.data(), bytes.size(), 0);
  } else {
    std::memcpy(bytes.data(), tensor.data(), bytes.size());
  }
  return bytes;
}

// Overwrites `rows` x `cols` elements of a matrix on any device with one byte.
inline void spoil(const TensorView& matrix, std::int64_t row, std::int64_t rows, std::int64_t col,
                  std::int64_t cols, unsigned char byte) {
  TensorView part = matrix + (row * matrix.strides[0] + col);
  part.shape[0] = rows;
  part.shape[1] = cols;
  fill(elements_of(part), byte);
}

inline JudgeOptions cuda_judge() { return judge_options({}, kCuda); }

// A correct product on the device, for a test to corrupt.
struct CudaProduct {
  ProductShape shape;
  GateReport quantisers;
  Tensor a;
  Tensor b;
  QuantizedOperand qa;
  QuantizedOperand qb;
  Tensor out;

  CudaProduct(const ProductShape& shape_, Dtype out_dtype, Distribution distribution,
              BlockShape b_block)
      : shape(shape_),
        a(random_on(kCuda, Dtype::bf16, shape.m, shape.k, distribution, 0)),
        b(random_on(kCuda, Dtype::bf16, shape.n, shape.k, distribution, 1)),
        qa("a", a, Transpose::no, {Dtype::e4m3, kBlock1x128}, {}, quantisers),
        qb("b", b, Transpose::no, {Dtype::e4m3, b_block}, {}, quantisers),
        out(out_dtype, {shape.m, shape.n}, kCuda) {
    multiply();
  }

  void multiply() const {
    GemmProblem problem{.m = shape.m, .n = shape.n, .k = shape.k};
    problem.b.block = qb.view().block;
    problem.out_dtype = out.view().dtype;
    problem.device = kCuda;
    run_once(plan_gemm(problem), GemmArgs{qa.view(), qb.view(), out}, kCuda);
  }
  std::string failed(const JudgeOptions& options = cuda_judge()) const {
    return failed_gates(judge_kernel("d", {out, qa.view(), qb.view()}, options));
  }
};

}  // namespace octet
