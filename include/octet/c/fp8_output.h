/* FP8 copies that an operator writes in place of its 16- or 32-bit output, bit-identical to the
 * operator followed by quantize. */
#ifndef OCTET_C_FP8_OUTPUT_H
#define OCTET_C_FP8_OUTPUT_H

#include <octet/c/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The options of quantize. */
typedef struct octet_fp8_output {
  uint32_t struct_size;
  int32_t enabled;              /* 0: the output is plain, and the other fields are ignored */
  octet_dtype format;           /* e4m3 or e5m2 */
  int32_t pow2_scales;          /* scales are rounded up to powers of two */
  octet_block block;            /* in the output's orientation; octet_no_copy(): none */
  octet_block transposed_block; /* octet_no_copy(): no transposed copy */
  float amax_floor;             /* 0 to 1e18 */
  int32_t reserved0;
  uint64_t reserved[4];
} octet_fp8_output;

typedef struct octet_fp8_copies {
  octet_quantized out;        /* [rows, cols]; ignored without a block */
  octet_quantized transposed; /* [cols, rows]; ignored without a transposed_block */
  uint64_t reserved[4];
} octet_fp8_copies;

/* Disabled; the other defaults are e4m3 and 1x128 blocks in both orientations. */
static inline void octet_init_fp8_output(octet_fp8_output* output) {
  OCTET_INIT(output);
  output->format = OCTET_E4M3;
  output->block = octet_block_of(1, 128);
  output->transposed_block = octet_block_of(1, 128);
}

#ifdef __cplusplus
}
#endif

#endif
