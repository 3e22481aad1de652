// The data of the page of octet report, a single HTML file that loads nothing else.
#pragma once

#include "tool/reporting/result_comparison.hpp"

#include <string>
#include <string_view>

namespace octet::tool {

struct ReportInput {
  const ResultFolder& folder;
  std::string path;     // of the folder, as given
  std::string command;  // makes this report
  const ComparedFolders* against = nullptr;
  std::string against_path;
};

// Returns JSON that is safe inside <script>.
std::string report_data(const ReportInput& input);

// The text of a file of tool/reporting/page/, or of Chart.js, as it was when the tool was built.
std::string_view embedded_report_file(std::string_view name);

}  // namespace octet::tool
