// A memory-bound operator, and beside each of its calls a copy of as many bytes: with the same
// threads on the CPU, from device memory to device memory on CUDA. Calls rotate over sets of
// tensors (see memory.hpp).
#pragma once

#include "bench/workloads/tensors.hpp"
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
  // Caches and positions of a rotation; `number` is that of cos.
  template <class Problem>
  RotationTensors rotation_tensors(const Problem& problem, std::uint32_t number) const {
    const Rotation& rotation = problem.rotation;
    RotationTensors tensors;
    tensors.cos =
        random_tensor(rotation.cache_dtype, cache_rows(problem), cache_cols(problem), number);
    tensors.sin =
        random_tensor(rotation.cache_dtype, cache_rows(problem), cache_cols(problem), number + 1);
    if (rotation.positions_dtype) {
      tensors.positions =
          make_positions(*rotation.positions_dtype, problem.batch, problem.seq, problem.device);
    }
    return tensors;
  }
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

// Forward and backward of an operator. `Set` holds the tensors of one set.
template <class Problem, class Set>
class StepWorkload : public MemoryWorkload {
 protected:
  using ForwardPlan = Plan<Problem, ForwardPass>;
  using BackwardPlan = Plan<Problem, BackwardPass>;

  StepWorkload(const Problem& problem, const DataOptions& options,
               ForwardPlan (*plan_forward)(const Problem&, const PlanOptions&),
               BackwardPlan (*plan_backward)(const Problem&, const PlanOptions&))
      : MemoryWorkload(problem.device, options),
        forward_(plan_forward(problem, plan_options())),
        backward_(plan_backward(problem, plan_options())) {}

  const Problem& problem() const { return forward_.problem; }
  virtual Set make_set() const = 0;
  virtual void forward(const Set& set, Workspace workspace, void* stream) const = 0;
  virtual void backward(const Set& set, Workspace workspace, void* stream) const = 0;

  ForwardPlan forward_;
  BackwardPlan backward_;

 private:
  void add_set() final { sets_.push_back(make_set()); }
  void run(std::size_t call, std::size_t set, Workspace workspace, void* stream) final {
    if (call == 0) {
      forward(sets_[set], workspace, stream);
    } else {
      backward(sets_[set], workspace, stream);
    }
  }

  std::vector<Set> sets_;
};

}  // namespace octet::bench
