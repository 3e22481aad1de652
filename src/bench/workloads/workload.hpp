// What is timed, call by call, and what it is set beside: a copy of as many bytes, another way to the
// same result, or another library. Making a workload plans it, and throws octet::Error where it cannot
// be planned; allocate() makes the data, outside the timing.
#pragma once

#include "bench/timing/timing.hpp"
#include "check/gates.hpp"

#include <octet/octet.hpp>

#include <memory>
#include <string>
#include <vector>

namespace octet::bench {

class Workload {
 public:
  // One part of it: forward, backward, or all of a cast.
  struct Call {
    std::string implementation;
    std::string configuration;
    std::size_t workspace_bytes = 0;
    // Of every tensor that a launch reads or writes, each counted once; 0 of a linear layer.
    std::size_t bytes = 0;
    std::int64_t launches = 1;
  };

  Workload() = default;
  virtual ~Workload() = default;
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  const std::vector<Call>& calls() const { return calls_; }
  // Of what it is set beside; empty for copies and other libraries.
  const std::vector<Call>& peer_calls() const { return peer_calls_; }
  // Of all calls: "cpu_simd", or "cpu_simd; backward: cpu_reference" where they differ.
  virtual std::string implementation() const;
  virtual std::string configuration() const;
  // What allocate() takes with one set of inputs.
  virtual std::size_t bytes() const = 0;

  // Where all is queued; to be given before allocate().
  void set_stream(void* stream) { stream_ = stream; }
  // For `uses` calls of each part.
  virtual void allocate(std::int64_t uses) = 0;
  // A part for every call; of one iteration the backward comes after the forward.
  virtual Task task() = 0;
  // The same of what it is set beside; empty where there is nothing.
  virtual Task peer() { return {}; }

 protected:
  // What the largest call takes, of peers too.
  std::size_t workspace_bytes() const;

  std::vector<Call> calls_;
  std::vector<Call> peer_calls_;
  void* stream_ = nullptr;
};

// `ours` with another workload of the same calls as its peer, both in memory at once.
std::unique_ptr<Workload> beside(std::unique_ptr<Workload> ours, std::unique_ptr<Workload> peer);

// DataOptions::backend is that of the operator, of layers and MLPs that of their products.

// The FP8 linear layer: forward quantises x both ways and w and multiplies; backward quantises dy both
// ways and multiplies twice.
std::unique_ptr<Workload> make_workload(const Fp8LinearProblem& problem,
                                        const DataOptions& options);
std::unique_ptr<Workload> make_workload(const QuantizeProblem& problem, const DataOptions& options);
std::unique_ptr<Workload> make_workload(const RmsNormProblem& problem, const DataOptions& options);
std::unique_ptr<Workload> make_workload(const RopeProblem& problem, const DataOptions& options);
std::unique_ptr<Workload> make_workload(const RmsNormRopeProblem& problem,
                                        const DataOptions& options);
std::unique_ptr<Workload> make_workload(const GatedActivationProblem& problem,
                                        const DataOptions& options);
// FP8 beside its unfused chain; plain beside nothing.
std::unique_ptr<Workload> make_workload(const GatedMlpProblem& problem, const DataOptions& options);

// The three products of a layer on operands that allocate() makes: the FP8 layer's own, on operands
// quantised beforehand; those of operands in the layer's dtype; and OpenBLAS's sgemm on f32 copies, each
// with both operands contiguous along the contraction, as ours are. The last throws Error(unsupported)
// where the library is not there.
std::unique_ptr<Workload> make_fp8_products(const Fp8LinearProblem& problem,
                                            const DataOptions& options);
std::unique_ptr<Workload> make_plain_products(const Fp8LinearProblem& problem,
                                              const DataOptions& options);
std::unique_ptr<Workload> make_openblas_products(const Fp8LinearProblem& problem,
                                                 const DataOptions& options);

// What an FP8 product's error is set beside: the SNR in dB of y = x w^T of the layer with f16 operands
// and output, against the f64 product of the same inputs as they are. Of a sample of whole outputs, at
// most 64 x 256 rows of x and w evenly apart: an output depends only on its own two rows. The inputs are
// made on the layer's device, which has made a gigabyte of them while the CPU has hardly begun; the
// product of the sample is the CPU's.
double f16_product_snr_db(const Fp8LinearProblem& layer, const DataOptions& options);

}  // namespace octet::bench
