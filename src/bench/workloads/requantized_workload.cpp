// dequantize and repack: one call that reads a quantised tensor.
#include "bench/workloads/memory_workload.hpp"
#include "check/data/random_codes.hpp"
#include "ops/dequantize/problem.hpp"
#include "ops/repack/problem.hpp"

namespace octet::bench {
namespace {

class DequantizeWorkload : public MemoryWorkload {
 public:
  DequantizeWorkload(const DequantizeProblem& problem, const DataOptions& options)
      : MemoryWorkload(problem.device, options),
        options_(options),
        plan_(plan_dequantize(problem, plan_options())) {
    add_call(plan_, quantized_bytes(problem.format, problem.rows, problem.cols, problem.block) +
                        tensor_bytes(problem.out_dtype, {problem.rows, problem.cols}));
  }

 private:
  struct Set {
    RandomCodes input;
    Tensor out;
  };

  void add_set() override {
    const DequantizeProblem& p = plan_.problem;
    sets_.push_back({RandomCodes(p.rows, p.cols, p.format, p.block, {}, options_, p.device),
                     empty_tensor(p.out_dtype, p.rows, p.cols)});
    sets_.back().input.drop_host();
  }

  void run(std::size_t /*call*/, std::size_t set, Workspace workspace, void* stream) override {
    octet::run(plan_, {sets_[set].input.view(), sets_[set].out}, workspace, stream);
  }

  DataOptions options_;
  DequantizePlan plan_;
  std::vector<Set> sets_;
};

class RepackWorkload : public MemoryWorkload {
 public:
  RepackWorkload(const RepackProblem& problem, const DataOptions& options)
      : MemoryWorkload(problem.device, options),
        options_(options),
        plan_(plan_repack(problem, plan_options())) {
    add_call(plan_, 2 * quantized_bytes(problem.format, problem.rows, problem.cols, problem.block));
  }

 private:
  struct Set {
    RandomCodes input;
    QuantizedTensor out;
  };

  // Dense rows or columns.
  void add_set() override {
    const RepackProblem& p = plan_.problem;
    const bool transposed = options_.transposed_source;
    const CodesLayout layout{transposed, transposed ? p.rows : p.cols, 0};
    sets_.push_back({RandomCodes(p.rows, p.cols, p.format, p.block, layout, options_, p.device),
                     {p.rows, p.cols, p.format, p.block, p.device}});
    sets_.back().input.drop_host();
  }

  void run(std::size_t /*call*/, std::size_t set, Workspace workspace, void* stream) override {
    octet::run(plan_, {sets_[set].input.view(), sets_[set].out}, workspace, stream);
  }

  DataOptions options_;
  RepackPlan plan_;
  std::vector<Set> sets_;
};

}  // namespace

std::unique_ptr<Workload> make_workload(const DequantizeProblem& problem,
                                        const DataOptions& options) {
  return std::make_unique<DequantizeWorkload>(problem, options);
}

std::unique_ptr<Workload> make_workload(const RepackProblem& problem, const DataOptions& options) {
  return std::make_unique<RepackWorkload>(problem, options);
}

}  // namespace octet::bench
