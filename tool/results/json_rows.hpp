// Rows as JSON: an object per row, its columns by their names. Numbers are numbers, an empty field
// is null, and texts are texts: a commit that has only digits stays one, and so does "inf", for
// which JSON has no number.
#pragma once

#include "tool/results/result_kind.hpp"

#include <optional>
#include <string>
#include <vector>

namespace octet::tool {

std::string row_as_json(const bench::Row& header, const bench::Row& row);

// --json FILE: the rows of a run and where they come from. Written beside and renamed, so that a
// reader never sees half of it.
class JsonFile {
 public:
  // Throws UsageError where `path` cannot be written or does not hold such a file.
  explicit JsonFile(const std::string& path);
  ~JsonFile();
  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;

  // Throws UsageError where the disk does not take it.
  void write(const ResultKind& kind, const bench::Row& header,
             const std::vector<std::optional<bench::Row>>& rows);

 private:
  std::string path_;    // empty: none is wanted
  std::string beside_;  // empty: it has become path_
};

}  // namespace octet::tool
