/* gated_activation: y = act(gate) * up, optionally times a weight per row. With groups, rows are
 * those of a group table and transposed FP8 copies have token blocks, as in octet/c/quantize.h. */
#ifndef OCTET_C_GATED_ACTIVATION_H
#define OCTET_C_GATED_ACTIVATION_H

#include <octet/c/fp8_output.h>
#include <octet/c/group_table.h>
#include <octet/c/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t octet_gate_activation;
enum {
  OCTET_GATE_SILU = 1,
  OCTET_GATE_GELU_TANH = 2,
  OCTET_GATE_GELU_ERF = 3,
  OCTET_GATE_RELU_SQUARED = 4
};

typedef struct octet_gated_activation_problem {
  uint32_t struct_size;
  octet_dtype dtype; /* of gate, up, y and their gradients: f32, f16 or bf16 */
  int64_t rows;
  int64_t cols; /* of each of gate, up and y */
  octet_gate_activation activation;
  int32_t row_weight;   /* y is multiplied by a weight per row */
  octet_fp8_output fp8; /* of y; in backward of dgate | dup */
  octet_device device;
  int64_t groups;        /* 1 to OCTET_MAX_GROUPS; 0: no groups */
  octet_group_tail tail; /* with groups */
  uint32_t reserved0;
  uint64_t reserved[2];
} octet_gated_activation_problem;

typedef struct octet_gated_activation_forward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor gate;       /* [rows, cols] */
  octet_tensor up;         /* [rows, cols] */
  octet_tensor row_weight; /* [rows], f32; ignored without row_weight */
  octet_tensor y;          /* [rows, cols]; ignored with fp8 */
  octet_fp8_copies fp8;    /* of [rows, cols]; ignored without fp8 */
  uint64_t reserved[4];
  octet_tensor table; /* of the groups; ignored without groups */
} octet_gated_activation_forward_args;

typedef struct octet_gated_activation_backward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor dy;           /* [rows, cols] */
  octet_tensor gate;         /* [rows, cols] */
  octet_tensor up;           /* [rows, cols] */
  octet_tensor row_weight;   /* [rows], f32; ignored without row_weight */
  octet_tensor dgate;        /* [rows, cols]; ignored with fp8 */
  octet_tensor dup;          /* [rows, cols]; ignored with fp8 */
  octet_fp8_copies fp8;      /* of [rows, 2 cols], dgate | dup; ignored without fp8 */
  octet_tensor d_row_weight; /* [rows], f32; written with row_weight */
  uint64_t reserved[4];
  octet_tensor table; /* of the groups; ignored without groups */
} octet_gated_activation_backward_args;

/* silu in bf16 on the CPU; the caller sets rows and cols. */
static inline void octet_init_gated_activation_problem(octet_gated_activation_problem* problem) {
  OCTET_INIT(problem);
  problem->dtype = OCTET_BF16;
  problem->activation = OCTET_GATE_SILU;
  octet_init_fp8_output(&problem->fp8);
  problem->tail = OCTET_TAIL_ZERO;
  problem->device = octet_cpu();
}

OCTET_API octet_status
octet_make_gated_activation_forward_plan(const octet_gated_activation_problem* problem,
                                         const octet_plan_options* options, octet_plan** plan);
OCTET_API octet_status
octet_make_gated_activation_backward_plan(const octet_gated_activation_problem* problem,
                                          const octet_plan_options* options, octet_plan** plan);
OCTET_API octet_status octet_run_gated_activation_forward(
    const octet_plan* plan, const octet_gated_activation_forward_args* args, void* workspace,
    size_t workspace_bytes, void* stream);
OCTET_API octet_status octet_run_gated_activation_backward(
    const octet_plan* plan, const octet_gated_activation_backward_args* args, void* workspace,
    size_t workspace_bytes, void* stream);

#ifdef __cplusplus
}
#endif

#endif
