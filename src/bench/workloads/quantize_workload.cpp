#include "bench/workloads/memory_workload.hpp"

namespace octet::bench {
namespace {

class QuantizeWorkload : public MemoryWorkload {
 public:
  QuantizeWorkload(const QuantizeProblem& problem, const DataOptions& options)
      : MemoryWorkload(problem.device, options), plan_(plan_quantize(problem, plan_options())) {
    fp8_.format = problem.format;
    fp8_.block = problem.block;
    fp8_.transposed_block = problem.transposed_block;
    add_call(plan_, tensor_bytes(problem.input_dtype, {problem.rows, problem.cols}) +
                        fp8_bytes(fp8_, problem.rows, problem.cols));
  }

 private:
  struct Set {
    Tensor input;
    Fp8Tensors copies;
  };

  void add_set() override {
    const QuantizeProblem& problem = plan_.problem;
    sets_.push_back({random_tensor(problem.input_dtype, problem.rows, problem.cols, 0),
                     Fp8Tensors(fp8_, problem.rows, problem.cols, problem.device)});
  }

  void run(std::size_t /*call*/, std::size_t set, Workspace workspace, void* stream) override {
    const auto& [input, copies] = sets_[set];
    octet::run(plan_, {input, copies.out, copies.transposed}, workspace, stream);
  }

  QuantizePlan plan_;
  Fp8Output fp8_;
  std::vector<Set> sets_;
};

}  // namespace

std::unique_ptr<Workload> make_workload(const QuantizeProblem& problem,
                                        const DataOptions& options) {
  return std::make_unique<QuantizeWorkload>(problem, options);
}

}  // namespace octet::bench
