/* grouped_gemm: the products of a linear layer per group of rows, such as the experts of a mixture.
 * octet/ops/grouped_gemm.hpp has the formulas and the shapes of the operands. */
#ifndef OCTET_C_GROUPED_GEMM_H
#define OCTET_C_GROUPED_GEMM_H

#include <octet/c/gemm.h>
#include <octet/c/group_table.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t octet_grouped_over;
enum {
  OCTET_GROUPED_OVER_ROWS = 1,       /* d[T, N] = a[T, K] b_g^T: forward and data gradient */
  OCTET_GROUPED_OVER_CONTRACTION = 2 /* d[groups, N, K], sums over the rows: weight gradient */
};

typedef struct octet_grouped_gemm_problem {
  uint32_t struct_size;
  octet_grouped_over over;
  int64_t groups; /* 1 to OCTET_MAX_GROUPS */
  int64_t rows;   /* T, of the buffers: 1 to 2^30 */
  int64_t n;
  int64_t k;
  octet_gemm_operand a;
  octet_gemm_operand b;
  octet_dtype out_dtype; /* f32, f16 or bf16 */
  int32_t accumulate;    /* over contraction: d_g += the sum; f32 and bf16 only */
  octet_group_tail tail; /* over rows: what becomes of d behind the last group */
  /* On CUDA, the most multiprocessors that a launch may take; 0: all. */
  int32_t max_multiprocessors;
  int64_t expected_rows; /* a hint that only chooses tiles: rows of all groups; 0: all */
  octet_device device;
  uint64_t reserved[8];
} octet_grouped_gemm_problem;

typedef struct octet_grouped_gemm_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_quantized a;  /* [T, K]; over contraction token blocks, or [T, N] if unscaled */
  octet_quantized b;  /* [groups, N, K]; over contraction token blocks, or [T, K] if unscaled */
  octet_tensor d;     /* [T, N], or [groups, N, K] */
  octet_tensor table; /* of the groups and T rows, made by octet_run_group_table() */
  uint64_t reserved[4];
} octet_grouped_gemm_args;

/* Over rows; e4m3 operands, 1x128 and 128x128 blocks, bf16 result, zeros behind the last group, on
 * the CPU. The caller sets groups, rows, n and k. */
static inline void octet_init_grouped_gemm_problem(octet_grouped_gemm_problem* problem) {
  OCTET_INIT(problem);
  problem->over = OCTET_GROUPED_OVER_ROWS;
  octet_init_gemm_operand(&problem->a);
  octet_init_gemm_operand(&problem->b);
  problem->b.block = octet_block_of(128, 128);
  problem->out_dtype = OCTET_BF16;
  problem->tail = OCTET_TAIL_ZERO;
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_make_grouped_gemm_plan(const octet_grouped_gemm_problem* problem,
                                                    const octet_plan_options* options,
                                                    octet_plan** plan);
OCTET_API octet_status octet_run_grouped_gemm(const octet_plan* plan,
                                              const octet_grouped_gemm_args* args, void* workspace,
                                              size_t workspace_bytes, void* stream);

#ifdef __cplusplus
}
#endif

#endif
