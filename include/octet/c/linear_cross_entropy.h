/* linear_cross_entropy: the cross-entropy of x w^T against targets, in chunks of tokens, and the
 * gradients of x and w in the same pass; octet/ops/linear_cross_entropy.hpp has the formulas. */
#ifndef OCTET_C_LINEAR_CROSS_ENTROPY_H
#define OCTET_C_LINEAR_CROSS_ENTROPY_H

#include <octet/c/fp8_linear.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t octet_loss_reduction;
enum {
  OCTET_LOSS_NONE = 0,
  OCTET_LOSS_SUM = 1,
  OCTET_LOSS_MEAN = 2 /* over the tokens that are not ignored */
};

typedef struct octet_linear_cross_entropy_problem {
  uint32_t struct_size;
  octet_dtype dtype;        /* of x, w, logits and dx: bf16, f16 or f32 */
  int64_t m;                /* tokens */
  int64_t v;                /* words of the vocabulary */
  int64_t k;                /* features */
  int64_t ignore_index;     /* a target that is not counted */
  octet_dtype target_dtype; /* i64 or i32 */
  octet_loss_reduction reduction;
  int32_t fp8;
  octet_dtype format;        /* with fp8: of x and w */
  octet_dtype grad_format;   /* with fp8: of the gradients of the logits */
  int32_t weights_quantized; /* with fp8: w is given as octet_fp8_linear_weights */
  int32_t training;          /* 0: the loss only */
  int32_t need_dx;
  int32_t need_dw;
  octet_dtype dw_dtype;
  int32_t accumulate_dw; /* dw += into an f32 main gradient */
  octet_wgrad_blocks wgrad_blocks;
  float amax_floor;
  int32_t pow2_scales;
  int64_t max_chunk_rows; /* tokens of a chunk: a multiple of 128, or 0: within 512 MiB of logits */
  octet_device device;
  int32_t max_multiprocessors; /* of the products, as in octet_gemm_problem */
  uint32_t reserved0;
  uint64_t reserved[7];
} octet_linear_cross_entropy_problem;

typedef struct octet_linear_cross_entropy_forward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor x;                   /* [M, K] */
  octet_tensor w;                   /* [V, K]; ignored with weights_quantized */
  octet_fp8_linear_weights weights; /* [V, K], [K, V]; ignored without weights_quantized */
  octet_tensor targets;             /* [M] */
  octet_tensor loss_grad;           /* [1] f32, multiplied into dx and dw; no data: 1 */
  octet_tensor loss;                /* [1] f32, or [M] with OCTET_LOSS_NONE */
  octet_tensor lse;                 /* [M] f32, 0 for ignored tokens; no data: not written */
  /* Gradients, with training and a reduction. */
  octet_tensor dx; /* [M, K]; ignored if need_dx is 0 */
  octet_tensor dw; /* [V, K]; ignored if need_dw is 0 */
  uint64_t reserved[4];
} octet_linear_cross_entropy_forward_args;

/* Computes the logits again: for OCTET_LOSS_NONE, whose gradient is known only after forward. */
typedef struct octet_linear_cross_entropy_backward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor x;                   /* as in forward */
  octet_tensor w;                   /* as in forward */
  octet_fp8_linear_weights weights; /* as in forward */
  octet_tensor targets;             /* as in forward */
  octet_tensor loss_grad;           /* [M] f32 with OCTET_LOSS_NONE; else [1], or no data: 1 */
  octet_tensor lse;                 /* [M] f32, what forward wrote; no data: computed again */
  octet_tensor dx;                  /* [M, K]; ignored if need_dx is 0 */
  octet_tensor dw;                  /* [V, K]; ignored if need_dw is 0 */
  uint64_t reserved[4];
} octet_linear_cross_entropy_backward_args;

/* The mean in plain bf16, both gradients, on the CPU; the caller sets m, v and k. */
static inline void octet_init_linear_cross_entropy_problem(
    octet_linear_cross_entropy_problem* problem) {
  OCTET_INIT(problem);
  problem->dtype = OCTET_BF16;
  problem->ignore_index = -100;
  problem->target_dtype = OCTET_I64;
  problem->reduction = OCTET_LOSS_MEAN;
  problem->format = OCTET_E4M3;
  problem->grad_format = OCTET_E4M3;
  problem->training = 1;
  problem->need_dx = 1;
  problem->need_dw = 1;
  problem->dw_dtype = OCTET_BF16;
  problem->wgrad_blocks = OCTET_WGRAD_ROWS;
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_make_linear_cross_entropy_forward_plan(
    const octet_linear_cross_entropy_problem* problem, const octet_fp8_linear_options* options,
    octet_plan** plan);
OCTET_API octet_status octet_make_linear_cross_entropy_backward_plan(
    const octet_linear_cross_entropy_problem* problem, const octet_fp8_linear_options* options,
    octet_plan** plan);
OCTET_API octet_status octet_run_linear_cross_entropy_forward(
    const octet_plan* plan, const octet_linear_cross_entropy_forward_args* args, void* workspace,
    size_t workspace_bytes, void* stream);
OCTET_API octet_status octet_run_linear_cross_entropy_backward(
    const octet_plan* plan, const octet_linear_cross_entropy_backward_args* args, void* workspace,
    size_t workspace_bytes, void* stream);

#ifdef __cplusplus
}
#endif

#endif
