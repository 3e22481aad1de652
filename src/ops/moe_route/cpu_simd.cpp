// Tokens in threads, each by the kernels of an instruction set.
#include "ops/moe_route/cpu_simd.hpp"

#include "cpu/threads.hpp"

#include <algorithm>
#include <array>

namespace octet {
namespace {

template <class Element>
Element* row_at(const TensorView& matrix, std::int64_t row) {
  return matrix.data == nullptr ? nullptr
                                : static_cast<Element*>(matrix.data) + row * matrix.strides[0];
}
void* bytes_at(const TensorView& matrix, std::int64_t row) {
  return static_cast<char*>(matrix.data) + row * matrix.strides[0] * size_bytes(matrix.dtype);
}

}  // namespace

void moe_route_cpu_simd(const MoeRouteProblem& problem, const MoeRouteForwardArgs& args,
                        const RunContext& context, InstructionSet instructions) {
  const MoeRouteKernels& kernels = moe_route_kernels(problem.dtype, instructions);
  parallel_for(context.threads, problem.tokens, [&](std::int64_t token) {
    kernels.forward(problem,
                    {bytes_at(args.logits, token), static_cast<const float*>(args.bias.data),
                     row_at<std::int32_t>(args.indices, token), row_at<float>(args.weights, token),
                     row_at<float>(args.scores, token)});
  });
}

void moe_route_cpu_simd(const MoeRouteProblem& problem, const MoeRouteBackwardArgs& args,
                        const RunContext& context, InstructionSet instructions) {
  const MoeRouteKernels& kernels = moe_route_kernels(problem.dtype, instructions);
  parallel_for(context.threads, problem.tokens, [&](std::int64_t token) {
    const auto* scores = row_at<const float>(args.scores, token);
    alignas(64) std::array<float, kMaxExperts> dscore{};
    if (args.dscores.data != nullptr) {
      std::copy_n(row_at<const float>(args.dscores, token), problem.experts, dscore.begin());
    }
    add_weight_gradients(problem, scores, row_at<const std::int32_t>(args.indices, token),
                         row_at<const float>(args.dweights, token), dscore.data());
    kernels.backward(problem, scores, dscore.data(), bytes_at(args.dlogits, token));
  });
}

namespace {

template <class Args>
void run_simd(const MoeRouteProblem& problem, const Args& args, const RunContext& context,
              InstructionSet instructions) {
  moe_route_cpu_simd(problem, args, context, instructions);
}

}  // namespace

constinit const MoeRouteForwardImplementation kMoeRouteForwardCpuSimd =
    cpu_simd<MoeRouteProblem, MoeRouteForwardArgs, run_simd<MoeRouteForwardArgs>>();
constinit const MoeRouteBackwardImplementation kMoeRouteBackwardCpuSimd =
    cpu_simd<MoeRouteProblem, MoeRouteBackwardArgs, run_simd<MoeRouteBackwardArgs>>();

}  // namespace octet
