// grouped_gemm: the products of a linear layer per group of rows, such as the experts of a mixture.
// A group table (octet/ops/group_table.hpp) says which of the T rows belong to which group.
//
//   over rows:         d[t, :] = b_g a[t, :]        d [T, N], a [T, K], b [groups, N, K], t in group g
//   over contraction:  d_g = sum of a[:, t] b[:, t]^T over the rows t of group g;  d [groups, N, K]
//
// Over rows is forward and data gradient, over contraction the weight gradient. Each group's result
// is that of gemm on its rows alone, in every bit, whatever the other groups are. Groups may have
// any length, also none; rows of other groups and rows behind the last group are never used.
//
// Operands:
//                    over rows                              over contraction
//   FP8         a    [T, K], 1x128 blocks                   token blocks [B, N, 128]
//               b    [groups, N, K], 1x128 or 128x128       token blocks [B, K, 128]
//   f32, f16    a    [T, K], either major                   [T, N], columns contiguous (major mn)
//   or bf16     b    [groups, N, K], either major           [T, K], columns contiguous (major mn)
//
// Token blocks are transposed copies of 128 rows of one group each, B = max_token_blocks(groups, T)
// of them, laid out as QuantizedBatchLayout::token_blocks; quantize writes them. Their blocks are
// 1x128 or 128x128, not both 128x128. Behind the last row of a group its last block has zeros, as
// quantize writes them; blocks that no group has are never used.
//
// On CUDA nothing is written if the table is not one of these groups and rows.
#pragma once

#include <octet/ops/gemm.hpp>
#include <octet/ops/group_table.hpp>

namespace octet {

enum class GroupedOver : std::int32_t { rows = 1, contraction = 2 };

struct GroupedGemmProblem {
  GroupedOver over = GroupedOver::rows;
  std::int64_t groups = 0;  // 1 to 1024
  std::int64_t rows = 0;    // T, of the buffers: 1 to 2^30
  std::int64_t n = 0;
  std::int64_t k = 0;
  GemmOperand a{Dtype::e4m3, kBlock1x128, Major::k};
  GemmOperand b{Dtype::e4m3, kBlock128x128, Major::k};
  Dtype out_dtype = Dtype::bf16;  // f32, f16 or bf16
  // Over contraction: d_g += the sum; f32 and bf16 only. Empty groups stay as they are; without
  // accumulate they become zeros.
  bool accumulate = false;
  GroupTail tail = GroupTail::zero;  // over rows: what becomes of d behind the last group
  // A hint that only chooses tiles: the rows of all groups together; 0: those of the buffers.
  std::int64_t expected_rows = 0;
  // On CUDA, the most multiprocessors that a launch may take, to leave some for communication; 0:
  // all. Other devices ignore it.
  std::int32_t max_multiprocessors = 0;
  Device device{};
};

struct GroupedGemmArgs {
  QuantizedView a;
  QuantizedView b;
  TensorView d;      // [T, N], or [groups, N, K]; the last dimension contiguous
  TensorView table;  // of the groups and T rows, made by group_table
};

using GroupedGemmPlan = Plan<GroupedGemmProblem>;

// "grouped-gemm --over rows --groups 8 --shape 4096x1024x768 --a e4m3:1x128 --b e4m3:128x128
//  --out bf16 --device cpu"; the shape is TxNxK.
OCTET_API std::string describe(const GroupedGemmProblem& problem);
OCTET_API GroupedGemmPlan plan_grouped_gemm(const GroupedGemmProblem& problem,
                                            const PlanOptions& = {});
OCTET_API void run(const GroupedGemmPlan& plan, const GroupedGemmArgs& args,
                   Workspace workspace = {}, void* stream = nullptr);

}  // namespace octet
