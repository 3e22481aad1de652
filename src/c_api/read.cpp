#include "c_api/read.hpp"

namespace octet::c_api {

static_assert(OCTET_ALL == kAll);

std::uint32_t read_struct_size(std::string_view op, std::string_view argument, const void* given,
                               std::uint32_t first_size, std::uint32_t known_size) {
  check_pointer(op, argument, given);
  std::uint32_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < first_size || size > kLargestStruct) {
    refuse_argument(op, ": struct_size of ", argument, " must be at least ", first_size,
                    " and at most ", kLargestStruct, ", got ", size,
                    "; OCTET_INIT or the struct's own init function sets it");
  }
  const auto* bytes = static_cast<const unsigned char*>(given);
  for (std::uint32_t i = known_size; i < size; ++i) {
    if (bytes[i] != 0) {
      fail(ErrorCode::unsupported, op, ": ", argument,
           " comes from newer headers and uses a field that octet ", OCTET_VERSION_MAJOR, ".",
           OCTET_VERSION_MINOR, ".", OCTET_VERSION_PATCH, " does not know (struct_size ", size,
           ", known ", known_size, ")");
    }
  }
  return size;
}

bool read_flag(std::string_view op, const Field& field, std::int32_t value) {
  if (value != 0 && value != 1) {
    refuse_argument(op, ": ", field, " must be 0 or 1, got ", value);
  }
  return value == 1;
}

void check_unused(std::string_view op, std::string_view field, bool unused) {
  if (!unused) {
    fail(ErrorCode::unsupported, op, ": ", field,
         " is not supported by this version of octet: leave it zero");
  }
}

std::string read_text(const char* text) { return text == nullptr ? "" : text; }

Dtype read_dtype(std::string_view op, const Field& argument, octet_dtype dtype) {
  if (size_bytes(static_cast<Dtype>(dtype)) == 0) {
    refuse_argument(op, ": dtype of ", argument, " must be one of the numbers 1 (f32) to 8 (i64)",
                    ", got ", dtype);
  }
  return static_cast<Dtype>(dtype);
}

std::optional<Dtype> read_optional_dtype(std::string_view op, const Field& argument,
                                         octet_dtype dtype) {
  if (dtype == 0) return std::nullopt;
  return read_dtype(op, argument, dtype);
}

Device read_device(std::string_view op, const Field& argument, octet_device device) {
  if (device.type != OCTET_CPU && device.type != OCTET_CUDA) {
    refuse_argument(op, ": device type of ", argument, " must be 1 (cpu) or 2 (cuda), got ",
                    device.type);
  }
  return {static_cast<DeviceType>(device.type), device.index};
}

BlockShape read_block(std::string_view op, const Field& argument, octet_block block) {
  if (block.rows < OCTET_ALL || block.cols < OCTET_ALL) {
    refuse_argument(op, ": block of ", argument,
                    " must have rows and cols of at least 0, or OCTET_ALL (-1), got ", block.rows,
                    "x", block.cols);
  }
  return {block.rows, block.cols};
}

std::optional<BlockShape> read_optional_block(std::string_view op, std::string_view argument,
                                              octet_block block) {
  const octet_block none = octet_no_copy();
  if (block.rows == none.rows && block.cols == none.cols) return std::nullopt;
  return read_block(op, argument, block);
}

TensorView read_tensor(std::string_view op, const Field& argument, const octet_tensor& tensor) {
  if (tensor.data == nullptr && tensor.rank == 0) return {};
  if (tensor.rank < 0 || tensor.rank > OCTET_MAX_RANK) {
    refuse_argument(op, ": rank of ", argument, " must be between 0 and ", OCTET_MAX_RANK, ", got ",
                    tensor.rank);
  }
  TensorView view;
  view.data = tensor.data;
  view.dtype = read_dtype(op, argument, tensor.dtype);
  view.rank = tensor.rank;
  std::copy_n(tensor.shape, tensor.rank, view.shape.begin());
  std::copy_n(tensor.strides, tensor.rank, view.strides.begin());
  view.device = read_device(op, argument, tensor.device);
  return view;
}

QuantizedView read_quantized(std::string_view op, std::string_view argument,
                             const octet_quantized& quantized) {
  QuantizedView view;
  view.values = read_tensor(op, argument, quantized.values);
  view.scales = read_tensor(op, {"scale of ", argument}, quantized.scales);
  view.block = read_block(op, argument, quantized.block);
  view.owns_padding = read_flag(op, {"owns_padding of ", argument}, quantized.owns_padding);
  check_reserved(op, argument, quantized);
  return view;
}

GemmOperand read_operand(std::string_view op, std::string_view argument,
                         const octet_gemm_operand& operand) {
  check_nested(op, argument, operand);
  return {read_dtype(op, argument, operand.dtype), read_block(op, argument, operand.block),
          static_cast<Major>(operand.major),
          read_dtype(op, {"the scales of ", argument}, operand.scale_dtype)};
}

