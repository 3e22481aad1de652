// One element at a time: decode, multiply by the scale of its block, round.
#include "core/block_scales.hpp"
#include "cpu/threads.hpp"
#include "ops/dequantize/problem.hpp"

namespace octet {
namespace {

float dequantized(const QuantizedView& input, std::int64_t row, std::int64_t col) {
  const TensorView& values = input.values;
  return load_f32(values.data, row * values.strides[0] + col * values.strides[1], values.dtype) *
         scale_of(input, row, col);
}

void run_reference(const DequantizeProblem& problem, const DequantizeArgs& args,
                   const RunContext& context) {
  parallel_for(context.threads, problem.rows, [&](std::int64_t row) {
    for (std::int64_t col = 0; col < problem.cols; ++col) {
      store_f32(args.out.data, row * args.out.strides[0] + col, problem.out_dtype,
                dequantized(args.input, row, col));
    }
  });
}

}  // namespace

constinit const DequantizeImplementation kDequantizeCpuReference =
    cpu_reference<DequantizeProblem, DequantizeArgs, run_reference>();

}  // namespace octet
