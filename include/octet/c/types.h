/* Enums and tensors. A tensor is a view of memory that the caller owns. */
#ifndef OCTET_C_TYPES_H
#define OCTET_C_TYPES_H

#include <octet/export.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OCTET_MAX_RANK 6
#define OCTET_ALL (-1)      /* rows or cols of a block: all of the tensor's */
#define OCTET_ALIGNMENT 256 /* alignment of workspaces and of the memory of a layout, in bytes */

/* Numbers never change their meaning; new ones are added at the end. */

typedef int32_t octet_status;
enum {
  OCTET_OK = 0,
  OCTET_INVALID_ARGUMENT = 1, /* an invalid value, pointer, shape, stride or dtype */
  OCTET_UNSUPPORTED = 2,      /* well formed, but no implementation takes it */
  OCTET_OUT_OF_MEMORY = 3,
  OCTET_NO_DEVICE = 4,    /* the device asked for is not on this machine */
  OCTET_DEVICE_ERROR = 5, /* the device reported a failure */
  OCTET_INTERNAL = 6,     /* a defect in octet */
  OCTET_FILE_ERROR = 7    /* a file could not be read or written */
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

typedef int32_t octet_activation;
enum { OCTET_ACTIVATION_NONE = 0 };

typedef struct octet_device {
  octet_device_type type;
  int32_t index;
} octet_device;

/* A tensor with rank 0 and no data is absent. Pass it for arguments that are not needed. */
typedef struct octet_tensor {
  void* data;
  octet_dtype dtype;
  int32_t rank;
  int64_t shape[OCTET_MAX_RANK];
  int64_t strides[OCTET_MAX_RANK]; /* in elements */
  octet_device device;
} octet_tensor;

/* The rows and columns that share one scale; OCTET_ALL means all of them. octet_block_of(),
 * octet_whole_tensor(), octet_unscaled() and octet_no_copy() make one. */
typedef struct octet_block {
  int64_t rows;
  int64_t cols;
} octet_block;

/* Values with one scale per block: x = value * scale. If unscaled, scales are absent. */
typedef struct octet_quantized {
  octet_tensor values; /* [rows, cols] */
  octet_tensor scales; /* [ceil(rows/block.rows), ceil(cols/block.cols)]; f32, of mx
                           blocks (1x32, 32x32) ue8m0 */
  octet_block block;
  int32_t owns_padding; /* the bytes up to the pitch belong to this view and may be cleared */
  int32_t reserved0;
  uint64_t reserved[4];
} octet_quantized;

/* Octet's layout of a quantised tensor in one piece of memory: values, then scales. Layouts are
 * written by octet, their sizes included. */
typedef struct octet_quantized_layout {
  uint32_t struct_size;
  octet_dtype dtype;
  int64_t rows;
  int64_t cols;
  octet_block block;
  int64_t pitch;          /* bytes from one row of values to the next */
  int64_t scale_shape[2]; /* logical */
  int64_t scale_strides[2];
  uint64_t scales_offset; /* bytes from the start of the values */
  uint64_t bytes;         /* values and scales together; 0: nothing to store */
  uint64_t reserved[4];
} octet_quantized_layout;

/* The same for a batch of matrices, or for token blocks. */
typedef struct octet_quantized_batch_layout {
  uint32_t struct_size;
  octet_dtype dtype;
  int64_t batch;
  int64_t rows;
  int64_t cols;
  octet_block block;
  int64_t pitch;          /* bytes from one row of values to the next */
  int64_t scale_shape[3]; /* logical */
  int64_t scale_strides[3];
  uint64_t scales_offset; /* bytes from the start of the values */
  uint64_t bytes;         /* values and scales together */
  int32_t token_blocks;   /* 1: made by octet_make_token_block_layout() */
  int32_t reserved0;
  uint64_t reserved[4];
} octet_quantized_batch_layout;

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

/* A dense tensor: the last dimension is contiguous. Operators write only to what they call an
 * output, and refuse a rank beyond OCTET_MAX_RANK. */
static inline octet_tensor octet_dense(const void* data, octet_dtype dtype, int32_t rank,
                                       const int64_t* shape, octet_device device) {
  octet_tensor tensor;
  int64_t stride = 1;
  int32_t i;
  memset(&tensor, 0, sizeof tensor);
  memcpy(&tensor.data, &data, sizeof data); /* an input may be const */
  tensor.dtype = dtype;
  tensor.rank = rank;
  for (i = (rank < OCTET_MAX_RANK ? rank : OCTET_MAX_RANK) - 1; i >= 0; --i) {
    tensor.shape[i] = shape[i];
    tensor.strides[i] = stride;
    stride *= shape[i];
  }
  tensor.device = device;
  return tensor;
}

static inline octet_tensor octet_vector(const void* data, octet_dtype dtype, int64_t length,
                                        octet_device device) {
  return octet_dense(data, dtype, 1, &length, device);
}

static inline octet_tensor octet_matrix(const void* data, octet_dtype dtype, int64_t rows,
                                        int64_t cols, octet_device device) {
  int64_t shape[2];
  shape[0] = rows;
  shape[1] = cols;
  return octet_dense(data, dtype, 2, shape, device);
}

static inline octet_block octet_block_of(int64_t rows, int64_t cols) {
  octet_block block;
  block.rows = rows;
  block.cols = cols;
  return block;
}

/* One scale for the whole tensor. */
static inline octet_block octet_whole_tensor(void) { return octet_block_of(OCTET_ALL, OCTET_ALL); }
/* No scales: 16- and 32-bit operands. */
static inline octet_block octet_unscaled(void) { return octet_block_of(0, 0); }
/* This copy of the tensor is not written. */
static inline octet_block octet_no_copy(void) { return octet_block_of(-2, -2); }

/* The layout of a quantised [rows, cols]; block is any that quantize writes. */
OCTET_API octet_status octet_make_quantized_layout(int64_t rows, int64_t cols, octet_dtype dtype,
                                                   octet_block block,
                                                   octet_quantized_layout* layout);
/* The view over `memory`, which has layout->bytes bytes and is aligned to OCTET_ALIGNMENT. */
OCTET_API octet_status octet_make_quantized_view(const octet_quantized_layout* layout, void* memory,
                                                 octet_device device, octet_quantized* view);
/* The layout of a quantised [batch, rows, cols]; block is 1x128 or 128x128. */
OCTET_API octet_status octet_make_quantized_batch_layout(int64_t batch, int64_t rows, int64_t cols,
                                                         octet_dtype dtype, octet_block block,
                                                         octet_quantized_batch_layout* layout);
/* That of transposed copies of groups, [blocks, features, 128], as octet_run_quantize() writes. */
OCTET_API octet_status octet_make_token_block_layout(int64_t blocks, int64_t features,
                                                     octet_dtype dtype, octet_block block,
                                                     octet_quantized_batch_layout* layout);
OCTET_API octet_status octet_make_quantized_batch_view(const octet_quantized_batch_layout* layout,
                                                       void* memory, octet_device device,
                                                       octet_quantized* view);

#ifdef __cplusplus
}
#endif

#endif
