// Where a result comes from: commit, device sources, version, time.
#pragma once

#include <string>

namespace octet::tool {

std::string commit();  // "unknown" if not built from a git tree
// A hash of the sources that decide what an operator ("rms-norm" or "rms_norm") runs on a GPU:
// results with different hashes were measured with different kernels. Empty for an unknown `op`.
std::string device_sources(std::string op);
std::string version_text();  // "octet 0.1.0 (commit)"
std::string utc_now();       // "2026-01-31T12:34:56Z"

}  // namespace octet::tool
