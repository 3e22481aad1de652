// Instantiates the Hopper product for every configuration of cuda_sm90_choose.cpp.
#include "core/message.hpp"
#include "ops/gemm/cuda_sm90_kernels.hpp"
#include "ops/gemm/cuda_sm90_wgmma.cuh"

namespace octet {
namespace {

template <Sm90GemmConfig kConfig>
Sm90GemmKernel kernel() {
  using C = Constant<kConfig>;
  return {kConfig, reinterpret_cast<const void*>(&sm90::gemm_kernel<C>), sm90::shared_bytes<C>()};
}

constexpr Promotion kSquares = Promotion::product_of_scales;
constexpr Promotion kRows = Promotion::one_by_one;
constexpr Dtype k4 = Dtype::e4m3;
constexpr Dtype k5 = Dtype::e5m2;

}  // namespace

const Sm90GemmKernel& sm90_gemm_kernel(const Sm90GemmConfig& config) {
  static const Sm90GemmKernel kernels[] = {
      kernel<Sm90GemmConfig{256, 128, 4, kSquares, k4, k4}>(),
      kernel<Sm90GemmConfig{128, 256, 4, kSquares, k4, k4}>(),
      kernel<Sm90GemmConfig{128, 128, 6, kSquares, k4, k4}>(),
      kernel<Sm90GemmConfig{64, 256, 5, kSquares, k4, k4}>(),
      kernel<Sm90GemmConfig{256, 128, 4, kSquares, k4, k5}>(),
      kernel<Sm90GemmConfig{128, 128, 6, kSquares, k4, k5}>(),
      kernel<Sm90GemmConfig{256, 128, 4, kSquares, k5, k4}>(),
      kernel<Sm90GemmConfig{128, 128, 6, kSquares, k5, k4}>(),
      kernel<Sm90GemmConfig{256, 128, 4, kSquares, k5, k5}>(),
      kernel<Sm90GemmConfig{128, 128, 6, kSquares, k5, k5}>(),
      kernel<Sm90GemmConfig{256, 128, 4, kRows, k4, k4}>(),
      kernel<Sm90GemmConfig{128, 128, 6, kRows, k4, k4}>(),
      kernel<Sm90GemmConfig{64, 256, 5, kRows, k4, k4}>(),
      kernel<Sm90GemmConfig{256, 128, 4, kRows, k4, k5}>(),
      kernel<Sm90GemmConfig{128, 128, 6, kRows, k4, k5}>(),
      kernel<Sm90GemmConfig{256, 128, 4, kRows, k5, k4}>(),
      kernel<Sm90GemmConfig{128, 128, 6, kRows, k5, k4}>(),
      kernel<Sm90GemmConfig{256, 128, 4, kRows, k5, k5}>(),
      kernel<Sm90GemmConfig{128, 128, 6, kRows, k5, k5}>(),
  };
  for (const Sm90GemmKernel& entry : kernels) {
    if (entry.config == config) return entry;
  }
  fail(ErrorCode::internal, "gemm: configuration ", name(config), " was not compiled");
}

}  // namespace octet
