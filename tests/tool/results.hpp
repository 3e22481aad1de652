// The rows octet bench writes, read back as a user's script would.
#pragma once

#include "tool/results/files.hpp"
#include "run_tool.hpp"

#include <octet/octet.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace octet::tool {

using Fields = std::map<std::string, std::string>;  // by column

struct Results {
  bench::Row header;
  std::vector<Fields> records;
};

inline Results read_results(const std::string& path) {
  const std::vector<bench::Row> rows = parse_csv(read_file(path), path);
  Results results;
  if (rows.empty()) return results;
  results.header = rows[0];
  for (std::size_t r = 1; r < rows.size(); ++r) {
    EXPECT_EQ(rows[r].size(), rows[0].size());
    Fields record;
    for (std::size_t c = 0; c < rows[r].size(); ++c) record[rows[0][c]] = rows[r][c];
    results.records.push_back(record);
  }
  return results;
}

// The digest of an operator's kernels in a row: 12 digits, or empty in a build without CUDA.
inline std::string kernels_of(std::string op) {
  std::replace(op.begin(), op.end(), '-', '_');
  const std::string digest = octet_device_sources(op.c_str());
#ifdef OCTET_TESTS_HAVE_CUDA
  EXPECT_EQ(digest.size(), 12u) << op;
#else
  EXPECT_EQ(digest, "") << op;
#endif
  return digest;
}

inline double number_in(const Fields& record, const std::string& column) {
  return std::strtod(record.at(column).c_str(), nullptr);
}

}  // namespace octet::tool
