// CSV as RFC 4180 has it, read with libcsv. bench::csv_line() writes it.
#pragma once

#include "bench/report/record.hpp"

#include <string_view>
#include <vector>

namespace octet::tool {

// The rows of `text`, the header first; empty lines are skipped. Throws UsageError, which names
// `source`, where a quote does not close or stands inside a bare field.
std::vector<bench::Row> parse_csv(std::string_view text, std::string_view source);

}  // namespace octet::tool
