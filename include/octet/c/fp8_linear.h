/* fp8_linear: y = x w^T or x w^T + bias, dx = dy w, dw = dy^T x, dbias = the column sums of dy;
 * quantised inside. */
#ifndef OCTET_C_FP8_LINEAR_H
#define OCTET_C_FP8_LINEAR_H

#include <octet/c/quantize.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t octet_granularity; /* how the scales of a layer are shared */
enum {
  OCTET_BLOCKWISE = 0,
  OCTET_TENSORWISE = 1,
  OCTET_ROWWISE = 2,
  OCTET_MXFP8 = 3,
};

typedef int32_t octet_wgrad_blocks; /* how x is quantised for the weight gradient */
enum { OCTET_WGRAD_ROWS = 1, OCTET_WGRAD_SQUARE = 2 };

/* Implementations are forced per part of the layer. */
typedef struct octet_fp8_linear_options {
  uint32_t struct_size;
  int32_t threads;
  const char* gemm_backend;
  const char* quantize_backend;
  uint64_t reserved[4];
} octet_fp8_linear_options;

typedef struct octet_fp8_linear_problem {
  uint32_t struct_size;
  octet_dtype dtype; /* of x, w, y, dy and dx: bf16, f16 or f32 */
  int64_t m;         /* tokens */
  int64_t n;         /* output features */
  int64_t k;         /* input features */
  octet_dtype format;
  octet_dtype grad_format;
  int32_t weights_quantized; /* w is given as octet_fp8_linear_weights */
  int32_t training;          /* 0: forward only, nothing is saved */
  int32_t need_dx;
  int32_t need_dw;
  octet_dtype dw_dtype;
  int32_t accumulate_dw; /* dw and dbias += into an f32 or bf16 main gradient */
  octet_wgrad_blocks wgrad_blocks;
  float amax_floor;
  int32_t pow2_scales;
  octet_dtype bias_dtype; /* of bias: f32 or dtype; 0: y has no bias */
  /* Reserved for later versions: refused unless zero. */
  octet_activation activation;
  int32_t determinism;
  octet_device device;
  octet_dtype dbias_dtype;     /* f32, f16 or bf16; 0: backward computes no dbias */
  int32_t max_multiprocessors; /* of the products, as in octet_gemm_problem */
  octet_granularity granularity;
  int32_t fast_accumulation; /* of tensorwise and rowwise products, as in octet_gemm_problem */
  octet_mx_scale mx_scale;   /* of OCTET_MXFP8 */
  uint32_t reserved0;
  uint64_t reserved[5];
} octet_fp8_linear_problem;

typedef struct octet_fp8_linear_weights {
  octet_quantized w;   /* [N, K]: 128x128 blocks, allxall if tensorwise, 1xall if rowwise */
  octet_quantized w_t; /* [K, N]: the same */
  uint64_t reserved[4];
} octet_fp8_linear_weights;

/* What forward saves for backward. */
typedef struct octet_fp8_linear_saved {
  octet_quantized x_t; /* [K, M] 1x128, or 128x128 with OCTET_WGRAD_SQUARE; allxall; 1xall */
  octet_quantized w_t; /* [K, N] as a weight; the caller's own w_t with weights_quantized */
  uint64_t reserved[4];
} octet_fp8_linear_saved;

typedef struct octet_fp8_linear_weights_layout {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_quantized_layout w;
  octet_quantized_layout w_t;
  uint64_t reserved[4];
} octet_fp8_linear_weights_layout;

typedef struct octet_fp8_linear_saved_layout {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_quantized_layout x_t; /* bytes == 0 if need_dw is 0 */
  octet_quantized_layout w_t; /* bytes == 0 with weights_quantized or if need_dx is 0 */
  uint64_t reserved[4];
} octet_fp8_linear_saved_layout;

typedef struct octet_fp8_linear_forward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor x;                   /* [M, K] */
  octet_tensor w;                   /* [N, K]; ignored with weights_quantized */
  octet_fp8_linear_weights weights; /* ignored without weights_quantized */
  octet_tensor y;                   /* [M, N] */
  octet_fp8_linear_saved saved;     /* written; ignored if training is 0 */
  uint64_t reserved[4];
  octet_tensor bias; /* [N]; given exactly if the problem has a bias_dtype */
} octet_fp8_linear_forward_args;

typedef struct octet_fp8_linear_backward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor dy;              /* [M, N] */
  octet_fp8_linear_saved saved; /* read */
  octet_tensor dx;              /* [M, K]; ignored if need_dx is 0 */
  octet_tensor dw;              /* [N, K]; ignored if need_dw is 0 */
  uint64_t reserved[4];
  octet_tensor dbias; /* [N]; ignored if the problem has no dbias_dtype */
} octet_fp8_linear_backward_args;

/* bf16 in and out, e4m3 inside, both gradients, on the CPU; the caller sets m, n and k. */
static inline void octet_init_fp8_linear_problem(octet_fp8_linear_problem* problem) {
  OCTET_INIT(problem);
  problem->dtype = OCTET_BF16;
  problem->format = OCTET_E4M3;
  problem->grad_format = OCTET_E4M3;
  problem->training = 1;
  problem->need_dx = 1;
  problem->need_dw = 1;
  problem->dw_dtype = OCTET_BF16;
  problem->wgrad_blocks = OCTET_WGRAD_ROWS;
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_make_fp8_linear_saved_layout(const octet_fp8_linear_problem* problem,
                                                          octet_fp8_linear_saved_layout* layout);
OCTET_API octet_status octet_make_fp8_linear_weights_layout(
    const octet_fp8_linear_problem* problem, octet_fp8_linear_weights_layout* layout);
OCTET_API octet_status octet_make_fp8_linear_forward_plan(const octet_fp8_linear_problem* problem,
                                                          const octet_fp8_linear_options* options,
                                                          octet_plan** plan);
OCTET_API octet_status octet_make_fp8_linear_backward_plan(const octet_fp8_linear_problem* problem,
                                                           const octet_fp8_linear_options* options,
                                                           octet_plan** plan);
OCTET_API octet_status octet_run_fp8_linear_forward(const octet_plan* plan,
                                                    const octet_fp8_linear_forward_args* args,
                                                    void* workspace, size_t workspace_bytes,
                                                    void* stream);
OCTET_API octet_status octet_run_fp8_linear_backward(const octet_plan* plan,
                                                     const octet_fp8_linear_backward_args* args,
                                                     void* workspace, size_t workspace_bytes,
                                                     void* stream);

#ifdef __cplusplus
}
#endif

#endif
