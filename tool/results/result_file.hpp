// A CSV of results, one row per case. Rows are appended to FILE.partial as they are measured, so
// that an interrupted run keeps them; finish() writes the complete FILE in the order of the cases.
//
// A run continues from an earlier FILE or FILE.partial: a PASS row of the same case with the same
// settings, machine and code is kept and its case skipped. Any other row of a case stays until the
// case has been run. Rows of other cases stay, at the front.
#pragma once

#include "bench/report/record.hpp"

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace octet::tool {

// The rows of the cases that have been run.
std::vector<bench::Row> done_rows(const std::vector<std::optional<bench::Row>>& rows);

// FILE.csv.partial, beside the target if FILE.csv is a symbolic link: two runs that reach one file by
// different names must find each other's lock. Empty if the links form a loop.
std::string partial_path(const std::string& output);

// FILE.csv.partial: the rows of a run as they are measured. It is only appended to, so a run that
// is killed and one that continues it lose nothing. While it is open no other run may write to
// FILE.csv.
class PartialFile {
 public:
  // Opens or creates the partial file of `output`, and drops a truncated last row. Throws
  // UsageError if it cannot be written or another run is using it.
  explicit PartialFile(const std::string& output);
  // Removes the file if it has no rows; otherwise it stays for the run that continues.
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  const std::string& path() const { return path_; }
  // Writes the header if there is none yet; `fresh` drops the rows of earlier runs. Throws
  // UsageError if writing fails.
  void begin(const bench::Row& header, bool fresh);
  // Returns false, with errno set, if writing fails.
  bool add(const bench::Row& row);
  // Removes the file once its rows are stored elsewhere.
  void remove();

 private:
  void open_and_lock();
  bool write(const bench::Row& row);
  [[noreturn]] void refuse(int reason) const;

  std::string output_;
  std::string path_;
  std::FILE* file_ = nullptr;
  bool is_empty_ = true;
  bool has_rows_ = false;
};

class ResultFile {
 public:
  // `planned` has a row per case with the fields that are known in advance. An empty path keeps the
  // rows in memory only; `fresh` discards earlier rows. Throws UsageError if `path` cannot be
  // written, holds other data or another run is writing to it.
  ResultFile(const std::string& path, const bench::Row& header,
             const std::vector<bench::Row>& planned, bool fresh);

  const bench::Row& header() const { return header_; }
  // By case; nullopt if it has not been run.
  const std::vector<std::optional<bench::Row>>& rows() const { return rows_; }
  // Number of kept rows of other cases.
  std::size_t others() const { return others_.size(); }
  // "replaced 1 row measured with other settings (threads 1, now 2)": earlier rows of cases that
  // were run. Empty if there are none.
  std::string replaced_text() const;
  // Throws UsageError if writing fails.
  void add(std::size_t index, const bench::Row& row);
  void finish();

 private:
  void take_up(const std::vector<bench::Row>& planned);

  std::string path_;
  bench::Row header_;
  std::vector<std::optional<bench::Row>> rows_;
  std::vector<std::vector<bench::Row>> earlier_;  // by case: rows kept until it has been run
  std::vector<bench::Row> others_;
  std::optional<PartialFile> partial_;
};

}  // namespace octet::tool
