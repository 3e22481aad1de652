// The host side of cuda_sm90_wgmma's backward: the run of a plan.
#pragma once

#include "ops/attention/problem.hpp"
#include "ops/attention/sm90/backward/plan.hpp"

#include <functional>

namespace octet {

// What runs the problem, which is not refused. Nothing on the device is touched before the first run. A run throws
// Error where the device refuses, or where the kernels cannot read a layout.
std::function<void(const AttentionBackwardArgs&, const RunContext&)> sm90_attention_backward_run(
    const AttentionProblem& problem, const attention::BackwardPlan& plan);

}  // namespace octet
