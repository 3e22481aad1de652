// What is timed: the forward and the backward of one layer. Making a workload plans it, and throws
// octet::Error where it cannot be planned; allocate() makes the data, outside the timing.
#pragma once

#include "bench/workloads/inputs.hpp"

#include <octet/octet.hpp>

#include <array>
#include <memory>
#include <string>

namespace octet::bench {

class Workload {
 public:
  virtual ~Workload() = default;
  // For `uses` calls of forward and backward.
  virtual void allocate(std::int64_t uses) = 0;
  virtual void forward(std::int64_t iteration) = 0;
  // After the forward of the same iteration.
  virtual void backward(std::int64_t iteration) = 0;
  // What allocate() takes with one set of inputs.
  virtual std::size_t bytes() const = 0;

  // Where forward and backward are queued; to be given before allocate().
  void set_stream(void* stream) { stream_ = stream; }
  const std::string& implementation() const { return implementation_; }
  const std::string& configuration() const { return configuration_; }

 protected:
  std::string implementation_;
  std::string configuration_;
  void* stream_ = nullptr;
};

// The three products of a layer of plain operands, from the same three tensors: y = x w^T,
// dx = dy w with w^T a view of w, dw = dy^T x with both operands views.
struct LayerProducts {
  GemmProblem forward;
  GemmProblem dx;
  GemmProblem dw;
};
LayerProducts plain_layer_products(const LayerShape& shape, Dtype dtype, Dtype dw,
                                   bool accumulate_dw, Device device);

// Forward quantises x both ways and w and multiplies; backward quantises dy both ways and
// multiplies twice.
std::unique_ptr<Workload> make_fp8_layer(const Fp8LinearProblem& problem,
                                         const WorkloadOptions& options);
// The products of the same layer alone, on operands quantised by allocate().
std::unique_ptr<Workload> make_fp8_products(const Fp8LinearProblem& problem,
                                            const WorkloadOptions& options);
std::unique_ptr<Workload> make_plain_products(const LayerProducts& products,
                                              const WorkloadOptions& options);
// OpenBLAS's sgemm on f32 copies of the same operands, each product with both operands contiguous
// along the contraction, as ours are. Throws Error(unsupported) where the library is not there.
std::unique_ptr<Workload> make_openblas_products(const LayerShape& shape, Dtype dtype,
                                                 bool accumulate_dw,
                                                 const WorkloadOptions& options);

}  // namespace octet::bench
