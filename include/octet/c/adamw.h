/* adamw: one step of AdamW over one tensor, in place. The formula is in octet/ops/adamw.hpp. */
#ifndef OCTET_C_ADAMW_H
#define OCTET_C_ADAMW_H

#include <octet/c/fp8_output.h>
#include <octet/c/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct octet_adamw_problem {
  uint32_t struct_size;
  octet_dtype dtype;         /* of w: f32, f16 or bf16 */
  int64_t count;             /* elements; 0 is allowed */
  octet_dtype grad_dtype;    /* of g: f32, f16 or bf16 */
  octet_dtype moments_dtype; /* of m and v: f32 or bf16 */
  int32_t master;            /* w has a master copy in f32 */
  int32_t grad_scale;        /* g is multiplied by a scalar that lies on the device */
  octet_device device;
  int64_t rows; /* with fp8, w is [rows, cols] and count is rows * cols; otherwise ignored */
  int64_t cols;
  octet_fp8_output fp8; /* w in FP8 as well, besides w itself */
  uint64_t reserved[4];
} octet_adamw_problem;

typedef struct octet_adamw_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor w;          /* [count], contiguous, as are all others */
  octet_tensor g;          /* [count] */
  octet_tensor m;          /* [count] */
  octet_tensor v;          /* [count] */
  octet_tensor master;     /* [count], f32; ignored without master */
  octet_tensor grad_scale; /* [1], f32; ignored without grad_scale */
  double lr;               /* this and the other factors: finite, at least 0 */
  double beta1;            /* less than 1 */
  double beta2;            /* less than 1 */
  double eps;
  double weight_decay;
  int64_t step;         /* 1 in the first call */
  octet_fp8_copies fp8; /* of w [rows, cols]; ignored without fp8 */
  uint64_t reserved[4];
} octet_adamw_args;

/* bf16 throughout on the CPU; the caller sets count. */
static inline void octet_init_adamw_problem(octet_adamw_problem* problem) {
  OCTET_INIT(problem);
  problem->dtype = OCTET_BF16;
  problem->grad_dtype = OCTET_BF16;
  problem->moments_dtype = OCTET_BF16;
  octet_init_fp8_output(&problem->fp8);
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_make_adamw_plan(const octet_adamw_problem* problem,
                                             const octet_plan_options* options, octet_plan** plan);
/* OCTET_INIT leaves the factors and the step 0: the caller sets every one. */
OCTET_API octet_status octet_run_adamw(const octet_plan* plan, const octet_adamw_args* args,
                                       void* workspace, size_t workspace_bytes, void* stream);

#ifdef __cplusplus
}
#endif

#endif
