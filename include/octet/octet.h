/* The C API of octet: plain C99, the same operators, formats and bits as the C++ API, whose headers
 * in octet/ops/ give every formula.
 *
 *   problem -> plan -> run.  Fill a problem (octet_init_<op>_problem first), make a plan from it
 *   with octet_make_<op>_plan, allocate octet_plan_workspace_bytes(plan) bytes of scratch memory
 *   aligned to OCTET_ALIGNMENT, and call octet_run_<op> as often as you like, from as many threads
 *   as you like, each with a workspace of its own. octet_plan_<what> asks a plan,
 *   octet_destroy_plan frees it.
 *
 * Every function that can fail returns an octet_status; octet_last_error() says in words what was
 * wrong. Arguments are checked before anything is written, so a refusal leaves the outputs as they
 * were; a run that fails later, out of memory or on the device, may have written parts of its
 * outputs and of the workspace. Flags are 0 or 1. Structs that begin with struct_size may grow in
 * later versions: inside another struct they grow into their reserved fields, which must be zero.
 */
#ifndef OCTET_OCTET_H
#define OCTET_OCTET_H

#include <octet/c/adamw.h>
#include <octet/c/attention.h>
#include <octet/c/dequantize.h>
#include <octet/c/fp8_grouped_linear.h>
#include <octet/c/fp8_linear.h>
#include <octet/c/gated_activation.h>
#include <octet/c/gated_mlp.h>
#include <octet/c/gemm.h>
#include <octet/c/group_table.h>
#include <octet/c/grouped_gemm.h>
#include <octet/c/linear_cross_entropy.h>
#include <octet/c/moe.h>
#include <octet/c/moe_mlp.h>
#include <octet/c/quantize.h>
#include <octet/c/repack.h>
#include <octet/c/rms_norm.h>
#include <octet/c/rms_norm_rope.h>
#include <octet/c/rope.h>
#include <octet/version.h>

#ifdef __cplusplus
extern "C" {
#endif

OCTET_API int octet_version(void); /* of the library that was loaded, as OCTET_VERSION spells it */
/* A digest of the machine code of the kernels that an operator ("gemm", "rms_norm") runs on a GPU:
 * results with a different digest were measured with different kernels. Empty in a build without
 * CUDA, and for an unknown operator. */
OCTET_API const char* octet_device_sources(const char* op);
OCTET_API const char* octet_last_error(void); /* of this thread's last failed call; never null */
OCTET_API const char* octet_status_name(octet_status status);
OCTET_API size_t octet_dtype_size(octet_dtype dtype); /* in bytes; 0 for an unknown number */
OCTET_API const char* octet_dtype_name(octet_dtype dtype);
OCTET_API int octet_cuda_device_count(void); /* 0 without a driver */
/* The tuning table that plans made from now on look in, as octet tune wrote it; null or empty: none. Without
 * a call it is that of OCTET_TUNING_TABLE. See octet/tuning.hpp. */
OCTET_API octet_status octet_set_tuning_table(const char* path);
/* The path of the table in use; empty: none; null where that of OCTET_TUNING_TABLE cannot be read. The text is
 * this thread's until its next call of this function. */
OCTET_API const char* octet_tuning_table(void);

#ifdef __cplusplus
}
#endif

#endif
