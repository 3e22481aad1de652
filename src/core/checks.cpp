#include "core/checks.hpp"

#include "core/message.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

namespace octet {
namespace {

// No element may lie further from the first, and no line from the next: so bytes fit 64 bits.
constexpr std::int64_t kReach = std::int64_t{1} << 58;  // elements

struct ByteRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

// First to last byte a view may touch. Negative strides are refused before this is asked.
ByteRange byte_range(const TensorView& view) {
  if (view.data == nullptr || view.rank == 0) return {};
  std::int64_t last = 0;
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] <= 0) return {};
    last += (view.shape[i] - 1) * view.strides[i];
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(view.data);
  return {begin, begin + static_cast<std::uintptr_t>((last + 1) * size_bytes(view.dtype))};
}

bool overlap(const ByteRange& a, const ByteRange& b) { return a.begin < b.end && b.begin < a.end; }

struct Dimension {
  std::int64_t extent = 1;
  std::int64_t stride = 0;
};

// Those with a second element, the smallest stride first.
std::vector<Dimension> dimensions_by_stride(const TensorView& view) {
  std::vector<Dimension> result;
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] != 1) result.push_back({view.shape[i], view.strides[i]});
  }
  std::sort(result.begin(), result.end(),
            [](const Dimension& x, const Dimension& y) { return x.stride < y.stride; });
  return result;
}

// Equal runs of bytes at equal distances.
struct Lines {
  std::int64_t bytes = 0;
  std::int64_t pitch = 0;  // 0 where there is but one
};

// Joins what lies side by side; nothing where two dimensions or more have gaps.
std::optional<Lines> lines_of(const TensorView& view) {
  const std::int64_t element_bytes = size_bytes(view.dtype);
  Lines lines{element_bytes, 0};
  std::int64_t end = 0;  // of the lines joined so far, where the next would begin
  for (const Dimension& dimension : dimensions_by_stride(view)) {
    const std::int64_t step = dimension.stride * element_bytes;
    if (lines.pitch == 0 && step == lines.bytes) {
      lines.bytes *= dimension.extent;
    } else if (lines.pitch == 0 && step > lines.bytes) {
      lines.pitch = step;
      end = step * dimension.extent;
    } else if (lines.pitch != 0 && step == end) {
      end = step * dimension.extent;
    } else {
      return std::nullopt;
    }
  }
  return lines;
}

// Two views that take different parts of the lines of one tensor.
bool lie_side_by_side(const TensorView& x, const TensorView& y) {
  const auto a = lines_of(x);
  const auto b = lines_of(y);
  if (!a || !b || a->pitch == 0 || a->pitch != b->pitch) return false;
  const auto distance = reinterpret_cast<std::intptr_t>(y.data) -  //
                        reinterpret_cast<std::intptr_t>(x.data);
  const std::int64_t offset = (distance % a->pitch + a->pitch) % a->pitch;
  return offset >= a->bytes && offset + b->bytes <= a->pitch;
}

bool overlap(const TensorView& x, const TensorView& y) {
  return x.device == y.device && overlap(byte_range(x), byte_range(y)) && !lie_side_by_side(x, y);
}

// Scales that lie line behind line: which of their dimensions runs along a line.
int contiguous_dimension(const TensorView& scales) { return scales.strides[0] == 1 ? 0 : 1; }

// A matrix and the padding behind each of its lines.
TensorView with_padding(TensorView view, int contiguous) {
  const std::int64_t pitch = view.strides[1 - contiguous];
  const bool in_lines = view.strides[contiguous] == 1 || view.shape[contiguous] == 1;
  if (view.data != nullptr && in_lines && pitch > view.shape[contiguous] && pitch <= kReach) {
    view.shape[contiguous] = pitch;
    view.strides[contiguous] = 1;
  }
  return view;
}

// What whoever writes the view may touch.
QuantizedView with_padding(QuantizedView view) {
  if (!view.owns_padding) return view;
  view.values = with_padding(view.values, 1);
  view.scales = with_padding(view.scales, contiguous_dimension(view.scales));
  return view;
}

