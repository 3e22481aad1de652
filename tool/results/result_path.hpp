// What may stand where a file is to be written.
#pragma once

#include "tool/results/csv.hpp"

#include <cstddef>
#include <string>

namespace octet::tool {

// The first bytes of what is to be replaced; empty where there is nothing. Throws UsageError, which begins
// with `option`, where `path` is a folder, a device or a file that cannot be read.
std::string beginning_to_replace(const std::string& option, const std::string& path,
                                 std::size_t bytes);
// It is not `wanted` ("results of octet").
[[noreturn]] void refuse_to_replace(const std::string& option, const std::string& path,
                                    const std::string& wanted);

// Throws UsageError, which begins with `option`, where `path` is a folder, a device, a file that
// cannot be read, or one that has something else than results of octet: none is to be replaced.
void require_results_or_nothing(const std::string& option, const std::string& path);

// The rows of `path` are to stand beside others under `header`; `op` is what those have in their
// column Operator, empty where there is none. Throws UsageError where they have other columns or are
// of another operator, or where one cannot be read back: it would be lost.
void require_rows_that_fit(const std::string& path, const CsvRow& header, const std::string& op);

}  // namespace octet::tool
