// What is timed, call by call, and what it is compared with: a copy of as many bytes, another way
// to the same result, or another library. Constructing a workload plans it, and throws octet::Error
// if it cannot be planned; allocate() makes the data, outside the timing.
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
  // One part of a workload: forward, backward, or a whole cast.
  struct Call {
    std::string implementation;
    std::string configuration;
    std::size_t workspace_bytes = 0;
    // Bytes of every tensor that a launch reads or writes, each counted once; 0 for a linear layer.
    std::size_t bytes = 0;
    std::int64_t launches = 1;
  };

  Workload() = default;
  virtual ~Workload() = default;
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  const std::vector<Call>& calls() const { return calls_; }
  // The calls of the peer; empty for copies and other libraries.
  const std::vector<Call>& peer_calls() const { return peer_calls_; }
  // Of all calls: "cpu_simd", or "cpu_simd; backward: cpu_reference" if they differ.
  virtual std::string implementation() const;
  virtual std::string configuration() const;
  // What allocate() needs with one set of inputs.
  virtual std::size_t bytes() const = 0;

  // The stream on which all work is queued; set it before allocate().
  void set_stream(void* stream) { stream_ = stream; }
  // Allocates for `uses` calls of each part.
  virtual void allocate(std::int64_t uses) = 0;
  // One part per call; in an iteration, backward follows forward.
  virtual Task task() = 0;
  // The same for the peer; empty if there is none.
  virtual Task peer() { return {}; }

 protected:
  // The workspace of the largest call, including the peer's.
  std::size_t workspace_bytes() const;

  std::vector<Call> calls_;
  std::vector<Call> peer_calls_;
  void* stream_ = nullptr;
};

// `ours` with another workload of the same calls as its peer; both are in memory at once.
std::unique_ptr<Workload> beside(std::unique_ptr<Workload> ours, std::unique_ptr<Workload> peer);

// DataOptions::backend is that of the operator or, for layers and MLPs, that of their products.

// The FP8 linear layer: forward quantises x both ways and w, and multiplies; backward quantises dy
// both ways and multiplies twice.
std::unique_ptr<Workload> make_workload(const Fp8LinearProblem& problem,
                                        const DataOptions& options);
// The same over groups. Weights that are quantised ahead of time are not cast in the timing.
std::unique_ptr<Workload> make_workload(const Fp8GroupedLinearProblem& problem,
                                        const DataOptions& options);
std::unique_ptr<Workload> make_workload(const QuantizeProblem& problem, const DataOptions& options);
std::unique_ptr<Workload> make_workload(const DequantizeProblem& problem,
                                        const DataOptions& options);
std::unique_ptr<Workload> make_workload(const RepackProblem& problem, const DataOptions& options);
// Forward and backward, without a peer.
std::unique_ptr<Workload> make_workload(const AttentionProblem& problem,
                                        const DataOptions& options);
// A step over one parameter.
std::unique_ptr<Workload> make_workload(const AdamWProblem& problem, const DataOptions& options);
std::unique_ptr<Workload> make_workload(const RmsNormProblem& problem, const DataOptions& options);
std::unique_ptr<Workload> make_workload(const RopeProblem& problem, const DataOptions& options);
std::unique_ptr<Workload> make_workload(const RmsNormRopeProblem& problem,
                                        const DataOptions& options);
std::unique_ptr<Workload> make_workload(const GatedActivationProblem& problem,
                                        const DataOptions& options);
std::unique_ptr<Workload> make_workload(const MoeRouteProblem& problem, const DataOptions& options);
std::unique_ptr<Workload> make_workload(const MoeMapsProblem& problem, const DataOptions& options);
std::unique_ptr<Workload> make_workload(const MoePermuteProblem& problem,
                                        const DataOptions& options);
std::unique_ptr<Workload> make_workload(const MoeUnpermuteProblem& problem,
                                        const DataOptions& options);
// Weights are cast in every step; there is no peer.
std::unique_ptr<Workload> make_workload(const MoeMlpProblem& problem, const DataOptions& options);
// FP8 is compared with its unfused chain; plain dtypes have no peer.
std::unique_ptr<Workload> make_workload(const GatedMlpProblem& problem, const DataOptions& options);
// The loss alone, then the loss with both gradients.
std::unique_ptr<Workload> make_workload(const LinearCrossEntropyProblem& problem,
                                        const DataOptions& options);

// The three products of a layer, on operands that allocate() makes: the FP8 layer's own, on
// operands quantised beforehand; those of operands in the layer's dtype; and OpenBLAS's sgemm on
// f32 copies, each with both operands contiguous along the contraction, as ours are. The last
// throws Error(unsupported) if the library is not installed.
std::unique_ptr<Workload> make_fp8_products(const Fp8LinearProblem& problem,
                                            const DataOptions& options);
std::unique_ptr<Workload> make_plain_products(const Fp8LinearProblem& problem,
                                              const DataOptions& options);
std::unique_ptr<Workload> make_fp8_products(const Fp8GroupedLinearProblem& problem,
                                            const DataOptions& options);
std::unique_ptr<Workload> make_plain_products(const Fp8GroupedLinearProblem& problem,
                                              const DataOptions& options);
std::unique_ptr<Workload> make_openblas_products(const Fp8LinearProblem& problem,
                                                 const DataOptions& options);

// The SNR in dB that an FP8 product's error is compared with: y = x w^T of the layer with f16
// operands and output, against the f64 product of the unrounded inputs. It is measured on a sample
// of whole outputs, at most 64 x 256 evenly spaced rows of x and w: an output depends only on its
// own two rows. The inputs are made on the layer's device, because the CPU takes far longer to make
// a gigabyte of them; the product of the sample runs on the CPU.
double f16_product_snr_db(const Fp8LinearProblem& layer, const DataOptions& options);

}  // namespace octet::bench
