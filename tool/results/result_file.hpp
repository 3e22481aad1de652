// A CSV of results, one row per case. Rows go to FILE.partial as they come, so that an interrupted
// run keeps them; finish() writes FILE, whole and in the order of the cases.
//
// A run takes up what an earlier one left in FILE or FILE.partial: a PASS row of the same case with
// the same settings, on the same machine, of the same code is kept and its case not run again. Any
// other row of a case stays until the case has been run; rows of other cases stay, before the rest.
#pragma once

#include "bench/report/record.hpp"

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace octet::tool {

// Those of the cases that have been run.
std::vector<bench::Row> done_rows(const std::vector<std::optional<bench::Row>>& rows);

// FILE.csv.partial: the rows of a run as they come. It only grows, so that a run which is killed, and
// one that continues it, lose nothing; while it is open no other run may write to FILE.csv.
class PartialFile {
 public:
  // Opens that of `output`, or makes it, and drops a last row that was cut short. Throws UsageError
  // where it cannot be written or another run is at work there.
  explicit PartialFile(const std::string& output);
  // What has no rows is removed, what has some stays for the run that continues.
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  const std::string& path() const { return path_; }
  // Writes the header where there is none yet; `fresh` drops the rows of earlier runs. Throws
  // UsageError where the disk does not take it.
  void begin(const bench::Row& header, bool fresh);
  // False, with errno, where the disk does not take it.
  bool add(const bench::Row& row);
  // Its rows stand elsewhere now.
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
  // `planned` has the row of every case as far as it is known before it is run. An empty path keeps
  // the rows in memory only; `fresh` keeps nothing of an earlier run. Throws UsageError where
  // `path` cannot be written, does not hold such results or another run is writing there.
  ResultFile(const std::string& path, const bench::Row& header,
             const std::vector<bench::Row>& planned, bool fresh);

  const bench::Row& header() const { return header_; }
  // By case; nothing where it has not been run.
  const std::vector<std::optional<bench::Row>>& rows() const { return rows_; }
  // How many rows of other cases are kept.
  std::size_t others() const { return others_.size(); }
  // Throws UsageError where the disk does not take it.
  void add(std::size_t index, const bench::Row& row);
  void finish();

 private:
  void take_up(const std::vector<bench::Row>& planned);

  std::string path_;
  bench::Row header_;
  std::vector<std::optional<bench::Row>> rows_;
  std::vector<std::vector<bench::Row>> earlier_;  // by case: what stays until it has been run
  std::vector<bench::Row> others_;
  std::optional<PartialFile> partial_;
};

}  // namespace octet::tool
