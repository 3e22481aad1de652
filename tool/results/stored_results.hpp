// Results read back from files, for a run that continues and for a suite that counts and merges
// rows.
#pragma once

#include "bench/report/record.hpp"

#include <compare>
#include <cstddef>
#include <string>
#include <vector>

namespace octet::tool {

struct StoredResults {
  bench::Row header;
  std::vector<bench::Row> rows;  // each as long as the header
};

// Empty if the file is missing or no CSV. A truncated last row is dropped.
StoredResults read_stored(const std::string& path);

// Replaces the whole file. Returns 0, or errno on failure; the file is then unchanged.
int write_stored(const std::string& path, const StoredResults& results);

// Throws UsageError that begins with `option` if `path` is a folder, a device, a file that cannot
// be read, or a file that holds no results of octet. None of these may be replaced.
void require_results_or_nothing(const std::string& option, const std::string& path);

// -o FILE.csv of a command whose rows replace those of its run before: a profile, advice.
class ReplacedTable {
 public:
  // `what` it is: "a profile of octet". Throws UsageError, before anything is measured, if `path` holds
  // other columns or cannot be written. An empty path: no file.
  ReplacedTable(const std::string& path, bench::Row header, const std::string& what);

  // Replaces the whole file. Throws UsageError if that fails.
  void write(const std::vector<bench::Row>& rows) const;

 private:
  std::string path_;
  bench::Row header_;
};

// Checks that the rows of `path` can be kept under `header`. `op` is the value of the column
// Operator, empty if there is none. Throws UsageError if they have other columns or another
// operator, or if a row cannot be read back and would be lost.
void require_rows_that_fit(const std::string& path, const bench::Row& header,
                           const std::string& op);

// Identifies the case of a row.
struct CaseKey {
  std::string test_id;
  std::string problem;  // the name of the case and its repeated_command(), without a tuning table

  friend auto operator<=>(const CaseKey&, const CaseKey&) = default;
};

CaseKey key_of(const bench::Row& header, const bench::Row& row);

// The rows of all files, of which some may be missing, each case once: its last row, at the
// position of its first. A file with other columns is skipped.
StoredResults newest_rows(const std::vector<std::string>& paths);
// The same, sorted by TestID.
StoredResults merge_stored(const std::vector<std::string>& paths);

// A case of octet bench before it is run: the columns TestID, Case and Command of its row. If rows
// have no column Case, the name is ignored.
struct BenchCase {
  std::string test_id;
  std::string name;
  std::string command;
};

// Only the rows of these cases, without those of cases from an earlier run.
StoredResults rows_of(const StoredResults& results, const std::vector<BenchCase>& cases);

struct Checks {
  std::size_t passed = 0;
  std::size_t failed = 0;
  std::size_t errors = 0;

  void count(const std::string& check) {
    ++(check == "PASS" ? passed : check == "FAIL" ? failed : errors);
  }
  std::size_t total() const { return passed + failed + errors; }
  bool all_passed() const { return failed + errors == 0; }
  std::string text() const;  // "3 PASS, 0 FAIL, 0 ERROR"
};

Checks count_checks(const StoredResults& results);

}  // namespace octet::tool
