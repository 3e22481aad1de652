// A step that is timed call by call, and what it is set beside: a copy of as many bytes, or another
// way to the same result. Making one plans it, and throws octet::Error where it cannot be planned;
// allocate() makes the data, outside the timing.
#pragma once

#include "bench/workloads/inputs.hpp"
#include "bench/timing/timing.hpp"

#include <octet/ops/gated_activation.hpp>
#include <octet/ops/gated_mlp.hpp>
#include <octet/ops/quantize.hpp>
#include <octet/ops/rms_norm.hpp>
#include <octet/ops/rms_norm_rope.hpp>

#include <memory>

namespace octet::bench {

class StepWorkload {
 public:
  // One part of the step: forward, backward, or all of a cast.
  struct Call {
    std::string implementation;
    std::string configuration;
    std::size_t workspace_bytes = 0;
    std::size_t bytes = 0;  // of every tensor that a launch reads or writes, each counted once
    std::int64_t launches = 1;
  };

  StepWorkload() = default;
  virtual ~StepWorkload() = default;
  StepWorkload(const StepWorkload&) = delete;
  StepWorkload& operator=(const StepWorkload&) = delete;

  const std::vector<Call>& calls() const { return calls_; }
  // Of what it is set beside; empty for copies.
  const std::vector<Call>& peer_calls() const { return peer_calls_; }
  // Where all is queued; to be given before allocate().
  void set_stream(void* stream) { stream_ = stream; }
  // For `uses` calls of each part.
  virtual void allocate(std::int64_t uses) = 0;
  // A part for every call.
  virtual Task task() = 0;
  // The same of what it is set beside; empty where there is nothing.
  virtual Task peer() = 0;

 protected:
  std::vector<Call> calls_;
  std::vector<Call> peer_calls_;
  void* stream_ = nullptr;
};

std::unique_ptr<StepWorkload> make_workload(const QuantizeProblem& problem,
                                            const WorkloadOptions& options);
std::unique_ptr<StepWorkload> make_workload(const RmsNormProblem& problem,
                                            const WorkloadOptions& options);
std::unique_ptr<StepWorkload> make_workload(const RopeProblem& problem,
                                            const WorkloadOptions& options);
std::unique_ptr<StepWorkload> make_workload(const RmsNormRopeProblem& problem,
                                            const WorkloadOptions& options);
std::unique_ptr<StepWorkload> make_workload(const GatedActivationProblem& problem,
                                            const WorkloadOptions& options);
// FP8 beside its unfused chain; plain beside nothing. WorkloadOptions::backend is that of the
// products.
std::unique_ptr<StepWorkload> make_workload(const GatedMlpProblem& problem,
                                            const WorkloadOptions& options);

}  // namespace octet::bench
