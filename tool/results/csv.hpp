// CSV as defined by RFC 4180, read with libcsv. bench::csv_line() writes it.
#pragma once

#include "bench/report/record.hpp"

#include <string_view>
#include <vector>

namespace octet::tool {

// The rows of `text`, the header first; empty lines are skipped. Throws UsageError that names
// `source` if a quote is not closed or appears inside an unquoted field.
std::vector<bench::Row> parse_csv(std::string_view text, std::string_view source);

}  // namespace octet::tool