PlanOptions read_options(std::string_view op, const octet_plan_options* options) {
  if (options == nullptr) return {};
  const octet_plan_options given = read_struct(op, "options", options);
  return {read_text(given.backend), given.threads, read_text(given.configuration)};
}

Fp8LinearOptions read_options(std::string_view op, const octet_fp8_linear_options* options) {
  if (options == nullptr) return {};
  const octet_fp8_linear_options given = read_struct(op, "options", options);
  return {read_text(given.gemm_backend), read_text(given.quantize_backend), given.threads};
}

std::optional<Fp8Output> read_fp8_output(std::string_view op, const octet_fp8_output& c) {
  if (!read_flag(op, "fp8.enabled", c.enabled)) return std::nullopt;
  check_nested(op, "fp8", c);
  Fp8Output output;
  output.format = read_dtype(op, "fp8.format", c.format);
  output.block = read_optional_block(op, "fp8.out", c.block);
  output.transposed_block = read_optional_block(op, "fp8.transposed", c.transposed_block);
  output.amax_floor = c.amax_floor;
  output.pow2_scales = read_flag(op, "fp8.pow2_scales", c.pow2_scales);
  return output;
}

Fp8Copies read_fp8_copies(std::string_view op, const Fp8Output& output, const octet_fp8_copies& c) {
  check_reserved(op, "fp8", c);
  Fp8Copies copies;
  if (output.block) copies.out = read_quantized(op, "fp8.out", c.out);
  if (output.transposed_block) {
    copies.transposed = read_quantized(op, "fp8.transposed", c.transposed);
  }
  return copies;
}

static_assert(equal(OCTET_ROPE_ROTATE_HALF, RopeStyle::rotate_half));
static_assert(equal(OCTET_ROPE_INTERLEAVED, RopeStyle::interleaved));

Rotation read_rotation(std::string_view op, const octet_rotation& c) {
  check_nested(op, "rotation", c);
  Rotation rotation;
  rotation.style = static_cast<RopeStyle>(c.style);
  rotation.rotary_dim = c.rotary_dim;
  rotation.cache_rows = c.cache_rows;
  rotation.full_cache = read_flag(op, "full_cache", c.full_cache);
  rotation.cache_dtype = read_dtype(op, "cache", c.cache_dtype);
  rotation.positions_dtype = read_optional_dtype(op, "positions", c.positions_dtype);
  return rotation;
}

RotationArgs read_rotation_args(std::string_view op, const Rotation& rotation,
                                const octet_rotation_args& c) {
  check_reserved(op, "rotation", c);
  RotationArgs args;
  args.cos = read_tensor(op, "cos", c.cos);
  args.sin = read_tensor(op, "sin", c.sin);
  if (rotation.positions_dtype) args.positions = read_tensor(op, "positions", c.positions);
  return args;
}

octet_tensor write_tensor(const TensorView& view) {
  octet_tensor tensor{};
  tensor.data = view.data;
  tensor.dtype = static_cast<octet_dtype>(view.dtype);
  tensor.rank = view.rank;
  std::copy_n(view.shape.begin(), view.rank, tensor.shape);
  std::copy_n(view.strides.begin(), view.rank, tensor.strides);
  tensor.device = {static_cast<octet_device_type>(view.device.type), view.device.index};
  return tensor;
}

octet_quantized write_quantized(const QuantizedView& view) {
  octet_quantized quantized{};
  quantized.values = write_tensor(view.values);
  quantized.scales = write_tensor(view.scales);
  quantized.block = {view.block.rows, view.block.cols};
  quantized.owns_padding = view.owns_padding;
  return quantized;
}

octet_quantized_layout write_layout(const QuantizedLayout& layout) {
  octet_quantized_layout result{};
  result.struct_size = sizeof result;
  result.rows = layout.rows;
  result.cols = layout.cols;
  result.dtype = static_cast<octet_dtype>(layout.dtype);
  result.block = {layout.block.rows, layout.block.cols};
  result.pitch = layout.pitch;
  std::copy_n(layout.scale_shape, 2, result.scale_shape);
  std::copy_n(layout.scale_strides, 2, result.scale_strides);
  result.scales_offset = layout.scales_offset;
  result.bytes = layout.bytes;
  return result;
}

octet_quantized_batch_layout write_layout(const QuantizedBatchLayout& layout, bool token_blocks) {
  octet_quantized_batch_layout result{};
  result.struct_size = sizeof result;
  result.batch = layout.batch;
  result.rows = layout.rows;
  result.cols = layout.cols;
  result.dtype = static_cast<octet_dtype>(layout.dtype);
  result.block = {layout.block.rows, layout.block.cols};
  result.pitch = layout.pitch;
  std::copy_n(layout.scale_shape, 3, result.scale_shape);
  std::copy_n(layout.scale_strides, 3, result.scale_strides);
  result.scales_offset = layout.scales_offset;
  result.bytes = layout.bytes;
  result.token_blocks = token_blocks;
  return result;
}

}  // namespace octet::c_api
