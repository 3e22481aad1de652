/* rms_norm: each row divided by its root mean square, times a weight per column. */
#ifndef OCTET_C_RMS_NORM_H
#define OCTET_C_RMS_NORM_H

#include <octet/c/fp8_output.h>
#include <octet/c/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct octet_rms_norm_problem {
  uint32_t struct_size;
  octet_dtype dtype; /* of x, residual, sum, y, dy, dsum, dx, dresidual: f32, f16 or bf16 */
  int64_t rows;
  int64_t cols;
  octet_dtype weight_dtype; /* of g: f32, f16 or bf16 */
  float eps;                /* finite, >= 0 */
  int32_t residual;         /* x + residual is normed, and written to sum */
  int32_t one_plus_weight;  /* the weight is 1 + g */
  int32_t training;         /* rstd is written, for backward */
  octet_dtype dg_dtype;     /* f32, f16 or bf16 */
  octet_fp8_output fp8;     /* of y */
  octet_device device;
  uint64_t reserved[4];
} octet_rms_norm_problem;

typedef struct octet_rms_norm_forward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor x;        /* [rows, cols] */
  octet_tensor residual; /* [rows, cols]; ignored without residual */
  octet_tensor g;        /* [cols] */
  octet_tensor y;        /* [rows, cols]; ignored with fp8 */
  octet_fp8_copies fp8;  /* ignored without fp8 */
  octet_tensor sum;      /* [rows, cols]; written with residual */
  octet_tensor rstd;     /* [rows], f32; written if training is 1 */
  uint64_t reserved[4];
} octet_rms_norm_forward_args;

typedef struct octet_rms_norm_backward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor dy;        /* [rows, cols] */
  octet_tensor h;         /* [rows, cols]: x, or the sum that forward wrote */
  octet_tensor g;         /* [cols] */
  octet_tensor rstd;      /* [rows], f32 */
  octet_tensor dsum;      /* [rows, cols]: the gradient of h from elsewhere; or absent */
  octet_tensor dx;        /* [rows, cols] */
  octet_tensor dresidual; /* [rows, cols]: a second copy of dx; or absent */
  octet_tensor dg;        /* [cols] */
  uint64_t reserved[4];
} octet_rms_norm_backward_args;

/* bf16 with bf16 weights, eps 1e-6, dg in f32, for training, on the CPU; the caller sets rows and
 * cols. */
static inline void octet_init_rms_norm_problem(octet_rms_norm_problem* problem) {
  OCTET_INIT(problem);
  problem->dtype = OCTET_BF16;
  problem->weight_dtype = OCTET_BF16;
  problem->eps = 1e-6f;
  problem->training = 1;
  problem->dg_dtype = OCTET_F32;
  octet_init_fp8_output(&problem->fp8);
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_make_rms_norm_forward_plan(const octet_rms_norm_problem* problem,
                                                        const octet_plan_options* options,
                                                        octet_plan** plan);
OCTET_API octet_status octet_make_rms_norm_backward_plan(const octet_rms_norm_problem* problem,
                                                         const octet_plan_options* options,
                                                         octet_plan** plan);
OCTET_API octet_status octet_run_rms_norm_forward(const octet_plan* plan,
                                                  const octet_rms_norm_forward_args* args,
                                                  void* workspace, size_t workspace_bytes,
                                                  void* stream);
OCTET_API octet_status octet_run_rms_norm_backward(const octet_plan* plan,
                                                   const octet_rms_norm_backward_args* args,
                                                   void* workspace, size_t workspace_bytes,
                                                   void* stream);

#ifdef __cplusplus
}
#endif

#endif
