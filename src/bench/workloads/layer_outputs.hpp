// What forward and backward of an FP8 layer write: the results and the workspace.
#pragma once

#include "bench/workloads/memory.hpp"

#include <octet/octet.hpp>

namespace octet::bench {

struct LayerOutputs {
  Tensor y;   // [M, N]
  Tensor dx;  // [M, K]
  Tensor dw;  // [N, K]
  Buffer workspace;

  LayerOutputs() = default;
  LayerOutputs(const Fp8LinearProblem& problem, std::size_t workspace_bytes)
      : y(problem.dtype, {problem.m, problem.n}, problem.device),
        dx(problem.dtype, {problem.m, problem.k}, problem.device),
        dw(problem.dw, {problem.n, problem.k}, problem.device),
        workspace(workspace_bytes, problem.device) {}

  static std::size_t bytes(const Fp8LinearProblem& problem, std::size_t workspace_bytes) {
    return tensor_bytes(problem.dtype, {problem.m, problem.n}) +
           tensor_bytes(problem.dtype, {problem.m, problem.k}) +
           tensor_bytes(problem.dw, {problem.n, problem.k}) + workspace_bytes;
  }

  Workspace scratch() const { return {workspace.data(), workspace.bytes()}; }
};

}  // namespace octet::bench
