// The checked problem of dequantize, and what its implementations share.
#pragma once

#include "cpu/instruction_set.hpp"

#include <octet/ops/dequantize.hpp>

#include <span>

namespace octet {

using DequantizeImplementation = Implementation<DequantizeProblem, DequantizeArgs>;

extern const DequantizeImplementation kDequantizeCudaSm90Vectors;
extern const DequantizeImplementation kDequantizeCpuSimd;
extern const DequantizeImplementation kDequantizeCpuReference;

// In the order they are tried.
std::span<const DequantizeImplementation> dequantize_implementations();

void check(const DequantizeProblem& problem);
// Checks the tensors and the workspace of a call.
void check(const DequantizeProblem& problem, const DequantizeArgs& args,
           std::size_t workspace_bytes, const Workspace& workspace);

// out[i] = codes[i] * scales[i] for one run of kBlock elements.
using DequantizeRun = void (*)(const std::uint8_t* codes, const float* scales, void* out);

// cpu_simd with its instruction set given: the plan has the best set of the machine, the tests run
// each. Arguments are checked already.
void dequantize_cpu_simd(const DequantizeProblem& problem, const DequantizeArgs& args,
                         const RunContext& context, InstructionSet instructions);

// A tile of a block of cuda_sm90_vectors.
inline constexpr std::int64_t kDequantizeTileRows = 32;
inline constexpr std::int64_t kDequantizeTileCols = 256;

// Queues the kernel of cuda_sm90_vectors. Arguments are checked already.
void launch_sm90_dequantize(const DequantizeProblem& problem, const DequantizeArgs& args,
                            const RunContext& context);

}  // namespace octet
