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

Planned<GroupedGemmArgs> plan_products(const GroupedGemmProblem& problem, const Machine& machine,
                                       const SimdProducts& products) {
  return {describe(products, machine.threads), products.cut.bytes(),
          [problem, products](const GroupedGemmArgs& args, const RunContext& context) {
            run_groups(problem, args, context.threads, [&](std::span<const CpuProduct> groups) {
              run_products(groups, products.cut, *products.kernels, context.workspace.data,
                           context.threads);
            });
          }};
}

Planned<GroupedGemmArgs> plan(const GroupedGemmProblem& problem, const Machine& machine) {
  return simd_plan(problem, machine, plan_products);
}

std::variant<Planned<GroupedGemmArgs>, Refusal> plan_with(const GroupedGemmProblem& problem,
                                                          const Machine& machine,
                                                          std::string_view configuration) {
  return simd_plan_with<GroupedGemmArgs>(problem, machine, configuration, plan_products);
}

}  // namespace

ProductBounds product_bounds(const GroupedGemmProblem& problem) {
  if (problem.over == GroupedOver::rows) {
    return {problem.rows, problem.n, problem.k, problem.groups, problem.rows};
  }
  return {problem.n, problem.k, problem.rows, problem.groups, problem.groups * problem.n};
}

constinit const GroupedGemmImplementation kGroupedGemmCpuSimd{
    "cpu_simd", refuse, plan, plan_with, false, simd_configurations<GroupedGemmProblem>};

}  // namespace octet
