/* attention: softmax(scale * q k^T, masked) v for every head, and its gradients. The formulas are in
 * octet/ops/attention.hpp. */
#ifndef OCTET_C_ATTENTION_H
#define OCTET_C_ATTENTION_H

#include <octet/c/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which query and key are at the same place: the last ones, or the first ones. */
typedef int32_t octet_mask_alignment;
enum { OCTET_MASK_BOTTOM_RIGHT = 1, OCTET_MASK_TOP_LEFT = 2 };

#define OCTET_NO_WINDOW (-1)

typedef struct octet_attention_problem {
  uint32_t struct_size;
  octet_dtype dtype; /* of q, k, v and their gradients: f32, f16 or bf16 */
  int64_t batch;     /* sequences */
  int64_t seq_q;     /* queries of a sequence; with offsets, at most */
  int64_t seq_kv;    /* keys of a sequence; with offsets, at most */
  int64_t heads_q;   /* a multiple of heads_kv */
  int64_t heads_kv;
  int64_t dim_qk; /* of a head of q and k */
  int64_t dim_v;  /* of a head of v and out; 0: dim_qk */
  int64_t left;   /* keys before a query's place, or OCTET_NO_WINDOW */
  int64_t right;  /* keys behind it, or OCTET_NO_WINDOW; 0: causal */
  octet_mask_alignment align;
  octet_dtype out_dtype;     /* of out and dout: that of q, or f32; 0: that of q */
  float scale;               /* finite; 0: 1 / sqrt(dim_qk) */
  int32_t sink;              /* every query head has one more logit, whose value is 0 */
  octet_dtype offsets_dtype; /* i32 or i64: sequences of different lengths; 0: all have seq rows */
  int32_t reserved0;
  int64_t total_q;          /* rows of q with offsets, else 0 */
  int64_t total_kv;         /* rows of k with offsets, else 0 */
  uint64_t workspace_limit; /* the most that backward may ask for, in bytes */
  octet_device device;
  uint64_t reserved[4];
} octet_attention_problem;

/* [batch, seq, heads, dim], or [total, heads, dim] with offsets. Only the last stride is fixed, at 1. */
typedef struct octet_attention_inputs {
  octet_tensor q;          /* [batch, seq_q, heads_q, dim_qk] */
  octet_tensor k;          /* [batch, seq_kv, heads_kv, dim_qk] */
  octet_tensor v;          /* [batch, seq_kv, heads_kv, dim_v] */
  octet_tensor sink;       /* [heads_q], f32; ignored without sink */
  octet_tensor offsets_q;  /* [batch + 1], ascending, from 0; ignored without offsets */
  octet_tensor offsets_kv; /* the same */
  uint64_t reserved[4];
} octet_attention_inputs;

typedef struct octet_attention_forward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_attention_inputs inputs;
  octet_tensor out; /* [batch, seq_q, heads_q, dim_v], or [total_q, heads_q, dim_v] */
  octet_tensor lse; /* [batch, heads_q, seq_q], or [heads_q, total_q], f32; or absent */
  uint64_t reserved[4];
} octet_attention_forward_args;

typedef struct octet_attention_backward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_attention_inputs inputs;
  octet_tensor out;   /* as forward wrote it, or merged */
  octet_tensor lse;   /* the same */
  octet_tensor dout;  /* as out */
  octet_tensor dlse;  /* as lse; or absent */
  octet_tensor dq;    /* as q */
  octet_tensor dk;    /* as k */
  octet_tensor dv;    /* as v */
  octet_tensor dsink; /* [heads_q], f32; ignored without sink */
  uint64_t reserved[4];
} octet_attention_backward_args;

/* bf16, one sequence, no mask, on the CPU; the caller sets seq, heads and dims. */
static inline void octet_init_attention_problem(octet_attention_problem* problem) {
  OCTET_INIT(problem);
  problem->dtype = OCTET_BF16;
  problem->batch = 1;
  problem->left = OCTET_NO_WINDOW;
  problem->right = OCTET_NO_WINDOW;
  problem->align = OCTET_MASK_BOTTOM_RIGHT;
  problem->workspace_limit = (uint64_t)1 << 30;
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_make_attention_forward_plan(const octet_attention_problem* problem,
                                                         const octet_plan_options* options,
                                                         octet_plan** plan);
OCTET_API octet_status octet_make_attention_backward_plan(const octet_attention_problem* problem,
                                                          const octet_plan_options* options,
                                                          octet_plan** plan);
OCTET_API octet_status octet_run_attention_forward(const octet_plan* plan,
                                                   const octet_attention_forward_args* args,
                                                   void* workspace, size_t workspace_bytes,
                                                   void* stream);
OCTET_API octet_status octet_run_attention_backward(const octet_plan* plan,
                                                    const octet_attention_backward_args* args,
                                                    void* workspace, size_t workspace_bytes,
                                                    void* stream);

#ifdef __cplusplus
}
#endif

#endif
