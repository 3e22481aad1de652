// The host side of attention's Hopper forward: the choice of a configuration, its kernel, and the launch.
#pragma once

#include "ops/attention/problem.hpp"
#include "ops/attention/sm90/forward/config.hpp"

#include <span>

namespace octet {

// Every configuration that is compiled, best first among equals.
std::span<const Sm90AttentionForwardConfig> sm90_attention_forward_configs();

// Whether a configuration is for the problem's dtype and its heads are wide enough.
bool sm90_attention_forward_fits(const AttentionProblem& problem,
                                 const Sm90AttentionForwardConfig& config);

// The one that runs a problem that is not refused.
const Sm90AttentionForwardConfig& choose_sm90_attention_forward(const AttentionProblem& problem);

// Tiles of queries for one head, and a bound on those of all ragged sequences.
std::int64_t sm90_attention_tiles(const AttentionProblem& problem,
                                  const Sm90AttentionForwardConfig& config);

// A counter, and with ragged sequences the list of their tiles.
std::size_t sm90_attention_forward_workspace(const AttentionProblem& problem,
                                             const Sm90AttentionForwardConfig& config);

// The compiled kernel of a configuration.
struct Sm90AttentionForwardKernel {
  Sm90AttentionForwardConfig config;
  const void* function;
  int shared_bytes;
};
// Throws Error(internal) where a configuration was not compiled.
const Sm90AttentionForwardKernel& sm90_attention_forward_kernel(
    const Sm90AttentionForwardConfig& config);

// What runs the problem with `config`, which fits it. A run throws Error where the device refuses, or where
// the kernel cannot read a layout.
std::function<void(const AttentionForwardArgs&, const RunContext&)> sm90_attention_forward_run(
    const AttentionProblem& problem, const Sm90AttentionForwardConfig& config, int multiprocessors);

}  // namespace octet
