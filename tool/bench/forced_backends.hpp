// What the environment forced on a run, as part of the command line that repeats it.
#pragma once

#include <string>

namespace octet::tool {

// `command` is "octet bench OP ..." or "octet check OP ...". In front of it comes every variable that
// is set and that OP asks: "OCTET_GEMM_BACKEND=cpu_reference octet bench gemm ...".
std::string with_forced_backends(const std::string& command);

}  // namespace octet::tool
