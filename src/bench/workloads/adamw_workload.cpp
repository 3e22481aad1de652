#include "bench/workloads/memory_workload.hpp"
#include "check/data/guarded.hpp"

namespace octet::bench {
namespace {

class AdamWWorkload : public MemoryWorkload {
 public:
  AdamWWorkload(const AdamWProblem& problem, const DataOptions& options)
      : MemoryWorkload(problem.device, options), plan_(plan_adamw(problem, plan_options())) {
    const auto bytes = [&](Dtype dtype) { return tensor_bytes(dtype, {problem.count}); };
    // With a master copy w is only written.
    add_call(plan_, (problem.master ? 1 : 2) * bytes(problem.dtype) + bytes(problem.grad_dtype) +
                        4 * bytes(problem.moments_dtype) +
                        (problem.master ? 2 * bytes(Dtype::f32) : 0) +
                        (problem.grad_scale ? sizeof(float) : 0) +
                        (problem.fp8 ? fp8_bytes(*problem.fp8, problem.rows, problem.cols) : 0));
  }

 private:
  struct Set {
    Tensor w, g, m, v, master, grad_scale;
    Fp8Tensors fp8;
  };

  Tensor zeros(Dtype dtype) const {
    Tensor tensor = empty_tensor(dtype, 1, plan_.problem.count);
    fill(elements_of(tensor), 0);
    return tensor;
  }

  void add_set() override {
    const AdamWProblem& p = plan_.problem;
    Set set;
    set.w = random_tensor(p.dtype, 1, p.count, 0);
    set.g = random_tensor(p.grad_dtype, 1, p.count, 1);
    set.m = zeros(p.moments_dtype);
    set.v = zeros(p.moments_dtype);
    if (p.master) set.master = random_tensor(Dtype::f32, 1, p.count, 2);
    if (p.grad_scale) set.grad_scale = random_tensor(Dtype::f32, 1, 1, 3);
    if (p.fp8) set.fp8 = Fp8Tensors(*p.fp8, p.rows, p.cols, p.device);
    sets_.push_back(std::move(set));
  }

  void run(std::size_t /*call*/, std::size_t set, Workspace workspace, void* stream) override {
    const Set& s = sets_[set];
    AdamWArgs args;
    args.w = as_vector(s.w);
    args.g = as_vector(s.g);
    args.m = as_vector(s.m);
    args.v = as_vector(s.v);
    args.master = as_vector(s.master);
    args.grad_scale = as_vector(s.grad_scale);
    if (plan_.problem.fp8) args.fp8 = s.fp8.views();
    octet::run(plan_, args, workspace, stream);
  }

  AdamWPlan plan_;
  std::vector<Set> sets_;
};

}  // namespace

std::unique_ptr<Workload> make_workload(const AdamWProblem& problem, const DataOptions& options) {
  return std::make_unique<AdamWWorkload>(problem, options);
}

}  // namespace octet::bench
