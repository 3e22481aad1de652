// A cast and, beside it, a copy of as many bytes: on the CPU with the same threads, on a CUDA
// device from its memory to its memory.
#pragma once

#include "bench/inputs.hpp"
#include "bench/timing.hpp"

#include <octet/ops/quantize.hpp>

namespace octet::bench {

class QuantizeWorkload {
 public:
  // Throws octet::Error where the problem cannot be planned.
  QuantizeWorkload(const QuantizeProblem& problem, const WorkloadOptions& options);

  // Where both are queued; to be given before allocate().
  void set_stream(void* stream) { stream_ = stream; }
  // For `uses` calls of each.
  void allocate(std::int64_t uses);
  void quantize(std::int64_t iteration);
  void copy(std::int64_t iteration);

  // Read and written by one call: input, values and scales.
  std::size_t bytes() const { return bytes_; }
  const QuantizePlan& plan() const { return plan_; }

 private:
  struct Set {
    Tensor input;
    QuantizedTensor out;
    QuantizedTensor transposed;
    Buffer copy_from;  // half of the bytes: a copy reads and writes them
    Buffer copy_to;
  };
  Set make_set() const;

  QuantizePlan plan_;
  WorkloadOptions options_;
  int threads_;
  std::size_t bytes_ = 0;
  std::vector<Set> sets_;
  Buffer workspace_;
  void* stream_ = nullptr;
};

}  // namespace octet::bench
