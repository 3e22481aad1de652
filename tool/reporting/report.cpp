// octet report: results as a single HTML file that loads nothing else.
#include "tool/console.hpp"
#include "tool/options/options.hpp"
#include "tool/reporting/report_data.hpp"
#include "tool/results/files.hpp"

#include "core/message.hpp"

#include <octet/error.hpp>

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <memory>

namespace octet::tool {

// The text of a file of tool/reporting/page/, or of Chart.js, as it was when the tool was built.
std::string_view embedded_report_file(std::string_view name);

namespace {

struct ReportOptions {
  std::string folder = ".";
  std::string against;
  std::string output = "report.html";
  bool any_device = false;
};

// Only an older report is replaced, never another file, such as the results that were read.
void require_page_or_nothing(const std::string& path) {
  constexpr std::string_view kFirstLine = "<!DOCTYPE html>\n";
  constexpr std::string_view kTitle = "<title>octet report</title>\n";
  constexpr std::size_t kTitleIsWithin = 1000;  // bytes
  const std::string beginning = beginning_to_replace("-o", path, kTitleIsWithin);
  if (beginning.empty()) return;
  if (beginning.rfind(kFirstLine, 0) != 0 || beginning.find(kTitle) == std::string::npos) {
    refuse_to_replace("-o", path, "a page of octet report");
  }
}

std::string file_text(std::string_view name) {
  const std::string_view text = embedded_report_file(name);
  if (text.empty()) fail(ErrorCode::internal, "report: the tool was built without ", name);
  return std::string(text);
}

std::string scripts() {
  std::string text;
  for (const char* name :
       {"page.js", "theme.js", "charts.js", "overview.js", "ratios.js", "distribution.js",
        "roofline.js", "shapes.js", "quality.js", "difference.js", "rows.js", "start.js"}) {
    text += file_text(name) + "\n";
  }
  return text;
}

// Inserts the parts of the page at the marks in its frame.
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

std::string command_of(const ReportOptions& options) {
  return fmt::format("octet report {}{}{}{} -o {}", options.folder,
                     options.against.empty() ? "" : " --against ", options.against,
                     options.any_device ? " --any-device" : "", options.output);
}

// "wrote report.html (832 KB, 26 files, 588 rows)"
std::string written(const std::string& output, std::size_t bytes, const ResultFolder& folder) {
  std::size_t rows = 0;
  for (const ParsedResults& results : folder.results) rows += results.rows.size();
  constexpr std::size_t kKilobyte = 1000;
  return fmt::format("wrote {} ({} KB, {}, {})", printable(output), bytes / kKilobyte,
                     counted(folder.results.size(), "file"), counted(rows, "row"));
}

int report(const ReportOptions& options) {
  require_page_or_nothing(options.output);
  const ResultFolder folder = read_results_folder(options.folder);
  ReportInput input{folder, options.folder, command_of(options), nullptr, options.against};
  ResultFolder before;
  ComparedFolders compared;
  if (!options.against.empty()) {
    before = read_results_folder(options.against);
    compared = compare_results(before, folder, options.any_device);
    input.against = &compared;
  }
  const std::string& output = options.output;
  const std::string page = report_page(input);
  if (const int reason = bench::replace_file(output, output + ".new", page); reason != 0) {
    refuse_usage("-o {}: {}; wanted a file in a folder that exists and can be written", output,
                 std::strerror(reason));
  }
  print_skipped(folder);
  fmt::print("{}\n", written(output, page.size(), folder));
  return 0;
}

}  // namespace

void add_report(CLI::App& octet, Chosen& chosen) {
  CLI::App& app = add_command(octet, "report", "Show results as one HTML page.");
  const auto options = std::make_shared<ReportOptions>();
  add_optional_argument(app, "RESULTS", options->folder,
                        "A CSV of octet bench or a folder with such files.");
  add_text(app, "--against", options->against, "RESULTS",
           "Earlier results: the page begins with what moved since then.");
  add_text(app, "-o,--output", options->output, "FILE.html", "Where to write the page.");
  add_flag(app, "--any-device", options->any_device,
           "Compare with --against also where the devices differ.");
  add_examples(app, {"octet report results/h200", "octet report new --against old -o new.html"});
  choose_when_given(app, chosen, [options] { return report(*options); });
}

}  // namespace octet::tool
