// A whole file that a user names.
#pragma once

#include <string>

namespace octet::tool {

// Throws UsageError, which begins with `option` and says that `wanted` ("a CSV file of cases") was
// to be given, where it cannot be read or is far too long to be one.
std::string read_text_file(const std::string& option, const std::string& path,
                           const std::string& wanted);

}  // namespace octet::tool
