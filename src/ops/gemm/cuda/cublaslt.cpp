// Runs a product through cuBLASLt: the tensors in its terms, its algorithm, one launch.
#include "core/checks.hpp"
#include "device/cuda/launch.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/gemm/cuda/cublaslt_matmul.hpp"

#include <algorithm>

namespace octet {
namespace {

cudaDataType_t data_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::e4m3: return CUDA_R_8F_E4M3;
    case Dtype::e5m2: return CUDA_R_8F_E5M2;
    case Dtype::bf16: return CUDA_R_16BF;
    case Dtype::f16: return CUDA_R_16F;
    default: return CUDA_R_32F;
  }
}

// The largest power of two up to 256 that divides the address.
std::uint32_t align_bytes(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data) | 256u;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

// The stride of a single line may be anything.
std::int64_t pitch_of(std::int64_t lines, std::int64_t stride, std::int64_t length) {
  return lines > 1 ? stride : round_up(length, 16);
}

cublasLtMatmulMatrixScale_t scale_mode(BlockShape block) {
  if (block == kBlock128x128) return CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  if (block == kEachRow) return CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
  if (block == kWholeTensor) return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
}

// A matrix [rows, K]. The two operations are those with which the product reads it: one if the
// contraction is contiguous, one if the rows are.
MatmulMatrix as_matrix(const GemmOperand& operand, const TensorView& values,
                       cublasOperation_t k_contiguous, cublasOperation_t rows_contiguous) {
  MatmulMatrix matrix{};
  matrix.type = data_type(operand.dtype);
  matrix.align_bytes = align_bytes(values.data);
  matrix.scale_mode = scale_mode(operand.block);
  if (operand.major == Major::k) {
    matrix.rows = values.cols();
    matrix.cols = values.rows();
    matrix.pitch = pitch_of(matrix.cols, values.strides[0], matrix.rows);
    matrix.operation = k_contiguous;
  } else {
    matrix.rows = values.rows();
    matrix.cols = values.cols();
    matrix.pitch = pitch_of(matrix.cols, values.strides[1], matrix.rows);
    matrix.operation = rows_contiguous;
  }
  return matrix;
}

Matmul as_matmul(const GemmProblem& problem, const GemmArgs& args) {
  Matmul matmul{};
  matmul.device = problem.device.index;
  matmul.a = as_matrix(problem.b, args.b.values, CUBLAS_OP_T, CUBLAS_OP_N);
  matmul.b = as_matrix(problem.a, args.a.values, CUBLAS_OP_N, CUBLAS_OP_T);
  matmul.d.type = data_type(problem.out_dtype);
  matmul.d.rows = problem.n;
  matmul.d.cols = problem.m;
  matmul.d.pitch = pitch_of(problem.m, args.d.strides[0], problem.n);
  matmul.d.align_bytes = align_bytes(args.d.data);
  matmul.fast_accumulation = problem.fast_accumulation;
  if (problem.bias_dtype) matmul.bias_align_bytes = align_bytes(args.bias.data);
  return matmul;
}

[[noreturn]] void refuse_scales(const char* argument, const char* wanted, const TensorView& given) {
  fail(ErrorCode::unsupported, "cublaslt wants the scale of ", argument, " ", wanted,
       ", starting on a 16-byte boundary, got ", describe(given),
       "; repack copies it into such a layout");
}

// cuBLASLt takes a pointer to the scales, but no strides.
void check_scales(const char* argument, const QuantizedView& view) {
  if (view.block == kWholeTensor) return;  // one number, which may lie anywhere
  const TensorView& scales = view.scales;
  const bool squares = view.block == kBlock128x128;
  const int along = squares ? 1 : 0;  // the contiguous dimension
  const int across = 1 - along;
  const std::int64_t pitch =
      squares ? round_up(scales.shape[along], 4) : scales.shape[along];  // rows are a multiple of 8
  const bool contiguous = scales.shape[along] == 1 || scales.strides[along] == 1;
  const bool dense = scales.shape[across] == 1 || scales.strides[across] == pitch;
  if (contiguous && dense && align_bytes(scales.data) >= 16) return;
  refuse_scales(argument,
                squares                  ? "contiguous along the contraction, with rows padded to 4"
                : view.block == kEachRow ? "contiguous along the rows"
                                         : "contiguous along the rows, with no gap between slices",
                scales);
}

void check_fp8(const GemmArgs& args, const Matmul& matmul) {
  check_scales("a", args.a);
  check_scales("b", args.b);
  const std::int64_t pitch_bytes = matmul.d.pitch * size_bytes(args.d.dtype);
  if (matmul.d.align_bytes < 16 || pitch_bytes % 16 != 0) {
    fail(ErrorCode::unsupported, "cublaslt wants rows of d that start on 16-byte boundaries, got ",
         describe(args.d), " at ", args.d.data);
  }
}

void launch(const GemmProblem& problem, const GemmArgs& args, const RunContext& context) {
  const cuda::DeviceScope scope(problem.device.index);
  const Matmul matmul = as_matmul(problem, args);
  if (is_fp8(problem.a.dtype)) check_fp8(args, matmul);
  const MatmulOperation operation =
      make_operation(matmul, {args.b.scales.data, args.a.scales.data, args.bias.data});
  const auto found = find_algorithm(matmul, operation);
  const float one = 1;
  const float keep = problem.accumulate ? 1 : 0;  // beta, the factor of the old d
  cuda::check(
      cuda::cublaslt().matmul(cuda::cublaslt_handle(problem.device.index), operation.get(), &one,
                              args.b.values.data, found->a.get(), args.a.values.data,
                              found->b.get(), &keep, args.d.data, found->d.get(), args.d.data,
                              found->d.get(), &found->algorithm, context.workspace.data,
                              kCublasLtWorkspaceBytes, static_cast<cudaStream_t>(context.stream)),
      "cublasLtMatmul");
}

}  // namespace

void launch_cublaslt(const GemmProblem& problem, const GemmArgs& args, const RunContext& context) {
  try {
    launch(problem, args, context);
  } catch (const Error& error) {
    fail(error.code(), "gemm: ", error.what(), "\n  problem: ", describe(problem));
  }
}

}  // namespace octet
