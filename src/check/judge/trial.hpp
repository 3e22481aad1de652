// Shared by all checks of src/check/ops: test data, calls of an operator, and the gates that apply
// to all its outputs.
#pragma once

#include "check/judge/judge.hpp"
#include "core/message.hpp"
#include "device/cuda_runtime.hpp"

#include <octet/octet.hpp>

#include <optional>

namespace octet {

JudgeOptions judge_options(const DataOptions& options, Device device);

// A random matrix; `stream` tells the matrices of one seed apart.
Tensor random_matrix(Dtype dtype, std::int64_t rows, std::int64_t cols, std::uint32_t stream,
                     const DataOptions& options, Device device);

// q, k and v of every token side by side, as rope and rms_norm_rope read them.
template <class Problem>
Tensor random_qkv(const Problem& problem, const DataOptions& options) {
  const std::int64_t heads = problem.q_heads + 2 * problem.k_heads;
  return random_matrix(problem.dtype, problem.batch * problem.seq, heads * problem.head_dim, 0,
                       options, problem.device);
}

void add(GateReport& report, std::vector<GateResult> results);

// G5 and G6 of what two calls wrote.
template <class Guarded>
void judge_memory(const std::string& tensor, const Guarded& first, const Guarded& second,
                  GateReport& report) {
  report.results.push_back(judge_g5(tensor, first.view(), second.view()));
  report.results.push_back(judge_g6(tensor, first.inspect(), second.inspect()));
}

// The view of an output that a problem may not have.
inline TensorView view_of(const std::optional<GuardedMatrix>& output) {
  return output ? output->view() : TensorView();
}
inline QuantizedView view_of(const std::optional<GuardedQuantized>& output) {
  return output ? output->view() : QuantizedView();
}

// Runs a plan with a workspace of its own and waits until it is done.
template <class Plan, class Args>
void run_once(const Plan& plan, const Args& args, Device device) {
  const Buffer workspace(plan.workspace_bytes, device);
  run(plan, args, {workspace.data(), workspace.bytes()});
  if (device.type == DeviceType::cuda) cuda::synchronize(device.index);
}

// Calls judge(); if it runs out of memory, the error names the check.
template <class Judge>
GateReport within_memory(const char* check, const std::string& problem, const Judge& judge) {
  try {
    return judge();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    fail(ErrorCode::out_of_memory, "check ", check, ": not enough memory for the gates of ",
         problem,
         ", which keep the inputs, two sets of outputs and the quantised operands: ", error.what());
  }
}

}  // namespace octet
