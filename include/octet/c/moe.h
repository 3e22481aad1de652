/* The glue of a mixture of experts: moe_route chooses the experts of every token, moe_maps gives
 * every choice a row, moe_permute and moe_unpermute carry tokens there and back. The formulas are
 * in octet/ops/moe_route.hpp, moe_maps.hpp, moe_permute.hpp and moe_unpermute.hpp. */
#ifndef OCTET_C_MOE_H
#define OCTET_C_MOE_H

#include <octet/c/group_table.h>
#include <octet/c/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OCTET_MAX_EXPERTS 1024
#define OCTET_MAX_TOP_K 64
#define OCTET_MOE_MAPS_STATUS_WORDS 16

typedef int32_t octet_route_score;
enum { OCTET_ROUTE_SOFTMAX = 1, OCTET_ROUTE_SIGMOID = 2 };

/* The score of a group of experts. */
typedef int32_t octet_expert_group_score;
enum {
  OCTET_EXPERT_GROUP_BEST = 1,    /* its best biased score */
  OCTET_EXPERT_GROUP_BEST_TWO = 2 /* the sum of its best two */
};

typedef struct octet_moe_route_problem {
  uint32_t struct_size;
  octet_dtype dtype; /* of logits and dlogits: f32, f16 or bf16 */
  int64_t tokens;
  int64_t experts; /* 1 to OCTET_MAX_EXPERTS */
  int64_t top_k;   /* 1 to OCTET_MAX_TOP_K, at most the experts of top_groups groups */
  octet_route_score score;
  int32_t bias;          /* a bias per expert, for the choice only */
  int64_t expert_groups; /* divides experts; 1: no groups */
  int64_t top_groups;    /* 1 to expert_groups */
  octet_expert_group_score group_score;
  int32_t normalize; /* the weights of a token are divided by their sum */
  float scale;       /* of the weights; finite, >= 0 */
  int32_t reserved0;
  octet_device device;
  uint64_t reserved[4];
} octet_moe_route_problem;

typedef struct octet_moe_route_forward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor logits;  /* [tokens, experts] */
  octet_tensor bias;    /* [experts], f32; ignored without bias */
  octet_tensor indices; /* [tokens, top_k], i32 */
  octet_tensor weights; /* [tokens, top_k], f32 */
  octet_tensor scores;  /* [tokens, experts], f32: for backward and auxiliary losses; or absent */
  uint64_t reserved[4];
} octet_moe_route_forward_args;

typedef struct octet_moe_route_backward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor scores;   /* [tokens, experts], f32, as forward wrote them */
  octet_tensor indices;  /* [tokens, top_k], i32, as forward wrote them */
  octet_tensor dweights; /* [tokens, top_k], f32 */
  octet_tensor dscores; /* [tokens, experts], f32: the gradient that arrives at scores; or absent */
  octet_tensor dlogits; /* [tokens, experts] */
  uint64_t reserved[4];
} octet_moe_route_backward_args;

/* softmax of bf16 logits, no bias, no groups, weights normalised, scale 1, on the CPU; the caller
 * sets tokens, experts and top_k. */