// No two elements share memory: each stride steps over all that smaller ones reach.
bool elements_lie_apart(const TensorView& view) {
  std::int64_t last = 0;
  for (const Dimension& dimension : dimensions_by_stride(view)) {
    if (dimension.stride <= last) return false;
    last += (dimension.extent - 1) * dimension.stride;
  }
  return true;
}

// "e4m3", or the number where it names no dtype.
std::string spell(Dtype dtype) {
  if (size_bytes(dtype) != 0) return std::string(name(dtype));
  return text("the unknown dtype ", static_cast<std::int32_t>(dtype));
}

void check_memory(Argument argument, const TensorView& view, Device device) {
  if (view.data == nullptr) {
    refuse_argument(argument.op, ": ", argument.name, " has a null pointer");
  }
  if (!(view.device == device)) {
    refuse_argument(argument.op, ": ", argument.name, " is on ", name(view.device),
                    ", the problem is on ", name(device));
  }
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  if (address % static_cast<std::uintptr_t>(size_bytes(view.dtype)) != 0) {
    refuse_argument(argument.op, ": ", argument.name, " must be aligned to ",
                    size_bytes(view.dtype), " bytes for ", name(view.dtype), ", got address ",
                    view.data);
  }
}

void check_matrix_shape(Argument argument, const TensorView& view, std::int64_t rows,
                        std::int64_t cols, std::string_view wanted) {
  if (view.rank != 2) {
    refuse_argument(argument.op, ": ", argument.name, " must have rank 2, ", wanted, ", got rank ",
                    view.rank);
  }
  if (view.rows() != rows || view.cols() != cols) {
    refuse_argument(argument.op, ": ", argument.name, " must be ", wanted, " = [", rows, ", ", cols,
                    "], got ", describe_shape(view));
  }
}

void check_dtype(Argument argument, Dtype given, Dtype wanted) {
  if (given != wanted) {
    refuse_argument(argument.op, ": ", argument.name, " must be ", name(wanted), ", got ",
                    spell(given));
  }
}

void check_reach(Argument argument, const TensorView& view) {
  std::int64_t last = 0;
  for (int i = 0; i < view.rank; ++i) {
    std::int64_t step = 0;
    if (view.strides[i] < 0 || __builtin_mul_overflow(view.shape[i] - 1, view.strides[i], &step) ||
        __builtin_add_overflow(last, step, &last) || last > kReach) {
      refuse_argument(argument.op, ": ", argument.name,
                      " has a stride that is negative or out of range: ", describe(view));
    }
  }
}

void check_scales(Argument argument, const QuantizedView& view, BlockShape block, Device device) {
  const TensorView& scales = view.scales;
  const std::int64_t rows = block.rows == 0 ? 1 : ceil_div(view.values.rows(), block.rows);
  const std::int64_t cols = block.cols == 0 ? 1 : ceil_div(view.values.cols(), block.cols);
  if (scales.data == nullptr) {
    refuse_argument(argument.op, ": scale of ", argument.name, " has a null pointer");
  }
  if (scales.rank != 2 || scales.rows() != rows || scales.cols() != cols) {
    refuse_argument(argument.op, ": scale of ", argument.name, " must be [", rows, ", ", cols,
                    "] for ", name(block), " blocks of ", argument.name,
                    describe_shape(view.values), ", got ", describe_shape(scales));
  }
  if (scales.dtype != Dtype::f32) {
    refuse_argument(argument.op, ": scale of ", argument.name, " must be f32, got ",
                    spell(scales.dtype));
  }
  const std::string scale_name = text("scale of ", argument.name);
  check_memory({argument.op, scale_name}, scales, device);
  check_reach({argument.op, scale_name}, scales);
}

// What is written at the same time must not share memory with itself.
void check_written(std::string_view op, std::string_view name, const QuantizedView& out) {
  if (out.scales.data == nullptr) return;
  if (!elements_lie_apart(out.scales)) {
    refuse_argument(op, ": elements of scale of ", name, " share memory: ", describe(out.scales));
  }
  const int contiguous = contiguous_dimension(out.scales);
  if (!out.owns_padding) return;
  if (out.scales.strides[contiguous] != 1 && out.scales.shape[contiguous] != 1) {
    refuse_argument(op, ": scale of ", name,
                    " owns its padding, so one of its strides must be 1, got ",
                    describe(out.scales));
  }
  if (out.values.strides[0] > kReach || out.scales.strides[1 - contiguous] > kReach) {
    refuse_argument(op, ": ", name, " owns its padding, so its strides must be at most ", kReach,
                    ", got ", describe(out));
  }
}

}  // namespace

