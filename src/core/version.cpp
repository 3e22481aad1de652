#include <octet/octet.hpp>

namespace octet {

int version() noexcept { return OCTET_VERSION; }

}  // namespace octet
