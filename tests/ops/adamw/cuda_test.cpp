// The Hopper kernels have the bits of the reference: every dtype, tails, any alignment.
#include "ops/adamw/cuda_case.hpp"

namespace octet::testing {
namespace {

void expect_bits_of_reference(const AdamWProblem& problem, std::int64_t shift = 0) {
  const AdamWCase wanted(problem, 3, shift), given(problem, 3, shift);
  wanted.run_on({"cpu_reference"});
  run_on_cuda(given, shift);
  expect_equal(given, wanted, "cuda_sm90_vectors");
}

TEST(AdamWCuda, HasTheBitsOfTheReference) {
  OCTET_NEEDS_HOPPER();
  for (const std::int64_t count : {1, 7, 8, 2048, 4096 + 13, 100000}) {
    for_every_problem(count, [&](const AdamWProblem& problem) {
      expect_bits_of_reference(problem);
      if (count < 5000) expect_bits_of_reference(problem, 1);
    });
  }
}

// The slow paths of division and square root: zeros, subnormals, huge values, NaN.
TEST(AdamWCuda, HasTheBitsOfTheReferenceForSpecialValues) {
  OCTET_NEEDS_HOPPER();
  constexpr float kValues[] = {0, -0.0f, 1e-40f, 1e-38f, 1e-20f, 1, 1e20f, 3e38f, INFINITY, NAN};
  constexpr std::int64_t kCount = std::size(kValues);
  for_every_problem(kCount * kCount * kCount, [&](const AdamWProblem& problem) {
    const AdamWCase wanted(problem), given(problem);
    for (const AdamWCase* one : {&wanted, &given}) {
      for (std::int64_t i = 0; i < problem.count; ++i) {
        store_f32(one->args.g.data, i, problem.grad_dtype, kValues[i % kCount]);
        store_f32(one->args.m.data, i, problem.moments_dtype, kValues[i / kCount % kCount]);
        store_f32(one->args.v.data, i, problem.moments_dtype, kValues[i / kCount / kCount]);
      }
    }
    wanted.run_on({"cpu_reference"});
    run_on_cuda(given);
    expect_equal(given, wanted, "cuda_sm90_vectors");
  });
}

// Beyond 2^31 elements: the first and the last thousand, which are all that differs from zero.
TEST(AdamWCuda, TakesMoreThan2To31Elements) {
  OCTET_NEEDS_HOPPER();
  constexpr std::int64_t kCount = (std::int64_t{1} << 31) + 1003, kEnd = 1000;
  const AdamWProblem small{kEnd, Dtype::bf16, Dtype::bf16, Dtype::bf16};
  const AdamWCase wanted(small), given(small);
  wanted.run_on({"cpu_reference"});
  AdamWProblem problem = small;
  problem.count = kCount;
  problem.device = OnCuda::kDevice;
  AdamWArgs args = wanted.args;
  std::vector<Tensor> tensors;
  TensorView* const views[] = {&args.w, &args.g, &args.m, &args.v};
  const TensorView hosts[] = {given.args.w, given.args.g, given.args.m, given.args.v};
  for (int t = 0; t < 4; ++t) {
    tensors.emplace_back(Dtype::bf16, std::initializer_list<std::int64_t>{kCount}, OnCuda::kDevice);
    *views[t] = tensors.back().view();
    char* data = static_cast<char*>(views[t]->data);
    cuda::copy(data, hosts[t].data, 2 * kEnd, 0);
    cuda::copy(data + 2 * (kCount - kEnd), hosts[t].data, 2 * kEnd, 0);
  }
  run(plan_adamw(problem), args);
  cuda::synchronize(0);
  for (const std::int64_t first : {std::int64_t{0}, kCount - kEnd}) {
    for (int t = 0; t < 4; ++t) {
      cuda::copy(hosts[t].data, static_cast<char*>(views[t]->data) + 2 * first, 2 * kEnd, 0);
    }
    expect_equal(given, wanted, text("elements from ", first));
  }
}

}  // namespace
}  // namespace octet::testing
