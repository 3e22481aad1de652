/* Plans: types and functions that all operators share. */
#ifndef OCTET_C_PLAN_H
#define OCTET_C_PLAN_H

#include <octet/c/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Zeroes a struct and sets its size: octet_gemm_args args; OCTET_INIT(&args); */
#define OCTET_INIT(pointer)                 \
  (memset((pointer), 0, sizeof *(pointer)), \
   (void)((pointer)->struct_size = (uint32_t)sizeof *(pointer)))

/* A null pointer to options means the defaults, which are all zero. */
typedef struct octet_plan_options {
  uint32_t struct_size;
  int32_t threads;           /* CPU threads of a run; 0: OCTET_NUM_THREADS, or else every core */
  const char* backend;       /* the name of an implementation; null or empty: the first that fits */
  const char* configuration; /* text of one of its configurations; null or empty: it chooses */
  uint64_t reserved[3];
} octet_plan_options;

/* One type for the plans of all operators. Immutable: many threads may run one plan. */
typedef struct octet_plan octet_plan;

/* The strings belong to the plan. A null plan gives 0 or null, and octet_last_error() says so. */
OCTET_API size_t octet_plan_workspace_bytes(const octet_plan* plan);
OCTET_API const char* octet_plan_implementation(const octet_plan* plan);
OCTET_API const char* octet_plan_configuration(const octet_plan* plan);
OCTET_API const char* octet_plan_why(const octet_plan* plan);
OCTET_API const char* octet_plan_problem(const octet_plan* plan); /* its command line */
OCTET_API void octet_destroy_plan(octet_plan* plan);              /* null is allowed */

#ifdef __cplusplus
}
#endif

#endif
