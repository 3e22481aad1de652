// The Hopper implementations for scales of lines and for mx blocks, and their launches. Arguments are checked
// already. Throw Error if CUDA reports one.
#pragma once

#include "ops/quantize/problem.hpp"

namespace octet {

extern const QuantizeImplementation kQuantizeCudaSm90Lines;
extern const QuantizeImplementation kQuantizeCudaSm90Mx;

void launch_sm90_lines(const QuantizeProblem& problem, const QuantizeArgs& args,
                       const RunContext& context);
void launch_sm90_rows(const QuantizeProblem& problem, const QuantizeArgs& args,
                      const RunContext& context);
void launch_sm90_mx(const QuantizeProblem& problem, const QuantizeArgs& args,
                    const RunContext& context);

}  // namespace octet
