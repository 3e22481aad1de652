/* repack: a quantised tensor of any strides into another layout. */
#ifndef OCTET_C_REPACK_H
#define OCTET_C_REPACK_H

#include <octet/c/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct octet_repack_problem {
  uint32_t struct_size;
  octet_dtype format;
  int64_t rows;
  int64_t cols;
  octet_block block;
  octet_device device;
  uint64_t reserved[4];
} octet_repack_problem;

typedef struct octet_repack_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_quantized input; /* [rows, cols], any strides, any alignment */
  octet_quantized out;   /* [rows, cols] */
  uint64_t reserved[4];
} octet_repack_args;

/* e4m3 in 1x128 blocks on the CPU. */
static inline void octet_init_repack_problem(octet_repack_problem* problem) {
  OCTET_INIT(problem);
  problem->format = OCTET_E4M3;
  problem->block = octet_block_of(1, 128);
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_make_repack_plan(const octet_repack_problem* problem,
                                              const octet_plan_options* options, octet_plan** plan);
OCTET_API octet_status octet_run_repack(const octet_plan* plan, const octet_repack_args* args,
                                        void* workspace, size_t workspace_bytes, void* stream);

#ifdef __cplusplus
}
#endif

#endif
