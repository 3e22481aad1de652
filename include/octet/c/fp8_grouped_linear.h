/* fp8_grouped_linear: fp8_linear over groups of rows, such as the experts of a mixture:
 * y[t] = x[t] w_g^T, dx[t] = dy[t] w_g, dw_g = dy_g^T x_g; quantised inside. */
#ifndef OCTET_C_FP8_GROUPED_LINEAR_H
#define OCTET_C_FP8_GROUPED_LINEAR_H

#include <octet/c/fp8_linear.h>
#include <octet/c/group_table.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct octet_fp8_grouped_linear_problem {
  uint32_t struct_size;
  octet_dtype dtype; /* of x, w, y, dy and dx: bf16, f16 or f32 */
  int64_t groups;    /* 1 to OCTET_MAX_GROUPS */
  int64_t rows;      /* T, of the buffers: 1 to 2^30 */
  int64_t n;         /* output features */
  int64_t k;         /* input features */
  octet_dtype format;
  octet_dtype grad_format;
  int32_t weights_quantized; /* w is given as octet_fp8_linear_weights */
  int32_t training;          /* 0: forward only, nothing is saved */
  int32_t need_dx;
  int32_t need_dw;
  octet_dtype dw_dtype;
  int32_t accumulate_dw; /* dw += into an f32 or bf16 main gradient */
  octet_wgrad_blocks wgrad_blocks;
  float amax_floor;
  int32_t pow2_scales;
  octet_group_tail tail;       /* of y and dx */
  int64_t expected_rows;       /* as in octet_grouped_gemm_problem */
  int32_t max_multiprocessors; /* of the products, as in octet_grouped_gemm_problem */
  uint32_t reserved0;
  octet_device device;
  uint64_t reserved[8];
} octet_fp8_grouped_linear_problem;

typedef struct octet_fp8_grouped_linear_weights_layout {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_quantized_batch_layout w;   /* [groups, N, K] 128x128 */
  octet_quantized_batch_layout w_t; /* [groups, K, N] 128x128 */
  uint64_t reserved[4];
} octet_fp8_grouped_linear_weights_layout;

typedef struct octet_fp8_grouped_linear_saved_layout {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_quantized_batch_layout x_t; /* token blocks of K features; bytes == 0 if need_dw is 0 */
  octet_quantized_batch_layout w_t; /* bytes == 0 with weights_quantized or if need_dx is 0 */
  uint64_t reserved[4];
} octet_fp8_grouped_linear_saved_layout;

typedef struct octet_fp8_grouped_linear_forward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor x;                   /* [T, K] */
  octet_tensor w;                   /* [groups, N, K]; ignored with weights_quantized */
  octet_fp8_linear_weights weights; /* of all groups; ignored without weights_quantized */
  octet_tensor y;                   /* [T, N] */
  octet_fp8_linear_saved saved;     /* of all groups, written; ignored if training is 0 */
  octet_tensor table;               /* of the groups and T rows */
  uint64_t reserved[4];
} octet_fp8_grouped_linear_forward_args;

typedef struct octet_fp8_grouped_linear_backward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor dy;              /* [T, N] */
  octet_fp8_linear_saved saved; /* read */
  octet_tensor dx;              /* [T, K]; ignored if need_dx is 0 */
  octet_tensor dw;              /* [groups, N, K]; ignored if need_dw is 0 */
  octet_tensor table;           /* the one that forward had */
  uint64_t reserved[4];
} octet_fp8_grouped_linear_backward_args;

/* bf16 in and out, e4m3 inside, both gradients, zeros behind the last group, on the CPU; the caller
 * sets groups, rows, n and k. */
static inline void octet_init_fp8_grouped_linear_problem(
    octet_fp8_grouped_linear_problem* problem) {
  OCTET_INIT(problem);
  problem->dtype = OCTET_BF16;
  problem->format = OCTET_E4M3;
  problem->grad_format = OCTET_E4M3;
  problem->training = 1;
  problem->need_dx = 1;
  problem->need_dw = 1;
  problem->dw_dtype = OCTET_BF16;
  problem->wgrad_blocks = OCTET_WGRAD_ROWS;
  problem->tail = OCTET_TAIL_ZERO;
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_make_fp8_grouped_linear_saved_layout(
    const octet_fp8_grouped_linear_problem* problem, octet_fp8_grouped_linear_saved_layout* layout);
OCTET_API octet_status
octet_make_fp8_grouped_linear_weights_layout(const octet_fp8_grouped_linear_problem* problem,
                                             octet_fp8_grouped_linear_weights_layout* layout);
/* gemm_backend of the options is that of grouped_gemm. */
OCTET_API octet_status octet_make_fp8_grouped_linear_forward_plan(
    const octet_fp8_grouped_linear_problem* problem, const octet_fp8_linear_options* options,
    octet_plan** plan);
OCTET_API octet_status octet_make_fp8_grouped_linear_backward_plan(
    const octet_fp8_grouped_linear_problem* problem, const octet_fp8_linear_options* options,
    octet_plan** plan);
OCTET_API octet_status octet_run_fp8_grouped_linear_forward(
    const octet_plan* plan, const octet_fp8_grouped_linear_forward_args* args, void* workspace,
    size_t workspace_bytes, void* stream);
OCTET_API octet_status octet_run_fp8_grouped_linear_backward(
    const octet_plan* plan, const octet_fp8_grouped_linear_backward_args* args, void* workspace,
    size_t workspace_bytes, void* stream);

#ifdef __cplusplus
}
#endif

#endif
