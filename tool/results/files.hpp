// Files on disk: whole ones that are read, ones that may be replaced, and ones that a process has to
// itself.
#pragma once

#include <cstddef>
#include <string>

namespace octet::tool {

// Empty where there is none or it cannot be read.
std::string text_if_any(const std::string& path);

// The text of a file that a user names as `given`: "x.csv" or, of an option, "--suite x.csv". Throws
// UsageError, which begins with that and says what was `wanted` ("a CSV file of cases"), where it
// cannot be read or is far too long to be one.
std::string read_text_file(const std::string& given, const std::string& path,
                           const std::string& wanted);

// The first bytes of what is to be replaced; empty where there is nothing. Throws UsageError, which begins
// with `option`, where `path` is a folder, a device or a file that cannot be read.
std::string beginning_to_replace(const std::string& option, const std::string& path,
                                 std::size_t bytes);
// Throws UsageError: what stands there is not `wanted` ("results of octet").
[[noreturn]] void refuse_to_replace(const std::string& option, const std::string& path,
                                    const std::string& wanted);

// Takes the lock of an open file, which is free when the last process that inherited it is gone. A
// process that was killed is on its way out, so it is waited for, some seconds. False, with errno,
// which is EWOULDBLOCK where another process is at work.
bool take_lock(int descriptor);

}  // namespace octet::tool
