#include "core/checks.hpp"

#include "core/block_scales.hpp"
#include "core/footprint.hpp"
#include "core/message.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace octet {
namespace {

// "e4m3", or the number if it is not a dtype.
std::string spell(Dtype dtype) {
  if (size_bytes(dtype) != 0) return std::string(name(dtype));
  return text("the unknown dtype ", static_cast<std::int32_t>(dtype));
}

// `part`: "" or "scale of ", a prefix of the argument's name.
void check_memory(Argument argument, std::string_view part, const TensorView& view, Device device) {
  if (view.data == nullptr) {
    refuse_argument(argument.op, ": ", part, argument.name, " has a null pointer");
  }
  if (!(view.device == device)) {
    refuse_argument(argument.op, ": ", part, argument.name, " is on ", name(view.device),
                    ", the problem is on ", name(device));
  }
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  if (address % static_cast<std::uintptr_t>(size_bytes(view.dtype)) != 0) {
    refuse_argument(argument.op, ": ", part, argument.name, " must be aligned to ",
                    size_bytes(view.dtype), " bytes for ", name(view.dtype), ", got address ",
                    view.data);
  }
}

void check_matrix_shape(Argument argument, const TensorView& view, const MatrixForm& form) {
  if (view.rank != 2) {
    refuse_argument(argument.op, ": ", argument.name, " must have rank 2, ", form.spelling,
                    ", got rank ", view.rank);
  }
  if (view.rows() != form.rows || view.cols() != form.cols) {
    refuse_argument(argument.op, ": ", argument.name, " must be ", form.spelling, " = [", form.rows,
                    ", ", form.cols, "], got ", describe_shape(view));
  }
}

void check_dtype(Argument argument, Dtype given, Dtype wanted) {
  if (given != wanted) {
    refuse_argument(argument.op, ": ", argument.name, " must be ", name(wanted), ", got ",
                    spell(given));
  }
}

void check_reach(Argument argument, std::string_view part, const TensorView& view) {
  std::int64_t last = 0;
  for (int i = 0; i < view.rank; ++i) {
    std::int64_t step = 0;
    if (view.strides[i] < 0 || __builtin_mul_overflow(view.shape[i] - 1, view.strides[i], &step) ||
        __builtin_add_overflow(last, step, &last) || last > kReach) {
      refuse_argument(argument.op, ": ", part, argument.name,
                      " has a stride that is negative or out of range: ", describe(view));
    }
  }
}

// The values are checked already.
void check_scales(Argument argument, const QuantizedView& view, BlockShape block, Device device) {
  const TensorView& scales = view.scales;
  if (!(view.block == block)) {
    refuse_argument(argument.op, ": ", argument.name, " must have ", name(block), " blocks, got ",
                    name(view.block));
  }
  if (scales.data == nullptr) {
    refuse_argument(argument.op, ": scale of ", argument.name, " has a null pointer");
  }
  TensorView wanted = view.values;
  const int rows = wanted.rank - 2;
  wanted.shape[rows] = blocks_along(wanted.shape[rows], block.rows);
  wanted.shape[rows + 1] = blocks_along(wanted.shape[rows + 1], block.cols);
  if (scales.rank != wanted.rank ||
      !std::equal(wanted.shape.begin(), wanted.shape.begin() + wanted.rank, scales.shape.begin())) {
    refuse_argument(argument.op, ": scale of ", argument.name, " must be ", describe_shape(wanted),
                    " for ", name(block), " blocks of ", argument.name, describe_shape(view.values),
                    ", got ", describe_shape(scales));
  }
  if (scales.dtype != scale_dtype(block)) {
    refuse_argument(argument.op, ": scale of ", argument.name, " must be ",
                    name(scale_dtype(block)), ", got ", spell(scales.dtype));
  }
  check_memory(argument, "scale of ", scales, device);
  check_reach(argument, "scale of ", scales);
}

}  // namespace

void check_count(std::string_view op, std::string_view name, std::int64_t count) {
  if (count < 0) refuse_argument(op, ": ", name, " must be at least 0, got ", count);
}

void check_extent(std::string_view op, std::string_view name, std::int64_t extent) {
  if (extent < 1) refuse_argument(op, ": ", name, " must be at least 1, got ", extent);
}

void check_size(std::string_view op, std::int64_t rows, std::int64_t cols, Dtype dtype) {
  // An empty tensor has extents too, and other sizes are computed from them.
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(std::max<std::int64_t>(rows, 1), std::max<std::int64_t>(cols, 1),
                             &bytes) ||
      __builtin_mul_overflow(bytes, size_bytes(dtype), &bytes) || bytes > (std::int64_t{1} << 60)) {
    refuse_argument(op, ": a tensor of ", rows, " x ", cols, " has more than 2^",
                    60 - std::countr_zero(static_cast<unsigned>(size_bytes(dtype))),
                    " elements, the most that octet can address");
  }
}

void check_device(std::string_view op, Device device) {
  if (device.type == DeviceType::cpu) {
    if (device.index != 0) refuse_argument(op, ": the CPU is cpu:0, got cpu:", device.index);
    return;
  }
  if (device.type != DeviceType::cuda) {
    refuse_argument(op, ": device must be cpu or cuda, got type ",
                    static_cast<std::int32_t>(device.type));
  }
  const int count = cuda_device_count();
  if (device.index < 0 || device.index >= count) {
    fail(ErrorCode::no_device, op, ": device ", name(device), " is not on this machine, which has ",
         count, " CUDA devices; device cpu is always there");
  }
}

