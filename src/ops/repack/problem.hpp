// The checked problem of repack, and what its implementations share.
#pragma once

#include "dispatch/implementation.hpp"

#include <octet/ops/repack.hpp>

#include <span>

namespace octet {

using RepackImplementation = Implementation<RepackProblem, RepackArgs>;

extern const RepackImplementation kRepackCudaSm90Vectors;
extern const RepackImplementation kRepackCpuReference;

// In the order they are tried.
std::span<const RepackImplementation> repack_implementations();

void check(const RepackProblem& problem);
// Checks the tensors and the workspace of a call.
void check(const RepackProblem& problem, const RepackArgs& args, std::size_t workspace_bytes,
           const Workspace& workspace);

// Queues the kernel of cuda_sm90_vectors. Arguments are checked already.
void launch_sm90_repack(const RepackProblem& problem, const RepackArgs& args,
                        const RunContext& context);

}  // namespace octet
