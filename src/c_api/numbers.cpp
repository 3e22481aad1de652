// The numbers of errors, dtypes and devices, equal to those of the C++ enums, and queries about the
// library.
#include "c_api/read.hpp"
#include "c_api/status.hpp"

namespace octet::c_api {
namespace {

static_assert(equal(OCTET_INVALID_ARGUMENT, ErrorCode::invalid_argument));
static_assert(equal(OCTET_UNSUPPORTED, ErrorCode::unsupported));
static_assert(equal(OCTET_OUT_OF_MEMORY, ErrorCode::out_of_memory));
static_assert(equal(OCTET_NO_DEVICE, ErrorCode::no_device));
static_assert(equal(OCTET_DEVICE_ERROR, ErrorCode::device_error));
static_assert(equal(OCTET_FILE_ERROR, ErrorCode::file_error));
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

static_assert(OCTET_MAX_RANK == kMaxRank);
static_assert(OCTET_ALIGNMENT == kAlignment);

}  // namespace
}  // namespace octet::c_api

int octet::version() noexcept { return OCTET_VERSION; }

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

octet_status octet_set_tuning_table(const char* path) {
  return octet::c_api::guarded([&] { octet::set_tuning_table(path == nullptr ? "" : path); });
}

const char* octet_tuning_table(void) {
  thread_local std::string path;
  const octet_status status = octet::c_api::guarded([&] { path = octet::tuning_table(); });
  return status == OCTET_OK ? path.c_str() : nullptr;
}

}  // extern "C"
