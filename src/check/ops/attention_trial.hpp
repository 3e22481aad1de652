// A call of attention: forward, then backward on what forward wrote, into guarded outputs.
#pragma once

#include "check/data/attention_data.hpp"
#include "check/data/guarded.hpp"
#include "check/gates.hpp"

#include <octet/octet.hpp>

#include <optional>

namespace octet {

// The outputs of one call, with `gap` elements behind every row of their matrices. All are poisoned.
struct AttentionOutputs {
  AttentionForms forms;
  GuardedMatrix out, lse;
  GuardedMatrix dq;  // dq, dk and dv if they are packed
  std::optional<GuardedMatrix> dk, dv, dsink;

  AttentionOutputs(const AttentionProblem& problem, HeadLayout layout, std::int64_t gap);
};

// Copies what both passes read to another device.
void copy_tensors(const AttentionTensors& from, const AttentionTensors& to);

// Runs both passes, each with a workspace that holds `workspace_byte`. Returns the arguments of
// backward, which have all tensors. `dlse`: no data for none.
AttentionBackwardArgs run_attention(const AttentionProblem& problem, const DataOptions& options,
                                    const AttentionTensors& tensors, const TensorView& dlse,
                                    const AttentionOutputs& outputs, unsigned char workspace_byte);

}  // namespace octet
