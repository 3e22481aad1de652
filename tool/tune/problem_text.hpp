// Problems by their canonical text: what describe() wrote, in a log or a tuning table.
#pragma once

#include "bench/tune/tunable.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace octet::tool {

// "gemm" of "gemm --shape 8x8x8 ..."
std::string operator_of(std::string_view problem);
// The implementations of an operator that octet tune knows (gemm, grouped-gemm or attention); of others, none.
std::vector<std::string> implementations_of(std::string_view op);
inline bool is_tunable(std::string_view problem) {
  return !implementations_of(operator_of(problem)).empty();
}

// The device of a call, as OCTET_LOG=calls prints it. Throws UsageError if the text is not what describe() writes.
Device device_of_call(const std::string& problem);

// The problem with its candidates, on `device`, whatever the text has. Throws UsageError if the text is not what
// describe() writes, and Error if nothing takes the problem.
std::unique_ptr<bench::Tunable> read_problem(const std::string& problem, Device device,
                                             const DataOptions& options);

}  // namespace octet::tool
