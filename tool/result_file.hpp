// A CSV of results. Rows go to FILE.partial as they come, so that an interrupted run keeps them;
// finish() gives the file its name, so that FILE is always whole.
#pragma once

#include "csv.hpp"

#include <cstdio>
#include <string>

namespace octet::tool {

class ResultFile {
 public:
  // Throws UsageError where `path` cannot be written. An empty path keeps nothing.
  ResultFile(const std::string& path, const CsvRow& header);
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  // Throws Error where the disk does not take it.
  void add(const CsvRow& row);
  void finish();

 private:
  std::string path_;
  std::string partial_;
  std::FILE* file_ = nullptr;
  bool has_rows_ = false;
};

}  // namespace octet::tool
