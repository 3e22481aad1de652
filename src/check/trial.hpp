// What the three checks share: test data, and calls of an operator that are judged.
#pragma once

#include "check/judge.hpp"
#include "check/quantize_oracle.hpp"
#include "check/quantized_copies.hpp"

#include <octet/octet.hpp>

namespace octet {

// Behind every row of the second call's outputs: not a multiple of a vector.
inline constexpr std::int64_t kRowGap = 5;

// Refuses a device whose memory the gates cannot read.
void require_cpu(const char* check, Device device);

JudgeOptions judge_options(const GateOptions& options, Device device);

// A random matrix; `stream` tells those of one seed apart.
Tensor random_matrix(Dtype dtype, std::int64_t rows, std::int64_t cols, std::uint32_t stream,
                     const GateOptions& options);

// The oracle's tensor in our own layout.
QuantizedTensor in_our_layout(const QuantizedView& view);

void add(GateReport& report, std::vector<GateResult> results);

// Runs a plan with a workspace of its own.
template <class Plan, class Args>
void run_once(const Plan& plan, const Args& args) {
  const Buffer workspace(plan.workspace_bytes);
  run(plan, args, {workspace.data(), workspace.bytes()});
}

}  // namespace octet
