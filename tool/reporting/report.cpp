// octet report: a folder of results as a single HTML file that loads nothing else.
#include "tool/options/options.hpp"
#include "tool/reporting/result_comparison.hpp"
#include "tool/reporting/result_groups.hpp"
#include "tool/results/files.hpp"
#include "tool/results/provenance.hpp"

#include "bench/report/record.hpp"
#include "core/message.hpp"

#include <octet/error.hpp>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstring>
#include <ctime>
#include <memory>

namespace octet::tool {

// The text of a file of tool/reporting/page/, or of Chart.js, as it was when the tool was built.
std::string_view embedded_report_file(std::string_view name);

namespace {

struct ReportInput {
  const ResultFolder& folder;
  std::string path;     // of the folder, as given
  std::string command;  // makes this report
  const ComparedFolders* against = nullptr;
  std::string against_path;
};

using Json = nlohmann::ordered_json;  // NaN becomes null

// The ratio and rate of the step for every baseline in the row.
Json baselines_of(const ResultKind& kind, const ParsedRow& row, const bench::Record& record) {
  Json baselines = Json::array();
  for (const BaselineColumn& baseline : kind.baselines) {
    const double ratio = record.number(baseline.ratio);
    if (!row.passed() || !(ratio > 0)) continue;
    const std::string name =
        baseline.name_column == nullptr ? baseline.name : record.at(baseline.name_column);
    // Every ratio, including the share of a ceiling, is the baseline's time over ours.
    baselines.push_back({{"name", name}, {"ratio", ratio}, {"rate", row.step_rate() / ratio}});
  }
  return baselines;
}

Json snrs_of(const ResultKind& kind, const bench::Record& record) {
  Json snrs = Json::array();
  for (const SnrColumn& snr : kind.snrs) snrs.push_back(record.number(snr.column));
  return snrs;
}

Json row_json(const ParsedResults& results, std::size_t index) {
  const ResultKind& kind = *results.kind;
  const ParsedRow& row = results.rows[index];
  const bench::Record record = results.record(index);
  return {{"label", row.label()},
          {"shape", row.shape},
          {"name", row.name},
          {"model", row.model},
          {"problem", row.problem},
          {"device", row.device},
          {"backend", row.backend},
          {"check", row.check},
          {"rates", row.rates},
          {"spreadPercent", record.number("Spread (%)")},
          {"intensity", kind.intensity(record)},
          {"baselines", baselines_of(kind, row, record)},
          {"snrs", snrs_of(kind, record)},
          {"clock", record.number("Clock (MHz)")},
          {"power", record.number("Power (W)")},
          {"note", record.at("Note")},
          {"command", record.at("Command")}};
}

Json results_json(const ParsedResults& results, const std::string& name) {
  const ResultKind& kind = *results.kind;
  Json json{{"name", name},
            {"op", kind.op},
            {"about", kind.about},
            {"unit", kind.unit},
            {"backendIsKey", kind.backend_is_key},
            {"hasCeiling", kind.has_ceiling},
            {"intensityText", kind.intensity_text},
            {"rates", Json::array()},
            {"snrs", Json::array()},
            {"rows", Json::array()},
            {"header", results.header},
            {"fields", results.fields}};
  for (const RateColumn& rate : kind.rates) json["rates"].push_back(rate.title);
  for (const SnrColumn& snr : kind.snrs) {
    json["snrs"].push_back({{"column", snr.column}, {"gate", snr.gate}, {"bound", snr.bound_db}});
  }
  for (std::size_t i = 0; i < results.rows.size(); ++i)
    json["rows"].push_back(row_json(results, i));
  return json;
}

Json group_json(const ResultGroup& group) {
  Json json{{"op", group.kind->op},          {"unit", group.kind->unit},
            {"problem", group.problem},      {"device", group.device},
            {"backend", group.backend},      {"model", group.model},
            {"passed", group.checks.passed}, {"failed", group.checks.failed},
            {"errors", group.checks.errors}, {"means", Json::object()}};
  for (std::size_t i = 0; i < group.means.size(); ++i) {
    json["means"][group.kind->rates[i].title] = group.means[i];
  }
  return json;
}

Json change_json(const Change& change) {
  const auto rate = [](const ParsedRow& row) {
    return row.passed() ? Json(row.step_rate()) : Json();
  };
  return {{"label", change.before.label()},
          {"problem", change.before.problem},
          {"before", rate(change.before)},
          {"after", rate(change.after)},
          {"delta", change.delta},
          {"noise", change.noise},
          {"checkBefore", change.before.check},
          {"checkAfter", change.after.check}};
}

Json pair_json(const ComparedResults& pair) {
  const ResultComparison& comparison = pair.comparison;
  Json json{{"before", pair.before->source},
            {"after", pair.after->source},
            {"op", pair.before->kind->op},
            {"unit", pair.before->kind->unit},
            {"scoreBefore", comparison.score_before},
            {"scoreAfter", comparison.score_after},
            {"scoreNoise", comparison.score_noise},
            {"scoreFell", comparison.score_fell()},
            {"regression", comparison.is_regression(kThresholdPercent / 100)},
            {"lost", comparison.lost(kThresholdPercent / 100).size()},
            {"broken", comparison.broken().size()},
            {"onlyOld", comparison.only_old},
            {"onlyNew", comparison.only_new},
            {"changes", Json::array()}};
  for (const Change& change : comparison.changes) json["changes"].push_back(change_json(change));
  return json;
}

// JSON allows \uXXXX for any character. Without < no </script> or <!-- can end the script.
std::string inside_script(const Json& json) {
  std::string text;
  for (const char c : json.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

// The data of the page, as JSON that is safe inside <script>.
std::string report_data(const ReportInput& input) {
  Json json{{"tool", version_text()},
            {"made", fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr)))},
            {"folder", input.path},
            {"command", input.command},
            {"threshold", kThresholdPercent / 100},
            {"skipped", input.folder.skipped},
            {"tables", Json::array()},
            {"groups", Json::array()},
            {"against", nullptr}};
  for (std::size_t i = 0; i < input.folder.results.size(); ++i) {
    json["tables"].push_back(results_json(input.folder.results[i], input.folder.names[i]));
  }
  for (const ResultGroup& group : group_results(input.folder)) {
    json["groups"].push_back(group_json(group));
  }
  if (input.against != nullptr) {
    json["against"] = {{"folder", input.against_path},
                       {"pairs", Json::array()},
                       {"unpaired", input.against->unpaired}};
    for (const ComparedResults& pair : input.against->pairs) {
      json["against"]["pairs"].push_back(pair_json(pair));
    }
  }
  return inside_script(json);
}

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
