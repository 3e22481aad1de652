// Tables for a person to read.
#pragma once

#include <string>
#include <vector>

namespace octet::bench {

using Row = std::vector<std::string>;

// Columns as wide as their widest cell; the first `left_columns` are aligned left. PASS, FAIL and
// ERROR have colours where they are asked for.
std::string table_text(const std::vector<Row>& rows, std::size_t left_columns, bool colours);
// It is a terminal, and NO_COLOR is not set.
bool stdout_has_colours();

}  // namespace octet::bench
