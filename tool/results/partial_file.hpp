// FILE.csv.partial: the rows of a run as they come. It only grows, so that a run which is killed, and
// one that goes on after it, lose nothing; while it is open no other run may write to FILE.csv.
#pragma once

#include "tool/results/csv.hpp"

#include <cstdio>
#include <string>

namespace octet::tool {

class PartialFile {
 public:
  // Opens that of `output`, or makes it, and drops a last row that was cut short. Throws UsageError
  // where it cannot be written or another run is at work there.
  explicit PartialFile(const std::string& output);
  // What has no rows is removed, what has some stays to be gone on with.
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  const std::string& path() const { return path_; }
  // Writes the header where there is none yet; `fresh` drops the rows of earlier runs. Throws
  // UsageError where the disk does not take it.
  void begin(const CsvRow& header, bool fresh);
  // False, with errno, where the disk does not take it.
  bool add(const CsvRow& row);
  // Its rows stand elsewhere now.
  void remove();

 private:
  void open_and_lock();
  [[noreturn]] void refuse(int reason) const;

  std::string output_;
  std::string path_;
  std::FILE* file_ = nullptr;
  bool is_empty_ = true;
  bool has_rows_ = false;
};

}  // namespace octet::tool