static inline void octet_init_moe_route_problem(octet_moe_route_problem* problem) {
  OCTET_INIT(problem);
  problem->dtype = OCTET_BF16;
  problem->score = OCTET_ROUTE_SOFTMAX;
  problem->expert_groups = 1;
  problem->top_groups = 1;
  problem->group_score = OCTET_EXPERT_GROUP_BEST_TWO;
  problem->normalize = 1;
  problem->scale = 1;
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_make_moe_route_forward_plan(const octet_moe_route_problem* problem,
                                                         const octet_plan_options* options,
                                                         octet_plan** plan);
OCTET_API octet_status octet_run_moe_route_forward(const octet_plan* plan,
                                                   const octet_moe_route_forward_args* args,
                                                   void* workspace, size_t workspace_bytes,
                                                   void* stream);
OCTET_API octet_status octet_make_moe_route_backward_plan(const octet_moe_route_problem* problem,
                                                          const octet_plan_options* options,
                                                          octet_plan** plan);
OCTET_API octet_status octet_run_moe_route_backward(const octet_plan* plan,
                                                    const octet_moe_route_backward_args* args,
                                                    void* workspace, size_t workspace_bytes,
                                                    void* stream);

typedef struct octet_moe_maps_problem {
  uint32_t struct_size;
  octet_dtype indices_dtype; /* i32 or i64 */
  int64_t tokens;            /* tokens * top_k is at most 2^30 */
  int64_t top_k;
  int64_t experts;      /* of the whole mixture */
  int64_t first_expert; /* of those here */
  int64_t groups;       /* the experts here: 1 to OCTET_MAX_GROUPS */
  int64_t rows;         /* of the buffers: 1 to 2^30; tokens * top_k is always enough */
  int64_t capacity;     /* rows of an expert at most; 0: any number */
  octet_device device;
  uint64_t reserved[4];
} octet_moe_maps_problem;

typedef struct octet_moe_maps_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor indices; /* [tokens, top_k]: an expert, or -1 */
  octet_tensor row_of;  /* [tokens, top_k], i32: the row of the slot, or -1 */
  octet_tensor source;  /* [rows], i32: the slot of the row, or -1 */
  octet_tensor sizes;   /* [groups], i32 */
  octet_tensor table;   /* [octet_group_table_words()], i32, 16-byte aligned */
  octet_tensor status;  /* [OCTET_MOE_MAPS_STATUS_WORDS], i32, 16-byte aligned */
  uint64_t reserved[4];
} octet_moe_maps_args;

typedef struct octet_moe_maps_report {
  int64_t dropped;     /* slots beyond the capacity of their expert */
  int64_t cut;         /* slots beyond the rows of the buffers */
  int64_t bad_indices; /* that are no expert and not -1 */
} octet_moe_maps_report;

/* Indices in i32 on the CPU; the caller sets tokens, top_k, experts, groups and rows. */
static inline void octet_init_moe_maps_problem(octet_moe_maps_problem* problem) {
  OCTET_INIT(problem);
  problem->indices_dtype = OCTET_I32;
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_make_moe_maps_plan(const octet_moe_maps_problem* problem,
                                                const octet_plan_options* options,
                                                octet_plan** plan);
OCTET_API octet_status octet_run_moe_maps(const octet_plan* plan, const octet_moe_maps_args* args,
                                          void* workspace, size_t workspace_bytes, void* stream);
/* Both wait for the stream and read the status. Check is an error for a bad index and for slots
 * that found no room. */
OCTET_API octet_status octet_read_moe_maps(const octet_tensor* status, void* stream,
                                           octet_moe_maps_report* report);
OCTET_API octet_status octet_check_moe_maps(const octet_tensor* status, void* stream);

typedef struct octet_moe_permute_problem {
  uint32_t struct_size;
  octet_dtype dtype; /* of x, grouped, dx, dgrouped: f32, f16 or bf16 */
  int64_t tokens;    /* tokens * top_k is at most 2^30 */
  int64_t top_k;
  int64_t rows; /* of the buffers: 1 to 2^30 */
  int64_t cols;
  int32_t weights;       /* row_weight is written */
  octet_group_tail tail; /* of grouped and row_weight */
  octet_device device;
  uint64_t reserved[4];
} octet_moe_permute_problem;

typedef struct octet_moe_permute_forward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor x;          /* [tokens, cols] */
  octet_tensor weights;    /* [tokens, top_k], f32; ignored without weights */
  octet_tensor row_of;     /* [tokens, top_k], i32 */
  octet_tensor source;     /* [rows], i32 */
  octet_tensor grouped;    /* [rows, cols] */
  octet_tensor row_weight; /* [rows], f32; ignored without weights */
  uint64_t reserved[4];
} octet_moe_permute_forward_args;

typedef struct octet_moe_permute_backward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor dgrouped;     /* [rows, cols] */
  octet_tensor d_row_weight; /* [rows], f32; ignored without weights */
  octet_tensor row_of;       /* [tokens, top_k], i32 */
  octet_tensor dx;           /* [tokens, cols] */
  octet_tensor dweights;     /* [tokens, top_k], f32; ignored without weights */
  uint64_t reserved[4];
} octet_moe_permute_backward_args;

