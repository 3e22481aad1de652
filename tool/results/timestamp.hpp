// Points in time as every record of octet has them.
#pragma once

#include <fmt/chrono.h>

#include <ctime>
#include <string>

namespace octet::tool {

// "2026-01-31T12:34:56Z"
inline std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace octet::tool
