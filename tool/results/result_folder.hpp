// All result CSVs of a folder and the folders in it, in the order of their names.
#pragma once

#include "tool/results/result_table.hpp"

#include <string>
#include <vector>

namespace octet::tool {

struct ResultFolder {
  std::vector<ResultTable> tables;
  std::vector<std::string> names;    // of the tables: paths below the folder
  std::vector<std::string> skipped;  // "peers.txt: no CSV"

  const ResultTable* find(const std::string& name) const;  // nullptr where there is none
};

// Files of another kind are skipped. Throws UsageError where the folder is missing, has no results
// or a file is broken.
ResultFolder read_results_folder(const std::string& path);

// One line for each on stderr.
void print_skipped(const ResultFolder& folder);

}  // namespace octet::tool