/* bf16 without weights, tail rows zero, on the CPU; the caller sets the extents. */
static inline void octet_init_moe_permute_problem(octet_moe_permute_problem* problem) {
  OCTET_INIT(problem);
  problem->dtype = OCTET_BF16;
  problem->tail = OCTET_TAIL_ZERO;
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_make_moe_permute_forward_plan(const octet_moe_permute_problem* problem,
                                                           const octet_plan_options* options,
                                                           octet_plan** plan);
OCTET_API octet_status octet_run_moe_permute_forward(const octet_plan* plan,
                                                     const octet_moe_permute_forward_args* args,
                                                     void* workspace, size_t workspace_bytes,
                                                     void* stream);
OCTET_API octet_status octet_make_moe_permute_backward_plan(
    const octet_moe_permute_problem* problem, const octet_plan_options* options, octet_plan** plan);
OCTET_API octet_status octet_run_moe_permute_backward(const octet_plan* plan,
                                                      const octet_moe_permute_backward_args* args,
                                                      void* workspace, size_t workspace_bytes,
                                                      void* stream);

typedef struct octet_moe_unpermute_problem {
  uint32_t struct_size;
  octet_dtype dtype; /* of grouped, out, dout, dgrouped: f32, f16 or bf16 */
  int64_t tokens;    /* tokens * top_k is at most 2^30 */
  int64_t top_k;
  int64_t rows; /* of the buffers: 1 to 2^30 */
  int64_t cols;
  int32_t weights;       /* the rows of a token are weighted */
  octet_group_tail tail; /* of dgrouped */
  octet_device device;
  uint64_t reserved[4];
} octet_moe_unpermute_problem;

typedef struct octet_moe_unpermute_forward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor grouped; /* [rows, cols] */
  octet_tensor weights; /* [tokens, top_k], f32; ignored without weights */
  octet_tensor row_of;  /* [tokens, top_k], i32 */
  octet_tensor out;     /* [tokens, cols] */
  uint64_t reserved[4];
} octet_moe_unpermute_forward_args;

typedef struct octet_moe_unpermute_backward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor dout;     /* [tokens, cols] */
  octet_tensor grouped;  /* [rows, cols], as forward read it; ignored without weights */
  octet_tensor weights;  /* [tokens, top_k], f32; ignored without weights */
  octet_tensor row_of;   /* [tokens, top_k], i32 */
  octet_tensor source;   /* [rows], i32 */
  octet_tensor dgrouped; /* [rows, cols] */
  octet_tensor dweights; /* [tokens, top_k], f32; ignored without weights */
  uint64_t reserved[4];
} octet_moe_unpermute_backward_args;

/* bf16 without weights, tail rows zero, on the CPU; the caller sets the extents. */
static inline void octet_init_moe_unpermute_problem(octet_moe_unpermute_problem* problem) {
  OCTET_INIT(problem);
  problem->dtype = OCTET_BF16;
  problem->tail = OCTET_TAIL_ZERO;
  problem->device = octet_cpu();
}

OCTET_API octet_status
octet_make_moe_unpermute_forward_plan(const octet_moe_unpermute_problem* problem,
                                      const octet_plan_options* options, octet_plan** plan);
OCTET_API octet_status octet_run_moe_unpermute_forward(const octet_plan* plan,
                                                       const octet_moe_unpermute_forward_args* args,
                                                       void* workspace, size_t workspace_bytes,
                                                       void* stream);
OCTET_API octet_status
octet_make_moe_unpermute_backward_plan(const octet_moe_unpermute_problem* problem,
                                       const octet_plan_options* options, octet_plan** plan);
OCTET_API octet_status octet_run_moe_unpermute_backward(
    const octet_plan* plan, const octet_moe_unpermute_backward_args* args, void* workspace,
    size_t workspace_bytes, void* stream);

#ifdef __cplusplus
}
#endif

#endif
