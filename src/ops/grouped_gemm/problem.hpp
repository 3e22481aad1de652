// The checked problem of grouped_gemm, and what its implementations share.
#pragma once

#include "dispatch/implementation.hpp"
#include "ops/gemm/cpu_product.hpp"

#include <octet/ops/grouped_gemm.hpp>

#include <functional>
#include <span>

namespace octet {

using GroupedGemmImplementation = Implementation<GroupedGemmProblem, GroupedGemmArgs>;

extern const GroupedGemmImplementation kGroupedGemmCudaSm90Wgmma;
extern const GroupedGemmImplementation kGroupedGemmCpuSimd;
extern const GroupedGemmImplementation kGroupedGemmCpuReference;

// In the order they are tried.
std::span<const GroupedGemmImplementation> grouped_gemm_implementations();

void check(const GroupedGemmProblem& problem);
// Checks the tensors and the workspace of a call.
void check(const GroupedGemmProblem& problem, const GroupedGemmArgs& args,
           std::size_t workspace_bytes, const Workspace& workspace);

// For every operator with such products: the hint, and the sizes of weights and token blocks.
void check_expected_rows(std::string_view op, std::int64_t expected_rows, std::int64_t rows);
void check_grouped_sizes(std::string_view op, std::int64_t groups, std::int64_t rows,
                         std::int64_t n, std::int64_t k);

// Of the groups' products: one group may have all rows.
ProductBounds product_bounds(const GroupedGemmProblem& problem);
// On the CPU: passes the product of every group that has rows to `compute`, and clears what no
// product writes, if the problem says so.
void run_groups(const GroupedGemmProblem& problem, const GroupedGemmArgs& args, int threads,
                const std::function<void(std::span<const CpuProduct>)>& compute);

}  // namespace octet
