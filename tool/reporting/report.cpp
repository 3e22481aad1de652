// octet report: a folder of results as one HTML file.
#include "tool/commands.hpp"
#include "tool/options/options.hpp"
#include "tool/reporting/report_data.hpp"
#include "tool/results/files.hpp"

#include "bench/report/files.hpp"
#include "core/message.hpp"

#include <octet/error.hpp>

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <memory>

namespace octet::tool {
namespace {

struct ReportOptions {
  std::string folder;
  std::string against;
  std::string output;
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
  for (const char* name : {"page.js", "theme.js", "charts.js", "overview.js", "figures.js",
                           "difference.js", "rows.js", "start.js"}) {
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

int report(const ReportOptions& options) {
  if (options.output.empty()) refuse_usage("-o must be given a FILE.html, got nothing");
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
  if (const int reason = bench::replace_file(output, output + ".new", report_page(input));
      reason != 0) {
    refuse_usage("-o {}: {}; wanted a file in a folder that exists and can be written", output,
                 std::strerror(reason));
  }
  print_skipped(folder);
  fmt::print("{}\n", options.output);
  return 0;
}

}  // namespace

void add_report(CLI::App& octet, Chosen& chosen) {
  CLI::App& app = add_command(octet, "report", "a folder of results as one HTML file");
  const auto options = std::make_shared<ReportOptions>();
  add_argument(app, "DIR", options->folder, "a folder with CSVs of octet bench");
  add_text(app, "--against", options->against, "DIR", "show the difference from these results");
  add_text(app, "-o,--output", options->output, "FILE.html", "where the page goes");
  add_flag(app, "--any-device", options->any_device, "take the difference over devices too");
  choose_when_given(app, chosen, [options] { return report(*options); });
}

}  // namespace octet::tool
