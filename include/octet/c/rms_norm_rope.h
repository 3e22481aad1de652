/* rms_norm_rope: rms_norm and then rope of q and k, one read, one write. */
#ifndef OCTET_C_RMS_NORM_ROPE_H
#define OCTET_C_RMS_NORM_ROPE_H

#include <octet/c/rope.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t octet_norm_scope; /* all heads of a token together, or each by itself (QK-norm) */
enum { OCTET_NORM_ROW = 1, OCTET_NORM_HEAD = 2 };

typedef struct octet_rms_norm_rope_problem {
  uint32_t struct_size;
  octet_dtype dtype; /* of q and k: f32, f16 or bf16 */
  int64_t batch;
  int64_t seq;
  int64_t q_heads;
  int64_t k_heads;  /* 0: no k */
  int64_t head_dim; /* even */
  octet_norm_scope norm;
  octet_dtype weight_dtype; /* of g: f32, f16 or bf16 */
  float eps;                /* finite, >= 0 */
  int32_t one_plus_weight;  /* the weight is 1 + g */
  int32_t training;         /* rstd is written, for backward */
  octet_dtype dg_dtype;     /* f32, f16 or bf16 */
  octet_rotation rotation;
  octet_device device;
  uint64_t reserved[4];
} octet_rms_norm_rope_problem;

/* Weights are [heads * head_dim] with OCTET_NORM_ROW, [head_dim] with OCTET_NORM_HEAD.
 * rstd is f32: [batch * seq] with OCTET_NORM_ROW, [batch * seq * heads] with OCTET_NORM_HEAD.
 * Tensors of k are ignored if k_heads is 0. */
typedef struct octet_rms_norm_rope_forward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor q;      /* [batch, seq, q_heads, head_dim] */
  octet_tensor k;      /* [batch, seq, k_heads, head_dim] */
  octet_tensor g_q;    /* weights of q */
  octet_tensor g_k;    /* weights of k */
  octet_tensor q_out;  /* as q */
  octet_tensor k_out;  /* as k */
  octet_tensor rstd_q; /* written if training is 1 */
  octet_tensor rstd_k;
  octet_rotation_args rotation;
  uint64_t reserved[4];
} octet_rms_norm_rope_forward_args;

typedef struct octet_rms_norm_rope_backward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor dq_out; /* [batch, seq, q_heads, head_dim] */
  octet_tensor dk_out; /* [batch, seq, k_heads, head_dim] */
  octet_tensor q;      /* the input of forward */
  octet_tensor k;
  octet_tensor g_q;
  octet_tensor g_k;
  octet_tensor rstd_q;
  octet_tensor rstd_k;
  octet_tensor dq;   /* as q */
  octet_tensor dk;   /* as k */
  octet_tensor dg_q; /* as g_q, of dg_dtype */
  octet_tensor dg_k;
  octet_rotation_args rotation;
  uint64_t reserved[4];
} octet_rms_norm_rope_backward_args;

/* bf16 with bf16 weights, eps 1e-6, rows normed, dg in f32, for training, one sequence, on the CPU;
 * the caller sets seq, heads and head_dim. */
static inline void octet_init_rms_norm_rope_problem(octet_rms_norm_rope_problem* problem) {
  OCTET_INIT(problem);
  problem->dtype = OCTET_BF16;
  problem->batch = 1;
  problem->norm = OCTET_NORM_ROW;
  problem->weight_dtype = OCTET_BF16;
  problem->eps = 1e-6f;
  problem->training = 1;
  problem->dg_dtype = OCTET_F32;
  octet_init_rotation(&problem->rotation);
  problem->device = octet_cpu();
}

OCTET_API octet_status
octet_make_rms_norm_rope_forward_plan(const octet_rms_norm_rope_problem* problem,
                                      const octet_plan_options* options, octet_plan** plan);
OCTET_API octet_status
octet_make_rms_norm_rope_backward_plan(const octet_rms_norm_rope_problem* problem,
                                       const octet_plan_options* options, octet_plan** plan);
OCTET_API octet_status octet_run_rms_norm_rope_forward(const octet_plan* plan,
                                                       const octet_rms_norm_rope_forward_args* args,
                                                       void* workspace, size_t workspace_bytes,
                                                       void* stream);
OCTET_API octet_status octet_run_rms_norm_rope_backward(
    const octet_plan* plan, const octet_rms_norm_rope_backward_args* args, void* workspace,
    size_t workspace_bytes, void* stream);

#ifdef __cplusplus
}
#endif

#endif
