// Results read back from files: what a run takes up, what a suite counts and puts together.
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

// Nothing where the file is missing or no CSV. A last row that was cut short is left out.
StoredResults read_stored(const std::string& path);

// Replaces the file whole. Returns 0, or the errno of what failed: the file is then unchanged.
int write_stored(const std::string& path, const StoredResults& results);

// Throws UsageError, which begins with `option`, where `path` is a folder, a device, a file that
// cannot be read, or one that does not hold results of octet: none is to be replaced.
void require_results_or_nothing(const std::string& option, const std::string& path);

// The rows of `path` are to stand beside others under `header`; `op` is what those have in their
// column Operator, empty where there is none. Throws UsageError where they have other columns or are
// of another operator, or where one cannot be read back: it would be lost.
void require_rows_that_fit(const std::string& path, const bench::Row& header,
                           const std::string& op);

// Which case a row is of.
struct CaseKey {
  std::string test_id;
  std::string problem;  // the name of the case and its repeated_command()

  friend auto operator<=>(const CaseKey&, const CaseKey&) = default;
};

CaseKey key_of(const bench::Row& header, const bench::Row& row);

// The rows of all files, of which some may be missing, each case once: the last of its rows, in the
// place of the first. A file with other columns is left out.
StoredResults newest_rows(const std::vector<std::string>& paths);
// The same in the order of TestID.
StoredResults merge_stored(const std::vector<std::string>& paths);

// A case of octet bench, known before it is run: the columns TestID, Case and Command of its row.
// Where rows have no column Case, its name does not count.
struct BenchCase {
  std::string test_id;
  std::string name;
  std::string command;
};

// The rows of these cases, and not those of cases that an earlier run had.
StoredResults rows_of(const StoredResults& results, const std::vector<BenchCase>& cases);

struct Checks {
  std::size_t passed = 0;
  std::size_t failed = 0;
  std::size_t errors = 0;

  void count(const std::string& check) {
    ++(check == "PASS" ? passed : check == "FAIL" ? failed : errors);
  }
  bool all_passed() const { return failed + errors == 0; }
  std::string text() const;  // "3 PASS, 0 FAIL, 0 ERROR"
};

Checks count_checks(const StoredResults& results);

}  // namespace octet::tool
