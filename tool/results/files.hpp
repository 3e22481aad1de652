// Files on disk: reading whole files and CSV, checking files before they are replaced, and locking.
#pragma once

#include "bench/report/record.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace octet::tool {

// "a folder", "a pipe", "a device" or "a socket"; empty for a regular file and if there is no file.
// Opening a pipe would wait for a writer, and a device such as /dev/zero never ends.
std::string special_file(const std::string& path);

// Empty if the file is missing, is no regular file or cannot be read.
std::string text_if_any(const std::string& path);

// The text of a file that a user names as `given`: "x.csv" or, for an option, "--suite x.csv".
// Throws UsageError that begins with that name and says what was `wanted` ("a CSV file of cases")
// if it is no regular file, cannot be read or is far too long.
std::string read_text_file(const std::string& given, const std::string& path,
                           const std::string& wanted);

// The rows of a CSV as defined by RFC 4180, the header first; empty lines are skipped. Throws
// UsageError that names `source` if a quote is not closed or appears inside an unquoted field.
// bench::csv_line() writes such rows.
std::vector<bench::Row> parse_csv(std::string_view text, std::string_view source);

// The first bytes of the file that is to be replaced; empty if there is none. Throws UsageError
// that begins with `option` if `path` is a folder, a device or a file that cannot be read.
std::string beginning_to_replace(const std::string& option, const std::string& path,
                                 std::size_t bytes);
// Throws UsageError: the file there is not `wanted` ("results of octet").
[[noreturn]] void refuse_to_replace(const std::string& option, const std::string& path,
                                    const std::string& wanted);

// Locks an open file. The lock is released when the last process that inherited it ends. Waits a
// few seconds, since a process that was killed may still be ending. Returns false and sets errno,
// to EWOULDBLOCK if another process holds the lock.
bool take_lock(int descriptor);

}  // namespace octet::tool
