#include "c_api/read.hpp"
#include "c_api/status.hpp"

#include <cstdint>

namespace octet::c_api {
namespace {

constexpr const char* kOp = "quantized layout";

QuantizedLayout read_layout(std::int64_t rows, std::int64_t cols, octet_dtype dtype,
                            octet_block block) {
  return {rows, cols, read_dtype(kOp, "the tensor", dtype), read_block(kOp, "the tensor", block)};
}

QuantizedBatchLayout read_batch_layout(std::int64_t batch, std::int64_t rows, std::int64_t cols,
                                       octet_dtype dtype, octet_block block) {
  return {batch, rows, cols, read_dtype(kOp, "the tensor", dtype),
          read_block(kOp, "the tensor", block)};
}
QuantizedBatchLayout read_token_blocks(std::int64_t blocks, std::int64_t features,
                                       octet_dtype dtype, octet_block block) {
  return QuantizedBatchLayout::token_blocks(blocks, features, read_dtype(kOp, "the tensor", dtype),
                                            read_block(kOp, "the tensor", block));
}

void check_layout_memory(const void* memory) {
  check_pointer(kOp, "memory", memory);
  if (reinterpret_cast<std::uintptr_t>(memory) % kAlignment != 0) {
    refuse_argument(kOp, ": memory must be aligned to ", kAlignment, " bytes, got address ",
                    memory);
  }
}

}  // namespace
}  // namespace octet::c_api

using namespace octet::c_api;

extern "C" {

octet_status octet_make_quantized_layout(int64_t rows, int64_t cols, octet_dtype dtype,
                                         octet_block block, octet_quantized_layout* layout) {
  return guarded([&] {
    check_pointer(kOp, "layout", layout);
    *layout = write_layout(read_layout(rows, cols, dtype, block));
  });
}

// The offsets follow from shape, dtype and block, so those of the struct are not trusted.
octet_status octet_make_quantized_view(const octet_quantized_layout* layout, void* memory,
                                       octet_device device, octet_quantized* view) {
  return guarded([&] {
    check_pointer(kOp, "layout", layout);
    check_pointer(kOp, "view", view);
    check_nested(kOp, "layout", *layout);
    check_layout_memory(memory);
    const octet::QuantizedLayout checked =
        read_layout(layout->rows, layout->cols, layout->dtype, layout->block);
    *view = write_quantized(checked.view(memory, read_device(kOp, "memory", device)));
  });
}

octet_status octet_make_quantized_batch_layout(int64_t batch, int64_t rows, int64_t cols,
                                               octet_dtype dtype, octet_block block,
                                               octet_quantized_batch_layout* layout) {
  return guarded([&] {
    check_pointer(kOp, "layout", layout);
    *layout = write_layout(read_batch_layout(batch, rows, cols, dtype, block), false);
  });
}

octet_status octet_make_token_block_layout(int64_t blocks, int64_t features, octet_dtype dtype,
                                           octet_block block,
                                           octet_quantized_batch_layout* layout) {
  return guarded([&] {
    check_pointer(kOp, "layout", layout);
    *layout = write_layout(read_token_blocks(blocks, features, dtype, block), true);
  });
}

octet_status octet_make_quantized_batch_view(const octet_quantized_batch_layout* layout,
                                             void* memory, octet_device device,
                                             octet_quantized* view) {
  return guarded([&] {
    check_pointer(kOp, "layout", layout);
    check_pointer(kOp, "view", view);
    check_nested(kOp, "layout", *layout);
    check_layout_memory(memory);
    const octet::QuantizedBatchLayout checked =
        read_flag(kOp, "token_blocks", layout->token_blocks)
            ? read_token_blocks(layout->batch, layout->rows, layout->dtype, layout->block)
            : read_batch_layout(layout->batch, layout->rows, layout->cols, layout->dtype,
                                layout->block);
    *view = write_quantized(checked.view(memory, read_device(kOp, "memory", device)));
  });
}

}  // extern "C"
