// The numbers of the C API are those of the C++ enums: checked here, relied upon by every cast.
#include <octet/octet.h>
#include <octet/octet.hpp>

namespace octet {
namespace {

template <class Enum>
constexpr bool equal(std::int32_t c_number, Enum value) {
  return c_number == static_cast<std::int32_t>(value);
}

static_assert(equal(OCTET_INVALID_ARGUMENT, ErrorCode::invalid_argument));
static_assert(equal(OCTET_UNSUPPORTED, ErrorCode::unsupported));
static_assert(equal(OCTET_OUT_OF_MEMORY, ErrorCode::out_of_memory));
static_assert(equal(OCTET_NO_DEVICE, ErrorCode::no_device));
static_assert(equal(OCTET_DEVICE_ERROR, ErrorCode::device_error));
static_assert(equal(OCTET_INTERNAL, ErrorCode::internal));

static_assert(equal(OCTET_F32, Dtype::f32));
static_assert(equal(OCTET_F16, Dtype::f16));
static_assert(equal(OCTET_BF16, Dtype::bf16));
static_assert(equal(OCTET_E4M3, Dtype::e4m3));
static_assert(equal(OCTET_E5M2, Dtype::e5m2));
static_assert(equal(OCTET_UE8M0, Dtype::ue8m0));
static_assert(equal(OCTET_I32, Dtype::i32));
static_assert(equal(OCTET_I64, Dtype::i64));

static_assert(equal(OCTET_CPU, DeviceType::cpu));
static_assert(equal(OCTET_CUDA, DeviceType::cuda));

static_assert(equal(OCTET_MAJOR_K, Major::k));
static_assert(equal(OCTET_MAJOR_MN, Major::mn));

static_assert(equal(OCTET_WGRAD_ROWS, WgradBlocks::rows));
static_assert(equal(OCTET_WGRAD_SQUARE, WgradBlocks::square));

static_assert(equal(OCTET_GROUPS_NONE, GroupKind::none));
static_assert(equal(OCTET_ACTIVATION_NONE, Activation::none));

static_assert(equal(OCTET_ROPE_ROTATE_HALF, RopeStyle::rotate_half));
static_assert(equal(OCTET_ROPE_INTERLEAVED, RopeStyle::interleaved));

static_assert(equal(OCTET_NORM_ROW, NormScope::row));
static_assert(equal(OCTET_NORM_HEAD, NormScope::head));

static_assert(equal(OCTET_GATE_SILU, GateActivation::silu));
static_assert(equal(OCTET_GATE_GELU_TANH, GateActivation::gelu_tanh));
static_assert(equal(OCTET_GATE_GELU_ERF, GateActivation::gelu_erf));
static_assert(equal(OCTET_GATE_RELU_SQUARED, GateActivation::relu_squared));

static_assert(OCTET_MAX_RANK == kMaxRank);
static_assert(OCTET_ALIGNMENT == kAlignment);

}  // namespace
}  // namespace octet

extern "C" {

int octet_version(void) { return octet::version(); }

size_t octet_dtype_size(octet_dtype dtype) {
  return static_cast<size_t>(octet::size_bytes(static_cast<octet::Dtype>(dtype)));
}

// The names are literals, so they end with a zero.
const char* octet_dtype_name(octet_dtype dtype) {
  return octet::name(static_cast<octet::Dtype>(dtype)).data();
}

int octet_cuda_device_count(void) { return octet::cuda_device_count(); }

}  // extern "C"
