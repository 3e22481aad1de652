/* gated_mlp: h = act(x Wg^T) * (x Wu^T), and with `down` also y = h Wd^T, in plain products or in
 * block-scaled FP8. */
#ifndef OCTET_C_GATED_MLP_H
#define OCTET_C_GATED_MLP_H

#include <octet/c/fp8_linear.h>
#include <octet/c/gated_activation.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct octet_gated_mlp_problem {
  uint32_t struct_size;
  octet_dtype dtype; /* of x, weights, gate_up, y and gradients: bf16, f16 or f32 */
  int64_t m;         /* tokens */
  int64_t f;         /* features between the products */
  int64_t k;         /* features of x and y */
  octet_gate_activation activation;
  int32_t down;
  int32_t fp8;
  octet_dtype format;        /* with fp8: of x, h and weights */
  octet_dtype grad_format;   /* with fp8: of dy and d_gate_up */
  int32_t weights_quantized; /* with fp8: weights are given as octet_gated_mlp_weights */
  int32_t training;          /* 0: forward only, nothing is saved */
  int32_t need_dx;
  int32_t need_dw;
  octet_dtype dw_dtype;
  int32_t accumulate_dw; /* dw += into f32 or bf16 main gradients */
  octet_wgrad_blocks wgrad_blocks;
  float amax_floor;
  int32_t pow2_scales;
  int32_t unfused;             /* FP8 through 16-bit h and d_gate_up, for comparison: same bits */
  int32_t max_multiprocessors; /* of the products, as in octet_gemm_problem */
  octet_device device;
  /* With fp8. The activation writes FP8 in its own pass if this is OCTET_BLOCKWISE, or
   * OCTET_ROWWISE without weight gradients; else casts follow it, as if `unfused` were set. */
  octet_granularity granularity;
  int32_t fast_accumulation; /* of tensorwise and rowwise products, as in octet_gemm_problem */
  octet_mx_scale mx_scale;   /* of OCTET_MXFP8 */
  uint32_t reserved0;
  uint64_t reserved[6];
} octet_gated_mlp_problem;

typedef struct octet_gated_mlp_weights {
  octet_fp8_linear_weights gate_up; /* [2F, K], [K, 2F] */
  octet_fp8_linear_weights down;    /* [K, F], [F, K]; ignored without down */
  uint64_t reserved[4];
} octet_gated_mlp_weights;

/* What forward saves for backward. With weights_quantized, backward takes the caller's own
 * transposes as w_gate_up_t and w_down_t. */
typedef struct octet_gated_mlp_saved {
  octet_tensor x;              /* plain: the caller's x, which backward reads again */
  octet_tensor gate_up;        /* [M, 2F] of dtype */
  octet_quantized x_t;         /* fp8: [K, M] 1x128, or 128x128 with OCTET_WGRAD_SQUARE */
  octet_quantized w_gate_up_t; /* fp8: [K, 2F] 128x128 */
  octet_tensor h;              /* plain with down: [M, F] */
  octet_quantized h_t;         /* fp8 with down: [F, M], as x_t */
  octet_quantized w_down_t;    /* fp8 with down: [F, K] 128x128 */
  uint64_t reserved[4];
} octet_gated_mlp_saved;

/* 0 bytes for a view that forward does not write. */
typedef struct octet_gated_mlp_saved_layout {
  uint32_t struct_size;
  uint32_t reserved0;
  uint64_t gate_up_bytes; /* dense [M, 2F] */
  uint64_t h_bytes;       /* dense [M, F] */
  octet_quantized_layout x_t;
  octet_quantized_layout w_gate_up_t;
  octet_quantized_layout h_t;
  octet_quantized_layout w_down_t;
  uint64_t reserved[4];
} octet_gated_mlp_saved_layout;

typedef struct octet_gated_mlp_forward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor x;                  /* [M, K] */
  octet_tensor w_gate_up;          /* [2F, K]: Wg above Wu; ignored with weights_quantized */
  octet_tensor w_down;             /* [K, F]; ignored without down or with weights_quantized */
  octet_gated_mlp_weights weights; /* ignored without weights_quantized */
  octet_tensor h;                  /* [M, F]; written by the plain layer without down */
  octet_fp8_copies h_fp8;          /* [M, F], [F, M]; written by the FP8 layer without down */
  octet_tensor y;                  /* [M, K]; written with down */
  octet_gated_mlp_saved saved;     /* written; ignored if training is 0 */
  uint64_t reserved[4];
} octet_gated_mlp_forward_args;

typedef struct octet_gated_mlp_backward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor dy;             /* [M, K] with down; ignored without */
  octet_tensor dh;             /* [M, F] without down; ignored with */
  octet_tensor w_gate_up;      /* plain: the same as in forward */
  octet_tensor w_down;         /* plain with down: the same as in forward */
  octet_gated_mlp_saved saved; /* read */
  octet_tensor dx;             /* [M, K]; ignored if need_dx is 0 */
  octet_tensor dw_gate_up;     /* [2F, K]; ignored if need_dw is 0 */
  octet_tensor dw_down;        /* [K, F]; with down; ignored if need_dw is 0 */
  uint64_t reserved[4];
} octet_gated_mlp_backward_args;

/* silu in plain bf16 without down, both gradients, on the CPU; the caller sets m, f and k. */
static inline void octet_init_gated_mlp_problem(octet_gated_mlp_problem* problem) {
  OCTET_INIT(problem);
  problem->dtype = OCTET_BF16;
  problem->activation = OCTET_GATE_SILU;
  problem->format = OCTET_E4M3;
  problem->grad_format = OCTET_E4M3;
  problem->training = 1;
  problem->need_dx = 1;
  problem->need_dw = 1;
  problem->dw_dtype = OCTET_BF16;
  problem->wgrad_blocks = OCTET_WGRAD_ROWS;
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_make_gated_mlp_saved_layout(const octet_gated_mlp_problem* problem,
                                                         octet_gated_mlp_saved_layout* layout);
/* Launches and bytes moved by a plan: every tensor of every launch counts once, one that is
 * accumulated into counts twice. */
OCTET_API octet_status octet_gated_mlp_cost(const octet_plan* plan, int64_t* launches,
                                            int64_t* bytes);
OCTET_API octet_status octet_make_gated_mlp_forward_plan(const octet_gated_mlp_problem* problem,
                                                         const octet_fp8_linear_options* options,
                                                         octet_plan** plan);
OCTET_API octet_status octet_make_gated_mlp_backward_plan(const octet_gated_mlp_problem* problem,
                                                          const octet_fp8_linear_options* options,
                                                          octet_plan** plan);
OCTET_API octet_status octet_run_gated_mlp_forward(const octet_plan* plan,
                                                   const octet_gated_mlp_forward_args* args,
                                                   void* workspace, size_t workspace_bytes,
                                                   void* stream);
OCTET_API octet_status octet_run_gated_mlp_backward(const octet_plan* plan,
                                                    const octet_gated_mlp_backward_args* args,
                                                    void* workspace, size_t workspace_bytes,
                                                    void* stream);

#ifdef __cplusplus
}
#endif

#endif
