// What octet profile runs in a process of its own: the launches of a case, for ncu to record, or
// its timing without ncu. Both print facts, a line each, "forward power (W): 690", which the process
// that started them reads.
#pragma once

#include "tool/operators/operator.hpp"

#include <map>
#include <string>
#include <vector>

namespace octet::tool {

// The parts of a case, in the order of its workload: forward, backward.
std::vector<std::string> parts_of(RowKind rows);

// Plans the case, runs every part once as a warm-up, then `calls` times. Only the launches of
// `wanted` parts are recorded.
void run_launches(const Operator& op, const Case& one, const std::vector<std::string>& wanted,
                  std::int64_t calls);

// Checks the gates of the case, then times every wanted part by itself for `seconds`, back to back,
// with the clock and the power meanwhile; 0 seconds: only the gates. Returns false if one failed; then
// nothing is timed.
bool run_timing(const Operator& op, const Case& one, const std::vector<std::string>& wanted,
                double seconds);

using Facts = std::map<std::string, std::string>;
// The lines "NAME: VALUE" of an output; others are skipped.
Facts parse_facts(const std::string& text);

}  // namespace octet::tool