void check_float(Argument argument, Dtype dtype) {
  if (dtype != Dtype::f32 && !is_16bit(dtype)) {
    refuse_argument(argument.op, ": ", argument.name, " must be f32, f16 or bf16, got ",
                    spell(dtype));
  }
}

void check_amax_floor(std::string_view op, float amax_floor) {
  if (!(amax_floor >= 0) || std::isinf(amax_floor)) {
    refuse_argument(op, ": amax_floor must be finite and at least 0, got ", amax_floor);
  }
  if (amax_floor > kMaxAmaxFloor) {
    refuse_argument(op, ": amax_floor must be at most ", exact_text(kMaxAmaxFloor),
                    ", so that products of two scales stay finite, got ", exact_text(amax_floor));
  }
}

void check_eps(std::string_view op, float eps) {
  if (!(eps >= 0) || std::isinf(eps)) {
    refuse_argument(op, ": eps must be finite and at least 0, got ", eps);
  }
}

void check_block(std::string_view op, std::string_view name, BlockShape block) {
  if (!(block == kBlock1x128 || block == kBlock128x1 || block == kBlock128x128)) {
    fail(ErrorCode::unsupported, op, ": ", name, " must be 1x128, 128x1 or 128x128, got ",
         octet::name(block));
  }
}

void check_any_block(std::string_view op, std::string_view name, BlockShape block) {
  const bool is_known = block == kBlock1x128 || block == kBlock128x1 || block == kBlock128x128 ||
                        block == kEachRow || block == kEachColumn || block == kWholeTensor ||
                        is_mx(block);
  if (!is_known) {
    fail(ErrorCode::unsupported, op, ": ", name,
         " must be 1x128, 128x1, 128x128, 1xall, allx1, allxall, 1x32 or 32x32, got ",
         octet::name(block));
  }
}

void check_fp8(Argument argument, Dtype dtype) {
  if (!is_fp8(dtype)) {
    refuse_argument(argument.op, ": ", argument.name, " must be e4m3 or e5m2, got ", spell(dtype));
  }
}

void check_strided_matrix(Argument argument, const TensorView& view, const MatrixForm& form,
                          Device device) {
  check_matrix_shape(argument, view, form);
  check_dtype(argument, view.dtype, form.dtype);
  check_memory(argument, "", view, device);
  check_reach(argument, "", view);
}

void check_view(Argument argument, const TensorView& view, const MatrixForm& form, Device device) {
  check_strided_matrix(argument, view, form, device);
  if (form.cols > 1 && view.strides[1] != 1) {
    refuse_argument(argument.op, ": ", argument.name,
                    " must have contiguous columns (stride 1), got ", describe(view));
  }
  if (form.rows > 1 && view.strides[0] < form.cols) {
    refuse_argument(argument.op, ": rows of ", argument.name,
                    " overlap: their stride must be at least ", form.cols, ", got ",
                    view.strides[0]);
  }
}

void check_view(Argument argument, const TensorView& view, const TensorForm& form, Device device) {
  if (view.rank != form.rank) {
    refuse_argument(argument.op, ": ", argument.name, " must have rank ", form.rank, ", ",
                    form.spelling, ", got rank ", view.rank);
  }
  const auto* end = form.shape.begin() + form.rank;
  if (!std::equal(form.shape.begin(), end, view.shape.begin())) {
    TensorView right = view;
    right.shape = form.shape;
    refuse_argument(argument.op, ": ", argument.name, " must be ", form.spelling, " = ",
                    describe_shape(right), ", got ", describe_shape(view));
  }
  check_dtype(argument, view.dtype, form.dtype);
  if (std::find(form.shape.begin(), end, 0) != end) return;
  check_memory(argument, "", view, device);
  check_reach(argument, "", view);
  const std::int32_t last = form.rank - 1;
  if (view.shape[last] > 1 && view.strides[last] != 1) {
    refuse_argument(argument.op, ": ", argument.name,
                    " must have a contiguous last dimension (stride 1), got ", describe(view));
  }
  if (!elements_lie_apart(view)) {
    refuse_argument(argument.op, ": elements of ", argument.name,
                    " share memory: ", describe(view));
  }
}

void check_view(Argument argument, const QuantizedView& view, const QuantizedForm& form,
                Device device) {
  const MatrixForm values{form.dtype, form.rows, form.cols, form.spelling};
  if (form.pitch == Pitch::any) {
    check_strided_matrix(argument, view.values, values, device);
  } else {
    check_view(argument, view.values, values, device);
    const auto address = reinterpret_cast<std::uintptr_t>(view.values.data);
    if (address % 16 != 0 || (form.rows > 1 && view.values.strides[0] % 16 != 0)) {
      refuse_argument(argument.op, ": rows of ", argument.name,
                      " must start on 16-byte boundaries, got address ", view.values.data,
                      " and a row stride of ", view.values.strides[0],
                      " bytes; repack copies it into such a layout");
    }
  }
  check_scales(argument, view, form.block, device);
}

void check_view(Argument argument, const QuantizedView& view, const QuantizedBatchForm& form,
                Device device) {
  check_view(argument, view.values,
             TensorForm(form.dtype, {form.batch, form.rows, form.cols}, form.spelling), device);
  const auto address = reinterpret_cast<std::uintptr_t>(view.values.data);
  const auto& strides = view.values.strides;
  if (address % 16 != 0 || (form.rows > 1 && strides[1] % 16 != 0) ||
      (form.batch > 1 && strides[0] % 16 != 0)) {
    refuse_argument(argument.op, ": rows and matrices of ", argument.name,
                    " must start on 16-byte boundaries, got address ", view.values.data,
                    " and strides of ", strides[0], " and ", strides[1], " bytes");
  }
  check_scales(argument, view, form.block, device);
}

}  // namespace octet
