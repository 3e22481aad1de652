// The kernels of gemm on the product of each group. Small groups are computed together, so that
// they share the threads.
#include "cpu/instruction_set.hpp"
#include "ops/gemm/cpu_simd.hpp"
#include "ops/grouped_gemm/problem.hpp"

namespace octet {
namespace {

std::string refuse(const GroupedGemmProblem& problem, const Machine& machine) {
  return refuse_off_simd(problem.device, machine);
}

Planned<GroupedGemmArgs> plan(const GroupedGemmProblem& problem, const Machine& machine) {
  const GemmKernels& kernels = best_gemm_kernels(machine);
  const GemmChunks cut = gemm_chunks(product_bounds(problem), kernels);
  return {describe(cut, kernels, machine.threads), cut.bytes(),
          [problem, cut, &kernels](const GroupedGemmArgs& args, const RunContext& context) {
            run_groups(problem, args, context.threads, [&](std::span<const CpuProduct> products) {
              run_products(products, cut, kernels, context.workspace.data, context.threads);
            });
          }};
}

}  // namespace

ProductBounds product_bounds(const GroupedGemmProblem& problem) {
  if (problem.over == GroupedOver::rows) {
    return {problem.rows, problem.n, problem.k, problem.groups, problem.rows};
  }
  return {problem.n, problem.k, problem.rows, problem.groups, problem.groups * problem.n};
}

constinit const GroupedGemmImplementation kGroupedGemmCpuSimd{"cpu_simd", refuse, plan};

}  // namespace octet
