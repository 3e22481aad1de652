/* gemm: d[M, N] = a[M, K] b[N, K]^T, or that + bias[N], or d += that. */
#ifndef OCTET_C_GEMM_H
#define OCTET_C_GEMM_H

#include <octet/c/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t octet_major; /* which dimension of a gemm operand is contiguous */
enum { OCTET_MAJOR_K = 0, OCTET_MAJOR_MN = 1 };

typedef int32_t octet_group_kind;
enum { OCTET_GROUPS_NONE = 0 };

typedef struct octet_gemm_operand {
  uint32_t struct_size;
  octet_dtype dtype;
  octet_block block; /* 16- and 32-bit operands are unscaled, FP8 operands are not */
  octet_major major;
  octet_dtype scale_dtype; /* of scaled operands: f32; mx blocks have ue8m0 whatever is said here */
  uint64_t reserved[4];
} octet_gemm_operand;

typedef struct octet_gemm_problem {
  uint32_t struct_size;
  octet_dtype out_dtype; /* f32, f16 or bf16 */
  int64_t m;
  int64_t n;
  int64_t k;
  octet_gemm_operand a;
  octet_gemm_operand b;
  octet_device device;
  int32_t accumulate;     /* d += a b^T; f32 and bf16 only */
  octet_dtype bias_dtype; /* of a bias [N]: f32 or out_dtype; 0: no bias. Not with accumulate */
  /* Reserved for later versions: refused unless zero. */
  octet_activation activation;
  octet_group_kind group_kind;
  int64_t group_count;
  int32_t determinism; /* 0: same inputs, same bits, every run */
  int32_t split_k;     /* 0: the contraction is not split */
  /* On CUDA, the most multiprocessors that a launch may take; 0: all. cublaslt ignores it. */
  int32_t max_multiprocessors;
  /* On CUDA, FP8 products stay in the tensor cores' 14 bits; 1xall and allxall blocks only. */
  int32_t fast_accumulation;
  uint64_t reserved[7];
} octet_gemm_problem;

typedef struct octet_gemm_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_quantized a; /* [M, K] */
  octet_quantized b; /* [N, K] */
  octet_tensor d;    /* [M, N] */
  octet_tensor bias; /* [N]; given exactly if the problem has a bias_dtype */
  /* Reserved for later versions: refused unless null. */
  const void* group_offsets; /* on the device of the problem */
  uint64_t reserved[4];
} octet_gemm_args;

/* e4m3 with 1x128 blocks and f32 scales. */
static inline void octet_init_gemm_operand(octet_gemm_operand* operand) {
  OCTET_INIT(operand);
  operand->dtype = OCTET_E4M3;
  operand->block = octet_block_of(1, 128);
  operand->scale_dtype = OCTET_F32;
}

/* e4m3 operands, 1x128 and 128x128 blocks, bf16 result, on the CPU. */
static inline void octet_init_gemm_problem(octet_gemm_problem* problem) {
  OCTET_INIT(problem);
  problem->out_dtype = OCTET_BF16;
  octet_init_gemm_operand(&problem->a);
  octet_init_gemm_operand(&problem->b);
  problem->b.block = octet_block_of(128, 128);
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_make_gemm_plan(const octet_gemm_problem* problem,
                                            const octet_plan_options* options, octet_plan** plan);
OCTET_API octet_status octet_run_gemm(const octet_plan* plan, const octet_gemm_args* args,
                                      void* workspace, size_t workspace_bytes, void* stream);

#ifdef __cplusplus
}
#endif

#endif
