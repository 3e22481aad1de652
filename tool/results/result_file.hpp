// A CSV of results, one row per case. Rows go to FILE.partial as they come, so that an interrupted
// run keeps them; finish() writes FILE, whole and in the order of the cases.
//
// A run takes up what an earlier one left in FILE or FILE.partial: a PASS row of the same case with
// the same settings, on the same machine, of the same code is kept and its case not run again. Any
// other row of a case stays until the case has been run; rows of other cases stay, before the rest.
#pragma once

#include "tool/results/csv.hpp"
#include "tool/results/partial_file.hpp"

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
  // `path` cannot be written, has something else than such results or another run is writing there.
  ResultFile(const std::string& path, const CsvRow& header, const std::vector<CsvRow>& planned,
             bool fresh);

  const CsvRow& header() const { return header_; }
  // By case; nothing where it has not been run.
  const std::vector<std::optional<CsvRow>>& rows() const { return rows_; }
  // How many rows of other cases are kept.
  std::size_t others() const { return others_.size(); }
  // Throws UsageError where the disk does not take it.
  void add(std::size_t index, const CsvRow& row);
  void finish();

 private:
  void take_up(const std::vector<CsvRow>& planned);

  std::string path_;
  CsvRow header_;
  std::vector<std::optional<CsvRow>> rows_;
  std::vector<std::vector<CsvRow>> earlier_;  // by case: what stays until it has been run
  std::vector<CsvRow> others_;
  std::optional<PartialFile> partial_;
};

}  // namespace octet::tool
