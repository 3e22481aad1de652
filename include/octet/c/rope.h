/* rope: rotary position embedding of q and k in one launch. */
#ifndef OCTET_C_ROPE_H
#define OCTET_C_ROPE_H

#include <octet/c/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t octet_rope_style; /* pairs are (x[i], x[i + dim/2]), or (x[2i], x[2i + 1]) */
enum { OCTET_ROPE_ROTATE_HALF = 1, OCTET_ROPE_INTERLEAVED = 2 };

typedef struct octet_rotation {
  uint32_t struct_size;
  octet_rope_style style;
  int64_t rotary_dim;          /* even, at most head_dim; 0: head_dim */
  int64_t cache_rows;          /* of cos and sin; 0: seq */
  octet_dtype cache_dtype;     /* of cos and sin: f32, f16 or bf16 */
  octet_dtype positions_dtype; /* i32 or i64 if given; 0: positions are 0 ... seq - 1 */
  int32_t full_cache;          /* caches have rotary_dim columns instead of half as many */
  int32_t reserved0;
  uint64_t reserved[4];
} octet_rotation;

typedef struct octet_rotation_args {
  octet_tensor cos;       /* [cache_rows, rotary_dim / 2 or rotary_dim] */
  octet_tensor sin;       /* the same */
  octet_tensor positions; /* [batch, seq]; ignored if the problem has none */
  uint64_t reserved[4];
} octet_rotation_args;

typedef struct octet_rope_problem {
  uint32_t struct_size;
  octet_dtype dtype; /* of q and k: f32, f16 or bf16 */
  int64_t batch;
  int64_t seq;
  int64_t q_heads;
  int64_t k_heads;  /* 0: no k */
  int64_t head_dim; /* even */
  octet_rotation rotation;
  octet_device device;
  uint64_t reserved[4];
} octet_rope_problem;

/* Only the last stride is fixed, at 1: heads may lie anywhere in a larger tensor. Tensors of k are
 * ignored if k_heads is 0. */
typedef struct octet_rope_forward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor q;     /* [batch, seq, q_heads, head_dim] */
  octet_tensor k;     /* [batch, seq, k_heads, head_dim] */
  octet_tensor q_out; /* as q; may be q */
  octet_tensor k_out; /* as k; may be k */
  octet_rotation_args rotation;
  uint64_t reserved[4];
} octet_rope_forward_args;

typedef struct octet_rope_backward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor dq_out; /* [batch, seq, q_heads, head_dim] */
  octet_tensor dk_out; /* [batch, seq, k_heads, head_dim] */
  octet_tensor dq;     /* as dq_out; may be dq_out */
  octet_tensor dk;     /* as dk_out; may be dk_out */
  octet_rotation_args rotation;
  uint64_t reserved[4];
} octet_rope_backward_args;

/* rotate_half over the whole head, f32 caches, no positions. */
static inline void octet_init_rotation(octet_rotation* rotation) {
  OCTET_INIT(rotation);
  rotation->style = OCTET_ROPE_ROTATE_HALF;
  rotation->cache_dtype = OCTET_F32;
}

/* bf16, one sequence, on the CPU; the caller sets seq, heads and head_dim. */
static inline void octet_init_rope_problem(octet_rope_problem* problem) {
  OCTET_INIT(problem);
  problem->dtype = OCTET_BF16;
  problem->batch = 1;
  octet_init_rotation(&problem->rotation);
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_make_rope_forward_plan(const octet_rope_problem* problem,
                                                    const octet_plan_options* options,
                                                    octet_plan** plan);
OCTET_API octet_status octet_make_rope_backward_plan(const octet_rope_problem* problem,
                                                     const octet_plan_options* options,
                                                     octet_plan** plan);
OCTET_API octet_status octet_run_rope_forward(const octet_plan* plan,
                                              const octet_rope_forward_args* args, void* workspace,
                                              size_t workspace_bytes, void* stream);
OCTET_API octet_status octet_run_rope_backward(const octet_plan* plan,
                                               const octet_rope_backward_args* args,
                                               void* workspace, size_t workspace_bytes,
                                               void* stream);

#ifdef __cplusplus
}
#endif

#endif
