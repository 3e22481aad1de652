// The data of the page of octet report.
#pragma once

#include "tool/reporting/result_comparison.hpp"
#include "tool/results/parsed_results.hpp"

#include <string>

namespace octet::tool {

struct ReportInput {
  const ResultFolder& folder;
  std::string path;     // of the folder, as given
  std::string command;  // makes this report
  const ComparedFolders* against = nullptr;
  std::string against_path;
};

// As JSON that is safe inside <script>.
std::string report_data(const ReportInput& input);

}  // namespace octet::tool
