/* quantize: floats to block-scaled FP8, both orientations from one read. With a batch, all tensors
 * are [batch, ...]; with groups, rows are those of a group table and the transposed copy has token
 * blocks. octet/ops/quantize.hpp says what each writes. */
#ifndef OCTET_C_QUANTIZE_H
#define OCTET_C_QUANTIZE_H

#include <octet/c/group_table.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the scale of an mx block follows from its largest magnitude. */
typedef int32_t octet_mx_scale;
enum { OCTET_MX_FLOOR = 0, OCTET_MX_EVEN = 1, OCTET_MX_UP = 2 };

typedef struct octet_quantize_problem {
  uint32_t struct_size;
  octet_dtype input_dtype; /* f32, f16 or bf16 */
  int64_t rows;
  int64_t cols;
  octet_dtype format;           /* e4m3 or e5m2 */
  int32_t pow2_scales;          /* scales are rounded up to powers of two */
  octet_block block;            /* in the input's orientation; octet_no_copy(): none */
  octet_block transposed_block; /* of the copy [cols, rows], in its coordinates */
  float amax_floor;             /* 0 to 1e18 */
  octet_group_tail tail;        /* with groups */
  octet_device device;
  int64_t batch;       /* 0: no batch */
  int64_t groups;      /* 1 to OCTET_MAX_GROUPS; 0: no groups */
  int64_t source_rows; /* with groups, rows of an input that is gathered; 0: it is not */
  uint64_t reserved[1];
  int64_t source_top_k;    /* slots of each row of that input; 0: source has its rows */
  int32_t given_scales;    /* scales of the copies are read, not written: positive and normal */
  int32_t fold_mx;         /* 1x128 and 128x128 copies hold the values of 1x32 and 32x32 blocks */
  octet_mx_scale mx_scale; /* of 1x32 and 32x32 blocks, and with fold_mx */
  uint32_t reserved0;
} octet_quantize_problem;

typedef struct octet_quantize_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor input;         /* [rows, cols]; gathered: [source_rows, cols] */
  octet_quantized out;        /* [rows, cols]; ignored without a block */
  octet_quantized transposed; /* [cols, rows]; ignored without a transposed_block. With groups:
                                 [octet_max_token_blocks(), cols, 128] */
  uint64_t reserved[4];
  octet_tensor table;  /* of the groups; ignored without groups */
  octet_tensor source; /* [rows], i32: the input row of each row, or with source_top_k its slot;
                          ignored without source_rows */
} octet_quantize_args;

/* bf16 to e4m3 in 1x128 blocks, not transposed, on the CPU; the caller sets rows and cols. */
static inline void octet_init_quantize_problem(octet_quantize_problem* problem) {
  OCTET_INIT(problem);
  problem->input_dtype = OCTET_BF16;
  problem->format = OCTET_E4M3;
  problem->block = octet_block_of(1, 128);
  problem->transposed_block = octet_no_copy();
  problem->tail = OCTET_TAIL_ZERO;
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_make_quantize_plan(const octet_quantize_problem* problem,
                                                const octet_plan_options* options,
                                                octet_plan** plan);
OCTET_API octet_status octet_run_quantize(const octet_plan* plan, const octet_quantize_args* args,
                                          void* workspace, size_t workspace_bytes, void* stream);

#ifdef __cplusplus
}
#endif

#endif
