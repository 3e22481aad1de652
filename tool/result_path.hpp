// What may stand where results are to be written.
#pragma once

#include "csv.hpp"

#include <string>

namespace octet::tool {

// Throws UsageError, which begins with `option`, where `path` is a folder, a device, a file that
// cannot be read, or one that has something else than results of octet: none is to be replaced.
void require_results_or_nothing(const std::string& option, const std::string& path);

// The names of the columns of a file of results; none where it is missing or empty.
CsvRow columns_of(const std::string& path);

}  // namespace octet::tool
