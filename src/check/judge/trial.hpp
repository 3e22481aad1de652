// What the three checks share: test data, and calls of an operator that are judged.
#pragma once

#include "check/judge/judge.hpp"
#include "check/reference/quantize_oracle.hpp"
#include "check/data/quantized_copies.hpp"
#include "core/message.hpp"
#include "device/cuda_runtime.hpp"

#include <octet/octet.hpp>

namespace octet {

JudgeOptions judge_options(const DataOptions& options, Device device);

// A random matrix; `stream` tells those of one seed apart.
Tensor random_matrix(Dtype dtype, std::int64_t rows, std::int64_t cols, std::uint32_t stream,
                     const DataOptions& options, Device device);

// A quantised tensor in our own layout, on its device.
QuantizedTensor in_our_layout(const QuantizedView& view);

void add(GateReport& report, std::vector<GateResult> results);

// Runs a plan with a workspace of its own, and waits for the end of it.
template <class Plan, class Args>
void run_once(const Plan& plan, const Args& args, Device device) {
  const Buffer workspace(plan.workspace_bytes, device);
  run(plan, args, {workspace.data(), workspace.bytes()});
  if (device.type == DeviceType::cuda) cuda::synchronize(device.index);
}

// Calls judge(), and says which check it was that had not enough memory.
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
