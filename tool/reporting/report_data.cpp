#include "tool/reporting/report_data.hpp"

#include "tool/reporting/comparison_text.hpp"
#include "tool/reporting/paired_ratios.hpp"
#include "tool/reporting/problem_names.hpp"
#include "tool/reporting/result_groups.hpp"
#include "tool/results/provenance.hpp"

#include "bench/report/record.hpp"

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include <ctime>

namespace octet::tool {
namespace {

using Json = nlohmann::ordered_json;  // NaN becomes null

Json baselines_json(const std::vector<PairedCase>& pairs) {
  Json baselines = Json::array();
  for (const PairedCase& pair : pairs) {
    baselines.push_back({{"name", pair.peer},
                         {"ratio", pair.ratio},
                         {"rate", pair.rate},
                         {"parts", Json::object()}});
    for (const auto& [part, ratio] : pair.parts) baselines.back()["parts"][part] = ratio;
  }
  return baselines;
}

Json snrs_of(const ResultKind& kind, const bench::Record& record) {
  Json snrs = Json::array();
  for (const SnrColumn& snr : kind.snrs) snrs.push_back(record.number(snr.column));
  return snrs;
}

Json row_json(const ParsedResults& results, std::size_t index, const ProblemNames& names) {
  const ResultKind& kind = *results.kind;
  const ParsedRow& row = results.rows[index];
  const bench::Record record = results.record(index);
  const std::vector<PairedCase> pairs = paired_cases(results, index);
  return {{"label", row.label()},
          {"shape", row.shape},
          {"name", row.name},
          {"model", row.model},
          {"isRandom", !row.random_group().empty()},
          {"title", title_of_row(results, index)},
          {"problem", row.problem},
          {"brief", names.brief(title_of_row(results, index), row.problem)},
          {"contender", contender_of(kind, row)},
          {"device", row.device},
          {"backend", kind.backend_is_key ? "" : row.backend},
          {"check", row.check},
          {"rates", row.rates},
          {"spreadPercent", record.number("Spread (%)")},
          {"intensity", kind.intensity(record)},
          {"ratio", pairs.empty() ? Json() : Json(pairs.front().ratio)},
          {"baselines", baselines_json(pairs)},
          {"better", Json()},
          {"snrs", snrs_of(kind, record)},
          {"clock", record.number("Clock (MHz)")},
          {"power", record.number("Power (W)")},
          {"note", record.at("Note")},
          {"command", record.at("Command")}};
}

Json results_json(const ParsedResults& results, const std::string& name,
                  const ProblemNames& names) {
  const ResultKind& kind = *results.kind;
  Json json{{"name", name},
            {"title", title_of_row(results, 0)},
            {"unit", kind.unit},
            {"isOfPeers", kind.backend_is_key},
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
  for (std::size_t i = 0; i < results.rows.size(); ++i) {
    json["rows"].push_back(row_json(results, i, names));
  }
  for (const BetterCase& one : better_cases(results)) {
    json["rows"][one.row]["better"] = {{"name", one.key.peer}, {"ratio", one.ratio}};
  }
  return json;
}

Json checks_json(const Checks& checks) {
  return {{"passed", checks.passed}, {"failed", checks.failed}, {"errors", checks.errors}};
}

Json group_json(const ResultGroup& group, const ProblemNames& names) {
  Json json{{"op", group.kind->op},          {"unit", group.kind->unit},
            {"problem", group.problem},      {"brief", names.brief(group.kind->op, group.problem)},
            {"device", group.device},        {"backend", group.backend},
            {"model", group.model},          {"checks", checks_json(group.checks)},
            {"copyShare", group.copy_share}, {"means", Json::object()}};
  for (std::size_t i = 0; i < group.means.size(); ++i) {
    json["means"][group.kind->rates[i].title] = group.means[i];
  }
  return json;
}

Json ratio_json(const PairedRatio& ratio, const std::string& brief) {
  return {{"op", ratio.op},         {"brief", brief},
          {"device", ratio.device}, {"peer", ratio.peer},
          {"cases", ratio.cases},   {"mean", ratio.mean},
          {"worst", ratio.worst},   {"best", ratio.best},
          {"behind", ratio.behind}, {"checks", checks_json(ratio.checks)}};
}

Json ratios_json(const ResultFolder& folder, PairedBy by, const ProblemNames& names) {
  Json json = Json::array();
  for (const PairedRatio& ratio : paired_ratios(folder, by)) {
    json.push_back(ratio_json(
        ratio, by == PairedBy::op ? ratio.problem : names.brief(ratio.title, ratio.problem)));
  }
  return json;
}

// Every contender of the folder and its role, in the order of files and rows: a page deals colours
// once, by name.
Json contenders_json(const ResultFolder& folder) {
  Json json = Json::object();
  const auto add = [&](const std::string& contender) {
    json[contender] = name(role_of(contender));
  };
  for (const ParsedResults& results : folder.results) {
    for (std::size_t i = 0; i < results.rows.size(); ++i) {
      add(contender_of(*results.kind, results.rows[i]));
      for (const PairedCase& pair : paired_cases(results, i)) add(pair.peer);
    }
  }
  return json;
}

Json change_json(const Change& change) {
  const auto rate = [](const ParsedRow& row) {
    return row.passed() ? Json(row.step_rate()) : Json();
  };
  return {{"label", change.before.label()},
          {"problem", change.before.problem},
          {"backend", change.before.backend},
          {"before", rate(change.before)},
          {"after", rate(change.after)},
          {"delta", change.delta},
          {"noise", change.noise},
          {"checkBefore", change.before.check},
          {"checkAfter", change.after.check}};
}

const char* name(Verdict verdict) {
  switch (verdict) {
    case Verdict::regression: return "regression";
    case Verdict::none: return "none";
    case Verdict::moved: return "moved";
    default: return "same";
  }
}

Json pair_json(const ComparedResults& pair, const std::string& file) {
  const ResultComparison& comparison = pair.comparison;
  const JudgeOptions judge;
  Json json{{"file", file},
            {"title", title_of_row(*pair.after, 0)},
            {"isOfPeers", pair.after->kind->backend_is_key},
            {"unit", pair.before->kind->unit},
            {"scoreBefore", comparison.score_before},
            {"scoreAfter", comparison.score_after},
            {"scoreNoise", comparison.score_noise},
            {"verdict", name(verdict_of(comparison, judge))},
            {"reason", reason_of(comparison, judge)},
            {"lost", comparison.lost(judge.threshold).size()},
            {"broken", comparison.broken().size()},
            {"onlyOld", comparison.only_old},
            {"onlyNew", comparison.only_new},
            {"changes", Json::array()}};
  for (const Change& change : comparison.changes) json["changes"].push_back(change_json(change));
  return json;
}

Json against_json(const ReportInput& input) {
  Json json{{"folder", input.against_path},
            {"pairs", Json::array()},
            {"unpaired", input.against->unpaired}};
  for (const ComparedResults& pair : input.against->pairs) {
    const auto index = static_cast<std::size_t>(pair.after - input.folder.results.data());
    json["pairs"].push_back(pair_json(pair, pair.named(input.folder.names[index])));
  }
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

}  // namespace

std::string report_data(const ReportInput& input) {
  const ProblemNames names(input.folder);
  const ChecksBySide checks = checks_by_side(input.folder);
  Json json{
      {"tool", version_text()},
      {"made", fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr)))},
      {"folder", input.path},
      {"command", input.command},
      {"threshold", kThresholdPercent / 100},
      {"skipped", input.folder.skipped},
      {"contenders", contenders_json(input.folder)},
      {"checks", {{"octet", checks_json(checks.octet)}, {"peers", checks_json(checks.peers)}}},
      {"ratiosByOperator", ratios_json(input.folder, PairedBy::op, names)},
      {"ratiosByProblem", ratios_json(input.folder, PairedBy::problem, names)},
      {"tables", Json::array()},
      {"groups", Json::array()},
      {"against", input.against == nullptr ? Json() : against_json(input)}};
  for (std::size_t i = 0; i < input.folder.results.size(); ++i) {
    json["tables"].push_back(results_json(input.folder.results[i], input.folder.names[i], names));
  }
  for (const ResultGroup& group : group_results(input.folder)) {
    json["groups"].push_back(group_json(group, names));
  }
  return inside_script(json);
}

}  // namespace octet::tool
