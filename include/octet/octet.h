/* The C API of octet: plain C99, the same operators, formats and bits as the C++ API, whose headers
 * in octet/ops/ give every formula.
 *
 *   problem -> plan -> run.  Fill a problem (octet_<op>_problem_init first), make a plan of it with
 *   octet_plan_<op>, bring octet_plan_workspace_bytes(plan) bytes of scratch memory aligned to
 *   OCTET_ALIGNMENT, and call octet_run_<op> as often as you like, from as many threads as you
 * like, each with a workspace of its own.
 *
 * Every function that can fail returns an octet_status; octet_last_error() says in words what was
 * wrong. Arguments are checked before anything is written, so a refusal leaves the outputs as they
 * were; a run that fails later, for want of memory or on the device, may have written parts of its
 * outputs and of the workspace. Flags are 0 or 1. Structs that begin with struct_size may grow in
 * later versions; room marked reserved must be zero. */
#ifndef OCTET_OCTET_H
#define OCTET_OCTET_H

#include <octet/export.h>
#include <octet/version.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OCTET_MAX_RANK 6
#define OCTET_ALIGNMENT 256 /* of workspaces and of the memory of a layout, in bytes */

/* Numbers never change their meaning; new ones are added at the end. */

typedef int32_t octet_status;
enum {
  OCTET_OK = 0,
  OCTET_INVALID_ARGUMENT = 1, /* a value, pointer, shape, stride or dtype that cannot be meant */
  OCTET_UNSUPPORTED = 2,      /* well formed, but no implementation takes it */
  OCTET_OUT_OF_MEMORY = 3,
  OCTET_NO_DEVICE = 4,    /* the device asked for is not on this machine */
  OCTET_DEVICE_ERROR = 5, /* the device reported a failure */
  OCTET_INTERNAL = 6      /* a defect in octet */
};

typedef int32_t octet_dtype;
enum {
  OCTET_F32 = 1,
  OCTET_F16 = 2,
  OCTET_BF16 = 3,
  OCTET_E4M3 = 4,
  OCTET_E5M2 = 5,
  OCTET_UE8M0 = 6,
  OCTET_I32 = 7, /* positions and other indices */
  OCTET_I64 = 8
};

typedef int32_t octet_device_type; /* the numbers of DLPack */
enum { OCTET_CPU = 1, OCTET_CUDA = 2 };

typedef int32_t octet_major; /* which dimension of a gemm operand is contiguous */
enum { OCTET_MAJOR_K = 0, OCTET_MAJOR_MN = 1 };

typedef int32_t octet_wgrad_blocks; /* how x is quantised for the weight gradient */
enum { OCTET_WGRAD_ROWS = 1, OCTET_WGRAD_SQUARE = 2 };

typedef int32_t octet_group_kind;
enum { OCTET_GROUPS_NONE = 0 };

typedef int32_t octet_activation;
enum { OCTET_ACTIVATION_NONE = 0 };

/* ---- Tensors: views over memory the caller owns ------------------------------------------------
 */

typedef struct octet_device {
  octet_device_type type;
  int32_t index;
} octet_device;

/* A tensor with rank 0 and no data is absent: what an argument that is not needed should be. */
typedef struct octet_tensor {
  void* data;
  octet_dtype dtype;
  int32_t rank;
  int64_t shape[OCTET_MAX_RANK];
  int64_t strides[OCTET_MAX_RANK]; /* in elements */
  octet_device device;
} octet_tensor;

/* The rows and columns that share one scale. */
typedef struct octet_block {
  int64_t rows;
  int64_t cols;
} octet_block;

/* Values with one scale per block: x = value * scale. Where nothing is scaled, scales are absent
 * and the block is {0, 0}. */
typedef struct octet_quantized {
  octet_tensor values; /* [rows, cols] */
  octet_tensor scales; /* [ceil(rows/block.rows), ceil(cols/block.cols)], f32 */
  octet_block block;
  int32_t owns_padding; /* the bytes up to the pitch belong to this view and may be cleared */
  int32_t reserved;
} octet_quantized;

/* How octet lays a quantised tensor out in one piece of memory: values, then scales. */
typedef struct octet_quantized_layout {
  int64_t rows;
  int64_t cols;
  octet_dtype dtype;
  int32_t reserved;
  octet_block block;
  int64_t pitch;          /* bytes from one row of values to the next */
  int64_t scale_shape[2]; /* logical */
  int64_t scale_strides[2];
  uint64_t scales_offset; /* bytes from the start of the values */
  uint64_t bytes;         /* values and scales together; 0: nothing to store */
} octet_quantized_layout;

