#include "c_api/status.hpp"

#include <cstddef>
#include <cstdio>

namespace octet::c_api {
namespace {

// The last error of this thread. A plain array: nothing is allocated, and no destructor has to be
// registered, so an error is reported even if memory ran out. Longer messages are cut.
constexpr std::size_t kLongestMessage = 8192;
thread_local char last_message[kLongestMessage] = "";

}  // namespace

octet_status remember(octet_status status, const char* message) noexcept {
  std::snprintf(last_message, kLongestMessage, "%s", message);
  return status;
}

}  // namespace octet::c_api

extern "C" {

const char* octet_last_error(void) { return octet::c_api::last_message; }

const char* octet_status_name(octet_status status) {
  switch (status) {
    case OCTET_OK: return "ok";
    case OCTET_INVALID_ARGUMENT: return "invalid_argument";
    case OCTET_UNSUPPORTED: return "unsupported";
    case OCTET_OUT_OF_MEMORY: return "out_of_memory";
    case OCTET_NO_DEVICE: return "no_device";
    case OCTET_DEVICE_ERROR: return "device_error";
    case OCTET_FILE_ERROR: return "file_error";
    case OCTET_INTERNAL: return "internal";
    default: return "unknown status";
  }
}

}  // extern "C"
