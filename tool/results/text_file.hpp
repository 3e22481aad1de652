// Whole files.
#pragma once

#include <string>

namespace octet::tool {

// Empty where there is none or it cannot be read.
std::string text_if_any(const std::string& path);

// Of one that a user names. Throws UsageError, which begins with `option` and says that `wanted` ("a CSV file of cases") was
// to be given, where it cannot be read or is far too long to be one.
std::string read_text_file(const std::string& option, const std::string& path,
                           const std::string& wanted);

}  // namespace octet::tool