static inline octet_device octet_cpu(void) {
  octet_device device;
  device.type = OCTET_CPU;
  device.index = 0;
  return device;
}

static inline octet_device octet_cuda(int32_t index) {
  octet_device device;
  device.type = OCTET_CUDA;
  device.index = index;
  return device;
}

/* A dense matrix. Operators write only to what they call an output. */
static inline octet_tensor octet_matrix(const void* data, octet_dtype dtype, int64_t rows,
                                        int64_t cols, octet_device device) {
  octet_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  memcpy(&tensor.data, &data, sizeof data); /* an input may be const */
  tensor.dtype = dtype;
  tensor.rank = 2;
  tensor.shape[0] = rows;
  tensor.shape[1] = cols;
  tensor.strides[0] = cols;
  tensor.strides[1] = 1;
  tensor.device = device;
  return tensor;
}

static inline octet_block octet_block_of(int64_t rows, int64_t cols) {
  octet_block block;
  block.rows = rows;
  block.cols = cols;
  return block;
}

/* The layout of a quantised [rows, cols]; block is 1x128, 128x1 or 128x128. */
OCTET_API octet_status octet_layout_quantized(int64_t rows, int64_t cols, octet_dtype dtype,
                                              octet_block block, octet_quantized_layout* layout);
/* The view over `memory`, which has layout->bytes bytes and is aligned to OCTET_ALIGNMENT. */
OCTET_API octet_status octet_view_quantized(const octet_quantized_layout* layout, void* memory,
                                            octet_device device, octet_quantized* view);

/* ---- Plans -------------------------------------------------------------------------------------
 */

/* Zeroes a struct and sets its size: octet_gemm_args args; OCTET_INIT(&args); */
#define OCTET_INIT(pointer)                 \
  (memset((pointer), 0, sizeof *(pointer)), \
   (void)((pointer)->struct_size = (uint32_t)sizeof *(pointer)))

/* A null pointer to options means the defaults, which are all zero. */
typedef struct octet_plan_options {
  uint32_t struct_size;
  int32_t threads;     /* CPU threads of a run; 0: OCTET_NUM_THREADS, or else every core */
  const char* backend; /* the name of an implementation; null or empty: the first that fits */
  uint64_t reserved[4];
} octet_plan_options;

/* Implementations are forced per part of the layer. */
typedef struct octet_fp8_linear_options {
  uint32_t struct_size;
  int32_t threads;
  const char* gemm_backend;
  const char* quantize_backend;
  uint64_t reserved[4];
} octet_fp8_linear_options;

/* One type for the plans of all operators. Immutable: many threads may run one plan. */
typedef struct octet_plan octet_plan;

/* The strings belong to the plan. A null plan gives 0 or null, and octet_last_error() says so. */
OCTET_API size_t octet_plan_workspace_bytes(const octet_plan* plan);
OCTET_API const char* octet_plan_implementation(const octet_plan* plan);
OCTET_API const char* octet_plan_configuration(const octet_plan* plan);
OCTET_API const char* octet_plan_why(const octet_plan* plan);
OCTET_API const char* octet_plan_problem(const octet_plan* plan); /* its command line */
OCTET_API void octet_plan_destroy(octet_plan* plan);              /* null is allowed */

/* ---- quantize: floats to block-scaled FP8, both orientations from one read ---------------------
 */

typedef struct octet_quantize_problem {
  uint32_t struct_size;
  octet_dtype input; /* f32, f16 or bf16 */
  int64_t rows;
  int64_t cols;
  octet_dtype format;           /* e4m3 or e5m2 */
  int32_t pow2_scales;          /* scales are rounded up to powers of two */
  octet_block block;            /* {0, 0}: no copy in the input's orientation */
  octet_block transposed_block; /* of the copy [cols, rows], in its coordinates; {0, 0}: no copy */
  float amax_floor;             /* finite, >= 0 */
  int32_t reserved0;
  octet_device device;
  uint64_t reserved[4];
} octet_quantize_problem;

typedef struct octet_quantize_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor input;         /* [rows, cols] */
  octet_quantized out;        /* [rows, cols]; ignored without a block */
  octet_quantized transposed; /* [cols, rows]; ignored without a transposed_block */
  uint64_t reserved[4];
} octet_quantize_args;

