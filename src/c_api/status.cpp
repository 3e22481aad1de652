#include "c_api/status.hpp"

#include <string>

namespace octet::c_api {
namespace {

// Replaces a message that cannot be copied because memory ran out.
constexpr const char* kNoMemoryForMessage = "octet: out of memory, even for the error's message";

struct LastError {
  std::string message;
  const char* text = "";
};

LastError& last_error() noexcept {
  thread_local LastError error;
  return error;
}

}  // namespace

octet_status remember(octet_status status, const char* message) noexcept {
  LastError& error = last_error();
  try {
    error.message = message;
    error.text = error.message.c_str();
  } catch (...) {
    error.text = kNoMemoryForMessage;
  }
  return status;
}

}  // namespace octet::c_api

extern "C" {

const char* octet_last_error(void) { return octet::c_api::last_error().text; }

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
