// A digest of the machine code of each operator's kernels, which ties a result to what ran.
#include <octet/octet.h>

#include <string_view>

namespace {

struct OctetDeviceSources {
  std::string_view op;
  const char* digest;
};

}  // namespace

#ifdef OCTET_HAS_CUDA
#include "octet_device_sources.h"  // made by cmake/kernels/digest.py when the kernels are compiled
#else
namespace {
constexpr OctetDeviceSources kOctetDeviceSources[] = {{"", ""}};
}
#endif

const char* octet_device_sources(const char* op) {
  const std::string_view wanted = op == nullptr ? "" : op;
  for (const OctetDeviceSources& sources : kOctetDeviceSources) {
    if (sources.op == wanted) return sources.digest;
  }
  return "";
}