/* bf16 to e4m3 in 1x128 blocks on the CPU; rows and cols are left to fill in. */
static inline void octet_quantize_problem_init(octet_quantize_problem* problem) {
  OCTET_INIT(problem);
  problem->input = OCTET_BF16;
  problem->format = OCTET_E4M3;
  problem->block = octet_block_of(1, 128);
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_plan_quantize(const octet_quantize_problem* problem,
                                           const octet_plan_options* options, octet_plan** plan);
OCTET_API octet_status octet_run_quantize(const octet_plan* plan, const octet_quantize_args* args,
                                          void* workspace, size_t workspace_bytes, void* stream);

/* ---- dequantize: out = value * scale -----------------------------------------------------------
 */

typedef struct octet_dequantize_problem {
  uint32_t struct_size;
  octet_dtype out; /* f32, f16 or bf16 */
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
static inline void octet_dequantize_problem_init(octet_dequantize_problem* problem) {
  OCTET_INIT(problem);
  problem->out = OCTET_F32;
  problem->format = OCTET_E4M3;
  problem->block = octet_block_of(1, 128);
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_plan_dequantize(const octet_dequantize_problem* problem,
                                             const octet_plan_options* options, octet_plan** plan);
OCTET_API octet_status octet_run_dequantize(const octet_plan* plan,
                                            const octet_dequantize_args* args, void* workspace,
                                            size_t workspace_bytes, void* stream);

/* ---- repack: a quantised tensor of any strides into another layout -----------------------------
 */

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
static inline void octet_repack_problem_init(octet_repack_problem* problem) {
  OCTET_INIT(problem);
  problem->format = OCTET_E4M3;
  problem->block = octet_block_of(1, 128);
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_plan_repack(const octet_repack_problem* problem,
                                         const octet_plan_options* options, octet_plan** plan);
OCTET_API octet_status octet_run_repack(const octet_plan* plan, const octet_repack_args* args,
                                        void* workspace, size_t workspace_bytes, void* stream);

/* ---- gemm: d[M, N] = a[M, K] b[N, K]^T, or d += that -------------------------------------------
 */

typedef struct octet_gemm_operand {
  octet_dtype dtype;
  octet_major major;
  octet_block block; /* of FP8 operands; {0, 0} where nothing is scaled */
} octet_gemm_operand;

typedef struct octet_gemm_problem {
  uint32_t struct_size;
  octet_dtype out; /* f32, f16 or bf16 */
  int64_t m;
  int64_t n;
  int64_t k;
  octet_gemm_operand a;
  octet_gemm_operand b;
  octet_device device;
  int32_t accumulate; /* d += a b^T; f32 and bf16 alone */
  /* Room for what comes next: refused unless zero. */
  int32_t bias;
  octet_activation activation;
  octet_group_kind group_kind;
  int64_t group_count;
  int32_t determinism; /* 0: same inputs, same bits, every run */
  int32_t split_k;     /* 0: the contraction is not split */
  uint64_t reserved[8];
} octet_gemm_problem;

typedef struct octet_gemm_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_quantized a; /* [M, K] */
  octet_quantized b; /* [N, K] */
  octet_tensor d;    /* [M, N] */
  /* Room for what comes next: refused unless absent. */
  octet_tensor bias;
  const void* group_offsets; /* on the device of the problem */
  uint64_t reserved[4];
} octet_gemm_args;

/* e4m3 operands, 1x128 and 128x128 blocks, bf16 result, on the CPU. */
static inline void octet_gemm_problem_init(octet_gemm_problem* problem) {
  OCTET_INIT(problem);
  problem->out = OCTET_BF16;
  problem->a.dtype = OCTET_E4M3;
  problem->a.block = octet_block_of(1, 128);
  problem->b.dtype = OCTET_E4M3;
  problem->b.block = octet_block_of(128, 128);
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_plan_gemm(const octet_gemm_problem* problem,
                                       const octet_plan_options* options, octet_plan** plan);
OCTET_API octet_status octet_run_gemm(const octet_plan* plan, const octet_gemm_args* args,
                                      void* workspace, size_t workspace_bytes, void* stream);

/* ---- fp8_linear: y = x w^T, dx = dy w, dw = dy^T x, quantised inside ----------------------------
 */

typedef struct octet_fp8_linear_problem {
  uint32_t struct_size;
  octet_dtype dtype; /* of x, w, y, dy and dx: bf16, f16 or f32 */
  int64_t m;         /* tokens */
  int64_t n;         /* output features */
  int64_t k;         /* input features */
  octet_dtype format;
  octet_dtype grad_format;
  int32_t weights_quantized; /* w comes as octet_fp8_linear_weights */
  int32_t training;          /* 0: forward alone, nothing is saved */
  int32_t need_dx;
  int32_t need_dw;
  octet_dtype dw;
  int32_t accumulate_dw; /* dw += into an f32 or bf16 main gradient */
  octet_wgrad_blocks wgrad_blocks;
  float amax_floor;
  int32_t pow2_scales;
  /* Room for what comes next: refused unless zero. */
  int32_t bias;
  octet_activation activation;
  int32_t determinism;
  octet_device device;
  uint64_t reserved[8];
} octet_fp8_linear_problem;

typedef struct octet_fp8_linear_weights {
  octet_quantized w;   /* [N, K] 128x128 */
  octet_quantized w_t; /* [K, N] 128x128 */
} octet_fp8_linear_weights;

/* What forward leaves for backward. */
typedef struct octet_fp8_linear_saved {
  octet_quantized x_t; /* [K, M] 1x128, or 128x128 with OCTET_WGRAD_SQUARE */
  octet_quantized w_t; /* [K, N] 128x128; the caller's own w_t where weights come quantised */
} octet_fp8_linear_saved;

typedef struct octet_fp8_linear_weights_layout {
  octet_quantized_layout w;
  octet_quantized_layout w_t;
} octet_fp8_linear_weights_layout;

typedef struct octet_fp8_linear_saved_layout {
  octet_quantized_layout x_t; /* bytes == 0 where need_dw is 0 */
  octet_quantized_layout w_t; /* bytes == 0 where weights come quantised or need_dx is 0 */
} octet_fp8_linear_saved_layout;

typedef struct octet_fp8_linear_forward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor x;                   /* [M, K] */
  octet_tensor w;                   /* [N, K]; ignored where weights come quantised */
  octet_fp8_linear_weights weights; /* ignored otherwise */
  octet_tensor y;                   /* [M, N] */
  octet_fp8_linear_saved saved;     /* written; ignored where training is 0 */
  uint64_t reserved[4];
} octet_fp8_linear_forward_args;

typedef struct octet_fp8_linear_backward_args {
  uint32_t struct_size;
  uint32_t reserved0;
  octet_tensor dy;              /* [M, N] */
  octet_fp8_linear_saved saved; /* read */
  octet_tensor dx;              /* [M, K]; ignored where need_dx is 0 */
  octet_tensor dw;              /* [N, K]; ignored where need_dw is 0 */
  uint64_t reserved[4];
} octet_fp8_linear_backward_args;

/* bf16 in and out, e4m3 inside, both gradients, on the CPU; m, n and k are left to fill in. */
static inline void octet_fp8_linear_problem_init(octet_fp8_linear_problem* problem) {
  OCTET_INIT(problem);
  problem->dtype = OCTET_BF16;
  problem->format = OCTET_E4M3;
  problem->grad_format = OCTET_E4M3;
  problem->training = 1;
  problem->need_dx = 1;
  problem->need_dw = 1;
  problem->dw = OCTET_BF16;
  problem->wgrad_blocks = OCTET_WGRAD_ROWS;
  problem->device = octet_cpu();
}

OCTET_API octet_status octet_layout_fp8_linear_saved(const octet_fp8_linear_problem* problem,
                                                     octet_fp8_linear_saved_layout* layout);
OCTET_API octet_status octet_layout_fp8_linear_weights(const octet_fp8_linear_problem* problem,
                                                       octet_fp8_linear_weights_layout* layout);
OCTET_API octet_status octet_plan_fp8_linear_forward(const octet_fp8_linear_problem* problem,
                                                     const octet_fp8_linear_options* options,
                                                     octet_plan** plan);
OCTET_API octet_status octet_plan_fp8_linear_backward(const octet_fp8_linear_problem* problem,
                                                      const octet_fp8_linear_options* options,
                                                      octet_plan** plan);
OCTET_API octet_status octet_run_fp8_linear_forward(const octet_plan* plan,
                                                    const octet_fp8_linear_forward_args* args,
                                                    void* workspace, size_t workspace_bytes,
                                                    void* stream);
OCTET_API octet_status octet_run_fp8_linear_backward(const octet_plan* plan,
                                                     const octet_fp8_linear_backward_args* args,
                                                     void* workspace, size_t workspace_bytes,
                                                     void* stream);

/* ---- The library -------------------------------------------------------------------------------
 */

OCTET_API int octet_version(void); /* of the library that was loaded, as OCTET_VERSION spells it */
/* A hash of the sources that decide what an operator ("gemm", "rms_norm") runs on a GPU: results with
 * another were measured with other kernels. Empty for a name that is none of octet's. */
OCTET_API const char* octet_device_sources(const char* op);
OCTET_API const char* octet_last_error(void); /* of this thread's last failed call; never null */
OCTET_API const char* octet_status_name(octet_status status);
OCTET_API size_t octet_dtype_size(octet_dtype dtype); /* in bytes; 0 for a number that names none */
OCTET_API const char* octet_dtype_name(octet_dtype dtype);
OCTET_API int octet_cuda_device_count(void); /* 0 without a driver */

#ifdef __cplusplus
}
#endif

#endif
