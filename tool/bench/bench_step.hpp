// octet bench OP and octet check OP for the operators that a StepOp describes.
#pragma once

#include "tool/commands.hpp"
#include "tool/operators/step_op.hpp"

namespace octet::tool {

void add_bench_step(CLI::App& bench, Chosen& chosen, std::unique_ptr<StepOp> op);
void add_check_step(CLI::App& check, Chosen& chosen, std::unique_ptr<StepOp> op);

}  // namespace octet::tool
