// CSV as RFC 4180 has it, read and written with libcsv.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace octet::tool {

using CsvRow = std::vector<std::string>;

// The rows of `text`, the header first; empty lines are skipped. Throws UsageError, which names
// `source`, where a quote does not close or stands inside a bare field.
std::vector<CsvRow> parse_csv(std::string_view text, std::string_view source);

// Fields are quoted where they need it. False where the file does not take it.
bool write_csv_row(std::FILE* file, const CsvRow& row);

}  // namespace octet::tool
