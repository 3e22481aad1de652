/* moe_mlp: the feed-forward half of a layer of experts, from routing to output, in block-scaled FP8.
 * The formulas are in octet/ops/moe_mlp.hpp. */
#ifndef OCTET_C_MOE_MLP_H
#define OCTET_C_MOE_MLP_H

#include <octet/c/fp8_grouped_linear.h>
#include <octet/c/gated_activation.h>
#include <octet/c/moe.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct octet_moe_mlp_problem {
  uint32_t struct_size;
  octet_dtype dtype; /* of x, weights, gate_up, y, dy and dx: bf16, f16 or f32 */
  int64_t tokens;    /* at least 1; tokens * top_k is at most 2^30 */
  int64_t f;         /* features between the products */
  int64_t k;         /* features of x and y */
  int64_t experts;
  int64_t top_k;
  int64_t first_expert;     /* of those that are here */
  int64_t local_experts;    /* 0: all experts are here */
  int64_t rows;             /* of the buffers, 1 to 2^30; 0: tokens * top_k, always enough */
  int64_t capacity;         /* rows of an expert at most, the others are dropped; 0: any number */
  int32_t routing;          /* 0: indices and weights are given; what follows is then ignored */
  octet_dtype logits_dtype; /* f32, f16 or bf16 */
  octet_route_score score;
  int32_t bias;
  int64_t expert_groups;
  int64_t top_groups;
  octet_expert_group_score group_score;
  int32_t normalize;
  float scale;
  octet_gate_activation activation; /* not a part of the routing */
  octet_dtype format;               /* of x, h and weights */
  octet_dtype grad_format;          /* of dy and d_gate_up */
  int32_t weights_quantized;        /* weights are given as octet_moe_mlp_weights */
  int32_t training;                 /* 0: forward only, nothing is saved */
  int32_t need_dx;
  int32_t need_dw;
  octet_dtype dw_dtype;
  int32_t accumulate_dw; /* dw += into f32 or bf16 main gradients */
  octet_wgrad_blocks wgrad_blocks;
  float amax_floor;
  int32_t pow2_scales;
  int32_t max_multiprocessors; /* of the products, as in octet_grouped_gemm_problem */
  int64_t expected_rows;       /* as in octet_grouped_gemm_problem */
  octet_device device;
  uint64_t reserved[8];
} octet_moe_mlp_problem;

typedef struct octet_moe_mlp_weights {
  octet_fp8_linear_weights gate_up; /* [experts here, 2F, K], [experts here, K, 2F] */
  octet_fp8_linear_weights down;    /* [experts here, K, F], [experts here, F, K] */
  uint64_t reserved[4];
} octet_moe_mlp_weights;

/* What forward saves for backward, and what it says about the routing. With weights_quantized,
 * backward takes the caller's own transposes as w_gate_up_t and w_down_t. */
typedef struct octet_moe_mlp_saved {
  octet_tensor scores;         /* [tokens, experts], f32; with routing */
  octet_tensor indices;        /* [tokens, top_k], i32; with routing */
  octet_tensor row_of;         /* [tokens, top_k], i32 */
  octet_tensor source;         /* [rows], i32 */
  octet_tensor sizes;          /* [experts here], i32: the rows of each */
  octet_tensor table;          /* [octet_group_table_words()], i32 */
  octet_tensor status;         /* for octet_check_moe_maps() */
  octet_tensor row_weight;     /* [rows], f32 */
  octet_tensor gate_up;        /* [rows, 2F] of dtype */
  octet_quantized x_t;         /* token blocks of K features */
  octet_quantized w_gate_up_t; /* [experts here, K, 2F] 128x128 */
  octet_quantized h_t;         /* token blocks of F features */
  octet_quantized w_down_t;    /* [experts here, F, K] 128x128 */
  uint64_t reserved[4];
} octet_moe_mlp_saved;

typedef struct octet_moe_mlp_forward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor x;                /* [tokens, K] */
  octet_tensor logits;           /* [tokens, experts]; ignored without routing */
  octet_tensor bias;             /* [experts], f32; ignored without a bias */
  octet_tensor indices;          /* [tokens, top_k], i32, contiguous; ignored with routing */
  octet_tensor weights;          /* [tokens, top_k], f32, contiguous; ignored with routing */
  octet_tensor w_gate_up;        /* [experts here, 2F, K]; ignored with weights_quantized */
  octet_tensor w_down;           /* [experts here, K, F]; ignored with weights_quantized */
  octet_moe_mlp_weights experts; /* ignored without weights_quantized */
  octet_tensor y;                /* [tokens, K] */
  octet_moe_mlp_saved saved;     /* written; ignored if training is 0 */
  uint64_t reserved[4];
} octet_moe_mlp_forward_args;

typedef struct octet_moe_mlp_backward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor dy;           /* [tokens, K] */
  octet_tensor dscores;      /* [tokens, experts], f32: of auxiliary losses; or absent */
  octet_moe_mlp_saved saved; /* read */
  octet_tensor dx;           /* [tokens, K]; ignored if need_dx is 0 */
  octet_tensor dlogits;      /* [tokens, experts]; ignored without routing */
  octet_tensor dweights;     /* [tokens, top_k], f32, contiguous; ignored with routing */
  octet_tensor dw_gate_up;   /* [experts here, 2F, K]; ignored if need_dw is 0 */
  octet_tensor dw_down;      /* [experts here, K, F]; ignored if need_dw is 0 */
  uint64_t reserved[4];
} octet_moe_mlp_backward_args;

/* silu, bf16 in and out, e4m3 inside, softmax of f32 logits, weights normalised, both gradients, on
 * the CPU; the caller sets tokens, f, k, experts and top_k. */
static inline void octet_init_moe_mlp_problem(octet_moe_mlp_problem* problem) {
  OCTET_INIT(problem);
  problem->dtype = OCTET_BF16;
  problem->routing = 1;
  problem->logits_dtype = OCTET_F32;
  problem->score = OCTET_ROUTE_SOFTMAX;
  problem->expert_groups = 1;
  problem->top_groups = 1;
  problem->group_score = OCTET_EXPERT_GROUP_BEST_TWO;
  problem->normalize = 1;
  problem->scale = 1;
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

/* The bytes of one piece of memory for all that forward saves, and its views over such a piece,
 * aligned to OCTET_ALIGNMENT. */
OCTET_API octet_status octet_moe_mlp_saved_bytes(const octet_moe_mlp_problem* problem,
                                                 uint64_t* bytes);
OCTET_API octet_status octet_view_moe_mlp_saved(const octet_moe_mlp_problem* problem, void* memory,
                                                octet_moe_mlp_saved* saved);
/* gemm_backend of the options is that of grouped_gemm. */
OCTET_API octet_status octet_make_moe_mlp_forward_plan(const octet_moe_mlp_problem* problem,
                                                       const octet_fp8_linear_options* options,
                                                       octet_plan** plan);
OCTET_API octet_status octet_make_moe_mlp_backward_plan(const octet_moe_mlp_problem* problem,
                                                        const octet_fp8_linear_options* options,
                                                        octet_plan** plan);
OCTET_API octet_status octet_run_moe_mlp_forward(const octet_plan* plan,
                                                 const octet_moe_mlp_forward_args* args,
                                                 void* workspace, size_t workspace_bytes,
                                                 void* stream);
OCTET_API octet_status octet_run_moe_mlp_backward(const octet_plan* plan,
                                                  const octet_moe_mlp_backward_args* args,
                                                  void* workspace, size_t workspace_bytes,
                                                  void* stream);

#ifdef __cplusplus
}
#endif

#endif
