/* dequantize: out = value * scale. */
#ifndef OCTET_C_DEQUANTIZE_H
#define OCTET_C_DEQUANTIZE_H

#include <octet/c/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct octet_dequantize_problem {
  uint32_t struct_size;
  octet_dtype out_dtype; /* f32, f16 or bf16 */
  int64_t rows;
  int64_t cols;
  octet_block block;
  octet_dtype format;
  int32_t reserved0;
  octet_device device;
  uint64_t reserved[4];
} octet_dequantize_problem;

typedef struct octet_dequantize_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_quantized input; /* [rows, cols] */
  octet_tensor out;      /* [rows, cols] */
  uint64_t reserved[4];
} octet_dequantize_args;

/* e4m3 in 1x128 blocks to f32 on the CPU. */
static inline void octet_init_dequantize_problem(octet_dequantize_problem* problem) {
  OCTET_INIT(problem);
  problem->out_dtype = OCTET_F32;
  problem->format = OCTET_E4M3;
  problem->block = octet_block_of(1, 128);
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_make_dequantize_plan(const octet_dequantize_problem* problem,
                                                  const octet_plan_options* options,
                                                  octet_plan** plan);
OCTET_API octet_status octet_run_dequantize(const octet_plan* plan,
                                            const octet_dequantize_args* args, void* workspace,
                                            size_t workspace_bytes, void* stream);

#ifdef __cplusplus
}
#endif

#endif
