#include "tool/results/provenance.hpp"

#include "tool/options/parse.hpp"

#include "octet_commit.h"

#include <octet/octet.h>
#include <octet/version.h>

#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>

namespace octet::tool {

std::string commit() { return OCTET_COMMIT; }

std::string device_sources(std::string op) {
  return octet_device_sources(with_underscores(std::move(op)).c_str());
}

std::string version_text() {
  return fmt::format("octet {}.{}.{} ({})", OCTET_VERSION_MAJOR, OCTET_VERSION_MINOR,
                     OCTET_VERSION_PATCH, commit());
}

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace octet::tool
