/* group_table: where each group of rows begins, from sizes that lie on the device. */
#ifndef OCTET_C_GROUP_TABLE_H
#define OCTET_C_GROUP_TABLE_H

#include <octet/c/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OCTET_MAX_GROUPS 1024

typedef int32_t octet_group_sizes;
enum {
  OCTET_GROUP_SIZES = 1, /* [groups], the rows of each group */
  OCTET_GROUP_ENDS = 2,  /* [groups], the row behind each group */
  OCTET_GROUP_OFFSETS =
      3 /* [groups + 1], the first row of each group and the row behind the last */
};

/* The rows of an output that lie behind its last group. */
typedef int32_t octet_group_tail;
enum { OCTET_GROUP_TAIL_ZERO = 1, OCTET_GROUP_TAIL_UNTOUCHED = 2 };

typedef struct octet_group_table_problem {
  uint32_t struct_size;
  octet_group_sizes given;
  int64_t groups;          /* 1 to OCTET_MAX_GROUPS */
  int64_t rows;            /* of the buffers: 1 to 2^30 */
  octet_dtype sizes_dtype; /* i32 or i64 */
  int32_t reserved0;
  octet_device device;
  uint64_t reserved[4];
} octet_group_table_problem;

typedef struct octet_group_table_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor sizes; /* [groups], or [groups + 1] for offsets; contiguous */
  octet_tensor table; /* [octet_group_table_words()], i32, contiguous, 16-byte aligned */
  uint64_t reserved[4];
} octet_group_table_args;

/* Sizes in i32 on the CPU; the caller sets groups and rows. */
static inline void octet_init_group_table_problem(octet_group_table_problem* problem) {
  OCTET_INIT(problem);
  problem->given = OCTET_GROUP_SIZES;
  problem->sizes_dtype = OCTET_I32;
  problem->device = octet_cpu();
}

/* Elements of a table. */
OCTET_API octet_status octet_group_table_words(int64_t groups, int64_t rows, int64_t* words);

OCTET_API octet_status octet_make_group_table_plan(const octet_group_table_problem* problem,
                                                   const octet_plan_options* options,
                                                   octet_plan** plan);
/* Sizes that do not fit the buffers are clamped; the table keeps the first error. */
OCTET_API octet_status octet_run_group_table(const octet_plan* plan,
                                             const octet_group_table_args* args, void* workspace,
                                             size_t workspace_bytes, void* stream);
/* Waits for the stream and reads the table: an error if a size was clamped. */
OCTET_API octet_status octet_check_group_table(const octet_tensor* table, void* stream);

#ifdef __cplusplus
}
#endif

#endif
