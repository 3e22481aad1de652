// Problems by their canonical text: what describe() wrote, in a log or a tuning table.
#pragma once

#include "bench/tune/tunable.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace octet::tool {

// "gemm" of "gemm --shape 8x8x8 ..."
std::string operator_of(std::string_view problem);
// Whether octet tune knows the operator: gemm, grouped-gemm and attention.
bool is_tunable(std::string_view problem);

// The problem with its candidates. A text without --device, as in a table, or with another CUDA device gets `device`.
// Throws UsageError if the text is not what describe() writes, and Error if nothing takes the problem.
std::unique_ptr<bench::Tunable> read_problem(const std::string& problem, Device device,
                                             const DataOptions& options);

}  // namespace octet::tool
