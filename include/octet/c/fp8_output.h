/* FP8 copies that an operator writes in place of its 16- or 32-bit output, bit-identical to the
 * operator followed by quantize. */
#ifndef OCTET_C_FP8_OUTPUT_H
#define OCTET_C_FP8_OUTPUT_H

#include <octet/c/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The options of quantize. */
typedef struct octet_fp8_output {
  int32_t enabled;              /* 0: the output is plain, and the other fields are ignored */
  octet_dtype format;           /* e4m3 or e5m2 */
  octet_block block;            /* {0, 0}: no copy in the output's orientation */
  octet_block transposed_block; /* {0, 0}: no transposed copy */
  float amax_floor;             /* 0 to 1e18 */
  int32_t pow2_scales;
} octet_fp8_output;

typedef struct octet_fp8_copies {
  octet_quantized out;        /* [rows, cols]; ignored without a block */
  octet_quantized transposed; /* [cols, rows]; ignored without a transposed_block */
} octet_fp8_copies;

/* Disabled; the other defaults are e4m3 and 1x128 blocks in both orientations. */
static inline void octet_fp8_output_init(octet_fp8_output* output) {
  memset(output, 0, sizeof *output);
  output->format = OCTET_E4M3;
  output->block = octet_block_of(1, 128);
  output->transposed_block = octet_block_of(1, 128);
}

#ifdef __cplusplus
}
#endif

#endif
