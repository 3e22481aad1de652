#include "bench_ops.hpp"

namespace octet::tool {

const std::vector<BenchOp>& bench_ops() {
  static const std::vector<BenchOp> ops{{"gemm", add_bench_gemm}, {"quantize", add_bench_quantize}};
  return ops;
}

}  // namespace octet::tool
