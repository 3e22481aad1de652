// octet report: everything a folder of results says, as one HTML file.
#include "tool/commands.hpp"
#include "tool/options/options.hpp"
#include "tool/reporting/report_page.hpp"
#include "tool/results/result_path.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
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

// An older page is replaced, anything else is not, least of all the results that were read.
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

// Beside the file first, so that what was there is whole until the new one is.
void write_whole(const std::string& path, const std::string& text) {
  const std::string beside = path + ".new";
  std::FILE* file = std::fopen(beside.c_str(), "w");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr) written = std::fclose(file) == 0 && written;
  if (written && std::rename(beside.c_str(), path.c_str()) == 0) return;
  const int reason = errno;
  if (file != nullptr) std::remove(beside.c_str());
  refuse_usage("-o {}: {}; wanted a file in a folder that exists and can be written", path,
               std::strerror(reason));
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
  write_whole(options.output, report_page(input));
  print_skipped(folder);
  fmt::print("{}\n", options.output);
  return 0;
}

}  // namespace

void add_report(CLI::App& octet, Chosen& chosen) {
  CLI::App* app = octet.add_subcommand("report", "a folder of results as one HTML file");
  const auto options = std::make_shared<ReportOptions>();
  add_argument(*app, "DIR", options->folder, "a folder with CSVs of octet bench");
  add_text(*app, "--against", options->against, "DIR", "show the difference from these results");
  add_text(*app, "-o,--output", options->output, "FILE.html", "where the page goes");
  add_flag(*app, "--any-device", options->any_device, "take the difference over devices too");
  choose_when_given(*app, chosen, [options] { return report(*options); });
}

}  // namespace octet::tool
