// A memory-bound operator, and beside each of its calls a copy of as many bytes: with the same
// threads on the CPU, from device memory to device memory on CUDA. Calls rotate over sets of
// tensors (see memory.hpp).
#pragma once

#include "bench/workloads/workload.hpp"

namespace octet::bench {

class MemoryWorkload : public Workload {
 public:
  std::size_t bytes() const override { return set_bytes() + workspace_bytes(); }
  void allocate(std::int64_t uses) override;
  Task task() override;
  Task peer() override;

 protected:
  MemoryWorkload(Device device, const DataOptions& options);

  template <class Problem, class Pass>
  void add_call(const Plan<Problem, Pass>& plan, std::size_t bytes) {
    calls_.push_back({plan.implementation, plan.configuration, plan.workspace_bytes, bytes});
  }
  // Makes the tensors of one more set.
  virtual void add_set() = 0;
  virtual void run(std::size_t call, std::size_t set, Workspace workspace, void* stream) = 0;

  PlanOptions plan_options() const { return {options_.backend, options_.threads}; }
  // A dense tensor; `number` tells the random tensors of a set apart. Every set has the same ones.
  Tensor random_tensor(Dtype dtype, std::int64_t rows, std::int64_t cols,
                       std::uint32_t number) const;
  Tensor empty_tensor(Dtype dtype, std::int64_t rows, std::int64_t cols) const;
  // A tensor of one row as a vector; an empty view for an empty tensor.
  static TensorView as_vector(const Tensor& row);

 private:
  struct CopyPair {
    Buffer from;  // half of the bytes of the largest call: a copy reads and writes them
    Buffer to;
  };
  std::size_t most_bytes() const;  // of the largest call
  std::size_t set_bytes() const;   // of the tensors of all calls and the copies
  void add_copies(std::size_t bytes);
  // Backward runs half of the sets away from forward, or it would find its inputs in the cache.
  std::size_t set_of(std::size_t call, std::int64_t iteration) const;

  Device device_;
  DataOptions options_;
  int threads_;
  std::vector<CopyPair> copies_;  // one per set
  Buffer workspace_;
};

}  // namespace octet::bench
