// A product through cuBLASLt on device copies of host tensors.
#pragma once

#include "ops/gemm/product_case.hpp"

namespace octet::testing {

inline GemmProblem on_device(GemmProblem problem) {
  problem.device = OnCuda::kDevice;
  return problem;
}

inline void run_on_device(const std::string& backend, const GemmProblem& problem,
                          const GemmArgs& args) {
  const GemmPlan plan = plan_gemm(problem, {backend, 1});
  const Buffer workspace(plan.workspace_bytes, problem.device);
  run(plan, args, {workspace.data(), workspace.bytes()});
  cuda::synchronize(problem.device.index);
}

inline Runner on_cublaslt() {
  return {"cublaslt", [](const GemmProblem& problem, const GemmArgs& args, int) {
            OnCuda device;
            const GemmArgs device_args{device.copy_in(args.a), device.copy_in(args.b),
                                       device.copy_in(args.d), device.copy_in(args.bias)};
            run_on_device("cublaslt", on_device(problem), device_args);
            OnCuda::copy_out(device_args.d, args.d);
          }};
}

// An output with 8 elements between its rows, filled before the run.
class GappedOutput {
 public:
  GappedOutput(const GemmProblem& problem, float before)
      : storage_(problem.out_dtype, {problem.m, problem.n + kGap}),
        view_(make_matrix(storage_.data(), problem.out_dtype, problem.m, problem.n,
                          problem.n + kGap)) {
    for (std::int64_t i = 0; i < problem.m * (problem.n + kGap); ++i) {
      store_f32(storage_.data(), i, problem.out_dtype,
                i % (problem.n + kGap) < problem.n ? before : kBetween);
    }
  }

  const TensorView& view() const { return view_; }
  float at(std::int64_t row, std::int64_t col) const {
    return load_f32(storage_.data(), row * view_.strides[0] + col, view_.dtype);
  }
  bool gaps_are_untouched() const {
    for (std::int64_t row = 0; row < view_.rows(); ++row) {
      for (std::int64_t col = view_.cols(); col < view_.cols() + kGap; ++col) {
        if (at(row, col) != kBetween) return false;
      }
    }
    return true;
  }

 private:
  static constexpr std::int64_t kGap = 8;
  static constexpr float kBetween = 12;

  Tensor storage_;
  TensorView view_;
};

}  // namespace octet::testing
