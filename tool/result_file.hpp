// A CSV of results, one row per case. Rows go to FILE.partial as they come, so that an interrupted
// run keeps them; finish() writes FILE, whole and in the order of the cases.
//
// A run takes up what an earlier one left in FILE or FILE.partial: a PASS row of the same case with
// the same settings, on the same machine, of the same code is kept and its case not run again.
#pragma once

#include "csv.hpp"

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace octet::tool {

// Whether two rows under `header` tell of the same measurement: all that is known before it agrees.
// Of the same code: the device sources on a GPU, the commit on the CPU.
bool same_measurement(const CsvRow& header, const CsvRow& a, const CsvRow& b);

class ResultFile {
 public:
  // `planned` has the row of every case as far as it is known before it is run. An empty path keeps
  // the rows in memory alone; `fresh` keeps nothing of an earlier run. Throws UsageError where
  // `path` cannot be written or has something else than such results.
  ResultFile(const std::string& path, const CsvRow& header, const std::vector<CsvRow>& planned,
             bool fresh);
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  const CsvRow& header() const { return header_; }
  // By case; nothing where it has not been run.
  const std::vector<std::optional<CsvRow>>& rows() const { return rows_; }
  // Throws UsageError where the disk does not take it.
  void add(std::size_t index, const CsvRow& row);
  void finish();

 private:
  void take_up(const std::vector<CsvRow>& planned);
  bool write_all(const std::string& path) const;

  std::string path_;
  std::string partial_;
  CsvRow header_;
  std::vector<std::optional<CsvRow>> rows_;
  std::FILE* file_ = nullptr;
};

}  // namespace octet::tool
