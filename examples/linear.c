/* A block-scaled FP8 linear layer from plain C, forward only. The caller provides all memory. With
 * power-of-two scales small integers are exact in FP8, so the result can be checked by hand. */
#define _POSIX_C_SOURCE 200112L /* posix_memalign */
#include <octet/octet.h>

#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 4, OUTPUTS = 8, INPUTS = 256 };
static float x[TOKENS * INPUTS], w[OUTPUTS * INPUTS], y[TOKENS * OUTPUTS];

static int failed(octet_status status) {
  if (status != OCTET_OK) fprintf(stderr, "%s\n", octet_last_error());
  return status != OCTET_OK;
}

int main(void) {
  int i;
  for (i = 0; i < TOKENS * INPUTS; ++i) x[i] = 2;
  for (i = 0; i < OUTPUTS * INPUTS; ++i) w[i] = 7;

  /* [readme] */
  octet_plan* plan;
  octet_fp8_linear_problem problem;
  octet_fp8_linear_forward_args args;
  octet_init_fp8_linear_problem(&problem);
  problem.m = TOKENS, problem.n = OUTPUTS, problem.k = INPUTS;
  problem.dtype = OCTET_F32, problem.training = 0, problem.pow2_scales = 1;
  if (failed(octet_make_fp8_linear_forward_plan(&problem, NULL, &plan))) return 1;
  OCTET_INIT(&args);
  args.x = octet_matrix(x, OCTET_F32, TOKENS, INPUTS, octet_cpu());
  args.w = octet_matrix(w, OCTET_F32, OUTPUTS, INPUTS, octet_cpu());
  args.y = octet_matrix(y, OCTET_F32, TOKENS, OUTPUTS, octet_cpu());
  size_t bytes = octet_plan_workspace_bytes(plan);
  void* workspace = NULL;
  if (posix_memalign(&workspace, OCTET_ALIGNMENT, bytes) != 0) return 1;
  if (failed(octet_run_fp8_linear_forward(plan, &args, workspace, bytes, NULL))) return 1;
  printf("y %g\n", y[0]); /* y 3584 */
  /* [/readme] */

  free(workspace);
  octet_destroy_plan(plan);
  return y[0] == 2 * 7 * INPUTS && y[TOKENS * OUTPUTS - 1] == y[0] ? 0 : 1;
}
