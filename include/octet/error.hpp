// The one exception octet throws. A message names the operator, the argument, what was given, what
// was wanted and the way out, if any.
#pragma once

#include <octet/export.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace octet {

// Numbers are stable: they are the octet_status of the C API.
enum class ErrorCode : std::int32_t {
  invalid_argument = 1,  // an invalid value, pointer, shape, stride or dtype
  unsupported = 2,       // well formed, but no implementation takes it
  out_of_memory = 3,     // an allocation failed; nothing was written
  no_device = 4,         // the device asked for is not on this machine
  device_error = 5,      // the device reported a failure
  internal = 6,          // a defect in octet
  file_error = 7,        // a file could not be read or written
};

class OCTET_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace octet
