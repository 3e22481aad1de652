#include "tool/reporting/report_page.hpp"

#include <octet/error.hpp>

#include "core/message.hpp"

#include <array>

namespace octet::tool {
namespace {

std::string file_text(std::string_view name) {
  const std::string_view text = embedded_report_file(name);
  if (text.empty()) fail(ErrorCode::internal, "report: the tool was built without ", name);
  return std::string(text);
}

std::string scripts() {
  std::string text;
  for (const char* name : {"page.js", "theme.js", "charts.js", "overview.js", "figures.js",
                           "difference.js", "rows.js", "start.js"}) {
    text += file_text(name) + "\n";
  }
  return text;
}

}  // namespace

std::string report_page(const ReportInput& input) {
  const std::array<std::pair<std::string, std::string>, 4> parts{
      {{"{{style}}", file_text("page.css")},
       {"{{data}}", report_data(input)},
       {"{{chart.js}}", file_text("chart.min.js")},
       {"{{script}}", scripts()}}};
  std::string page;
  const std::string frame = file_text("page.html");
  std::size_t begin = 0;
  for (const auto& [mark, text] : parts) {
    const std::size_t at = frame.find(mark, begin);
    page += frame.substr(begin, at - begin) + text;
    begin = at + mark.size();
  }
  return page + frame.substr(begin);
}

}  // namespace octet::tool
