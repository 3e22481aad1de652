// The suite dense84 fits the GPU that its results are published for.
#include "tool/cases/suites.hpp"

#include "bench/workloads/workload.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace octet::tool {
namespace {

constexpr std::size_t kH200Bytes = std::size_t{139} << 30;

// The layer and a baseline of the same size are allocated at once while they alternate.
TEST(Dense84, EveryCaseFitsOneH200BesideItsBaseline) {
  std::size_t largest = 0;
  for (const LayerCase& layer : load_suite("dense84")) {
    Fp8LinearProblem problem;
    problem.m = layer.m;
    problem.n = layer.n;
    problem.k = layer.k;
    problem.dw_dtype = Dtype::f32;
    for (const auto& workload :
         {bench::make_workload(problem, {}), bench::make_fp8_products(problem, {})}) {
      EXPECT_LE(2 * workload->bytes(), kH200Bytes) << layer.name();
      largest = std::max(largest, workload->bytes());
    }
  }
  EXPECT_GT(largest, std::size_t{20} << 30) << "the largest layer is 32768x106496x16384";
}

}  // namespace
}  // namespace octet::tool
