// Writes results to disk: as lines of CSV, in files that are replaced whole.
#pragma once

#include "bench/report/record.hpp"

namespace octet::bench {

// A row in RFC 4180 form, with its line end. Fields are quoted if they need it.
std::string csv_line(const Row& row);
// The header and the rows.
std::string csv_text(const Row& header, const std::vector<Row>& rows);

// Writes `content` to the file `beside` and renames that to `path`: a reader sees the old file or
// the new one, never half of it. Returns 0, or the errno of what failed; then `path` is unchanged
// and `beside` is removed.
int replace_file(const std::string& path, const std::string& beside, std::string_view content);

// A name beside `path` that no other writer uses, on any machine.
std::string name_beside(const std::string& path);

}  // namespace octet::bench