void check_count(std::string_view op, std::string_view name, std::int64_t count) {
  if (count < 0) refuse_argument(op, ": ", name, " must be at least 0, got ", count);
}

void check_extent(std::string_view op, std::string_view name, std::int64_t extent) {
  if (extent < 1) refuse_argument(op, ": ", name, " must be at least 1, got ", extent);
}

void check_size(std::string_view op, std::int64_t rows, std::int64_t cols, Dtype dtype) {
  // An empty tensor has extents too, and they are reckoned with.
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(std::max<std::int64_t>(rows, 1), std::max<std::int64_t>(cols, 1),
                             &bytes) ||
      __builtin_mul_overflow(bytes, size_bytes(dtype), &bytes) || bytes > (std::int64_t{1} << 60)) {
    refuse_argument(op, ": a tensor of ", rows, " x ", cols, " ", name(dtype),
                    " passes the 2^60 bytes octet can address");
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

void check_fp8(Argument argument, Dtype dtype) {
  if (!is_fp8(dtype)) {
    refuse_argument(argument.op, ": ", argument.name, " must be e4m3 or e5m2, got ", spell(dtype));
  }
}

void check_strided_matrix(Argument argument, const TensorView& view, Dtype dtype, std::int64_t rows,
                          std::int64_t cols, Device device, std::string_view wanted) {
  check_matrix_shape(argument, view, rows, cols, wanted);
  check_dtype(argument, view.dtype, dtype);
  check_memory(argument, view, device);
  check_reach(argument, view);
}

void check_matrix(Argument argument, const TensorView& view, Dtype dtype, std::int64_t rows,
                  std::int64_t cols, Device device, std::string_view wanted) {
  check_strided_matrix(argument, view, dtype, rows, cols, device, wanted);
  if (cols > 1 && view.strides[1] != 1) {
    refuse_argument(argument.op, ": ", argument.name,
                    " must have contiguous columns (stride 1), got ", describe(view));
  }
  if (rows > 1 && view.strides[0] < cols) {
    refuse_argument(argument.op, ": rows of ", argument.name,
                    " overlap: their stride must be at least ", cols, ", got ", view.strides[0]);
  }
}

void check_vector(Argument argument, const TensorView& view, Dtype dtype, std::int64_t length,
                  Device device, std::string_view wanted) {
  check_tensor(argument, view, dtype, {length}, device, wanted);
}

void check_tensor(Argument argument, const TensorView& view, Dtype dtype,
                  std::initializer_list<std::int64_t> shape, Device device,
                  std::string_view wanted) {
  const auto rank = static_cast<std::int32_t>(shape.size());
  if (view.rank != rank) {
    refuse_argument(argument.op, ": ", argument.name, " must have rank ", rank, ", ", wanted,
                    ", got rank ", view.rank);
  }
  TensorView right = view;
  std::copy(shape.begin(), shape.end(), right.shape.begin());
  if (!std::equal(shape.begin(), shape.end(), view.shape.begin())) {
    refuse_argument(argument.op, ": ", argument.name, " must be ", wanted, " = ",
                    describe_shape(right), ", got ", describe_shape(view));
  }
  check_dtype(argument, view.dtype, dtype);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  check_memory(argument, view, device);
  check_reach(argument, view);
  if (view.shape[rank - 1] > 1 && view.strides[rank - 1] != 1) {
    refuse_argument(argument.op, ": ", argument.name,
                    " must have a contiguous last dimension (stride 1), got ", describe(view));
  }
  if (!elements_lie_apart(view)) {
    refuse_argument(argument.op, ": elements of ", argument.name,
                    " share memory: ", describe(view));
  }
}

void check_quantized(Argument argument, const QuantizedView& view, Dtype dtype, std::int64_t rows,
                     std::int64_t cols, BlockShape block, Device device, Pitch pitch,
                     std::string_view wanted) {
  if (pitch == Pitch::any) {
    check_strided_matrix(argument, view.values, dtype, rows, cols, device, wanted);
  } else {
    check_matrix(argument, view.values, dtype, rows, cols, device, wanted);
    const auto address = reinterpret_cast<std::uintptr_t>(view.values.data);
    if (address % 16 != 0 || (rows > 1 && view.values.strides[0] % 16 != 0)) {
      refuse_argument(argument.op, ": rows of ", argument.name,
                      " must start on 16-byte boundaries, got address ", view.values.data,
                      " and a row stride of ", view.values.strides[0],
                      " bytes; repack copies it into such a layout");
    }
  }
  if (!(view.block == block)) {
    refuse_argument(argument.op, ": ", argument.name, " must have ", name(block), " blocks, got ",
                    name(view.block));
  }
  check_scales(argument, view, block, device);
}

void check_workspace(std::string_view op, std::size_t wanted_bytes, const Workspace& workspace) {
  if (wanted_bytes == 0) return;
  if (workspace.data == nullptr || workspace.bytes < wanted_bytes) {
    refuse_argument(op, ": workspace must have ", wanted_bytes, " bytes, got ",
                    workspace.data == nullptr ? 0 : workspace.bytes);
  }
  if (reinterpret_cast<std::uintptr_t>(workspace.data) % kAlignment != 0) {
    refuse_argument(op, ": workspace must be aligned to ", kAlignment, " bytes, got address ",
                    workspace.data);
  }
}

bool same_view(const TensorView& x, const TensorView& y) {
  return x.data == y.data && x.dtype == y.dtype && x.rank == y.rank && x.device == y.device &&
         std::equal(x.shape.begin(), x.shape.begin() + x.rank, y.shape.begin()) &&
         std::equal(x.strides.begin(), x.strides.begin() + x.rank, y.strides.begin());
}

void check_no_overlap(std::string_view op, std::string_view out_name, const TensorView& out,
                      std::string_view in_name, const TensorView& in) {
  if (overlap(out, in)) {
    refuse_argument(op, ": output ", out_name, " overlaps ", in_name,
                    ": their memory must be apart");
  }
}

void check_no_overlap(std::string_view op, std::string_view out_name, const QuantizedView& out_view,
                      std::string_view in_name, const QuantizedView& in_view) {
  check_written(op, out_name, out_view);
  const QuantizedView out = with_padding(out_view);
  const QuantizedView in = with_padding(in_view);
  const std::string out_scale = text("scale of ", out_name);
  const std::string in_scale = text("scale of ", in_name);
  check_no_overlap(op, out_name, out.values, out_scale, out.scales);
  check_no_overlap(op, out_name, out.values, in_name, in.values);
  check_no_overlap(op, out_name, out.values, in_scale, in.scales);
  check_no_overlap(op, out_scale, out.scales, in_name, in.values);
  check_no_overlap(op, out_scale, out.scales, in_scale, in.scales);
}

void check_outputs_apart(std::string_view op, std::initializer_list<NamedView> outputs,
                         std::initializer_list<NamedView> inputs) {
  for (const NamedView* out = outputs.begin(); out != outputs.end(); ++out) {
    for (const NamedView& in : inputs) check_no_overlap(op, out->name, out->view, in.name, in.view);
    for (const NamedView* other = outputs.begin(); other != out; ++other) {
      check_no_overlap(op, out->name, out->view, other->name, other->view);
    }
  }
}

void check_workspace_apart(std::string_view op, std::size_t used_bytes, const Workspace& workspace,
                           std::initializer_list<NamedView> arguments) {
  if (used_bytes == 0) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(workspace.data);
  const ByteRange used{begin, begin + used_bytes};
  for (const NamedView& argument : arguments) {
    const QuantizedView padded = with_padding(argument.view);
    if (overlap(used, byte_range(padded.values)) || overlap(used, byte_range(padded.scales))) {
      refuse_argument(op, ": workspace overlaps ", argument.name, ": their memory must be apart");
    }
  }
}

}  // namespace octet
