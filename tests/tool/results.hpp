// The rows octet bench writes, read back as a user's script would.
#pragma once

#include "run_tool.hpp"

#include "tool/results/files.hpp"

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

// A run of `octet bench ARGUMENTS -o FILE` and the rows it wrote.
struct BenchRun {
  explicit BenchRun(const std::string& arguments) : BenchRun(arguments, Folder()) {}

  Outcome outcome;
  Results results;

  const Fields& row() const { return results.records.at(0); }
  // What a failed assertion shows.
  std::string text() const { return outcome.out + outcome.err; }

 private:
  BenchRun(const std::string& arguments, const Folder& folder)
      : outcome(run_tool("bench " + arguments + " -o " + folder.file("x.csv"))),
        results(read_results(folder.file("x.csv"))) {}
};

// The columns of a header, given as a line of CSV.
inline bench::Row columns(const std::string& line) { return parse_csv(line, "columns").at(0); }

inline void expect_first_columns(const bench::Row& header, const bench::Row& first) {
  ASSERT_GE(header.size(), first.size());
  EXPECT_TRUE(std::equal(first.begin(), first.end(), header.begin()));
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
