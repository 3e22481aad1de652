// Results read back from files: what a run takes up, what a suite counts and puts together.
#pragma once

#include "tool/results/csv.hpp"

#include <compare>
#include <cstddef>
#include <string>
#include <vector>

namespace octet::tool {

struct StoredResults {
  CsvRow header;
  std::vector<CsvRow> rows;  // each as long as the header
};

// Nothing where the file is missing or no CSV. A last row that was cut short is left out.
StoredResults read_stored(const std::string& path);

// Beside the file first, so that what was there is whole until the new one is. False, with errno,
// where the disk does not take it.
bool write_stored(const std::string& path, const StoredResults& results);

// Which case a row is of.
struct CaseKey {
  std::string test_id;
  std::string problem;  // as case_of() has it

  friend auto operator<=>(const CaseKey&, const CaseKey&) = default;
};

CaseKey key_of(const CsvRow& header, const CsvRow& row);

// The rows of all files, of which some may be missing, each case once: the last of its rows, in the
// place of the first. A file with other columns is left out.
StoredResults newest_rows(const std::vector<std::string>& paths);
// The same in the order of TestID.
StoredResults merge_stored(const std::vector<std::string>& paths);

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
