// Rows as JSON: an object per row, with the columns as keys. Numbers are numbers, an empty field is
// null, and texts stay texts: a commit that has only digits, and "inf", for which JSON has no
// number.
#pragma once

#include "tool/results/result_kind.hpp"

#include <optional>
#include <string>
#include <vector>

namespace octet::tool {

std::string row_as_json(const bench::Row& header, const bench::Row& row);

// --json FILE: the rows of a run and their origin. Written to a temporary file and renamed, so that
// a reader never sees half of it.
//
// --json -: written to the standard output. Once the JsonFile exists, everything else that the
// process prints there goes to stderr, so that a pipe gets only JSON. Create it before the first
// line is printed.
class JsonFile {
 public:
  // Throws UsageError if `path` cannot be written or holds some other file.
  explicit JsonFile(const std::string& path);
  ~JsonFile();
  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;

  bool to_stdout() const { return path_ == "-"; }
  // Throws UsageError if writing fails.
  void write(const ResultKind& kind, const bench::Row& header,
             const std::vector<std::optional<bench::Row>>& rows);
  // Rows that have no score.
  void write(const std::string& op, const bench::Row& header, const std::vector<bench::Row>& rows);

 private:
  void put(const std::string& text);

  std::string path_;    // empty: no --json
  std::string beside_;  // temporary file; empty once renamed to path_
  int stdout_ = -1;     // of --json -: the standard output as the process got it
};

}  // namespace octet::tool
