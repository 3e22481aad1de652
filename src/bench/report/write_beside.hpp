// A file that is there whole or not at all, whoever else writes it.
#pragma once

#include <string>

namespace octet::bench {

// Writes a file of its own beside `path` and renames it. Throws Error that names `path` and what
// the system said.
void write_beside(const std::string& path, const std::string& content);

}  // namespace octet::bench
