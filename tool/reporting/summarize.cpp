// octet summarize: octet's rates over a file or a folder of results, and octet beside its peers.
#include "tool/console.hpp"
#include "tool/options/options.hpp"
#include "tool/reporting/paired_ratios.hpp"
#include "tool/reporting/problem_names.hpp"
#include "tool/reporting/result_groups.hpp"

#include "bench/report/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

namespace octet::tool {
namespace {

struct SummarizeOptions {
  std::string path = ".";
  bool wide = false;
};

// Four digits, so that the points of a column stand below each other: "1076", "3.440".
std::string four_digits(double value) {
  if (std::isnan(value)) return "-";
  return value < 1000 ? fmt::format("{:#.4g}", value) : fmt::format("{:.0f}", value);
}

std::string percent(double share) {
  return std::isnan(share) ? "-" : fmt::format("{:.1f} %", 100 * share);
}

std::string times(double ratio) {
  if (std::isnan(ratio)) return "-";
  return ratio < 10 ? fmt::format("{:.3f}x", ratio) : fmt::format("{:.1f}x", ratio);
}

// One unit per operator and device, so that its rows can be compared by eye.
bench::Unit unit_of(const ResultGroup& group, const std::vector<ResultGroup>& groups) {
  std::vector<double> rates;
  for (const ResultGroup& other : groups) {
    const double rate = other.means.back();
    if (other.kind == group.kind && other.device == group.device && !std::isnan(rate)) {
      rates.push_back(rate);
    }
  }
  return bench::fitting_unit(group.kind->unit, rates);
}

std::string mean_of(const ResultGroup& group, const std::string& title, const bench::Unit& unit) {
  for (std::size_t i = 0; i < group.means.size(); ++i) {
    if (group.kind->rates[i].title == title) return four_digits(group.means[i] * unit.per_base);
  }
  return "-";
}

// Whether the operator and the problem do not tell the group from all others on its device.
bool needs_backend(const ResultGroup& group, const std::vector<ResultGroup>& groups) {
  return std::any_of(groups.begin(), groups.end(), [&](const ResultGroup& other) {
    return other.kind == group.kind && other.problem == group.problem &&
           other.device == group.device && other.backend != group.backend;
  });
}

bool has_copy(const std::vector<ResultGroup>& groups) {
  return std::any_of(groups.begin(), groups.end(),
                     [](const ResultGroup& group) { return !std::isnan(group.copy_share); });
}

// "84 PASS", "3 PASS, 1 FAIL, 1 ERROR"
std::string checks_text(const Checks& checks) {
  std::string text = fmt::format("{} PASS", checks.passed);
  if (checks.failed > 0) text += fmt::format(", {} FAIL", checks.failed);
  if (checks.errors > 0) text += fmt::format(", {} ERROR", checks.errors);
  return text;
}

// "4 FAIL, 1 ERROR", "-"
std::string failures_text(const Checks& checks) {
  if (checks.all_passed()) return "-";
  const std::string text = checks_text(checks);
  return text.substr(text.find(", ") + 2);
}

// What is the same for all rows stands in the headline and not in a column.
class Summary {
 public:
  Summary(const ResultFolder& folder, bool wide)
      : folder_(folder), names_(folder), groups_(group_results(folder)), wide_(wide) {
    for (const ParsedResults& results : folder.results) {
      for (const ParsedRow& row : results.rows) devices_.insert(row.device);
    }
    with_device_ = wide || devices_.size() > 1;
    with_copy_ = has_copy(groups_);
    with_backend_ = wide || std::any_of(groups_.begin(), groups_.end(), [&](const auto& group) {
                      return needs_backend(group, groups_);
                    });
  }

  void print_headline() const {
    std::size_t rows = 0;
    for (const ParsedResults& results : folder_.results) rows += results.rows.size();
    fmt::print("{}: {} in {}\n\n", printable(fmt::format("{}", fmt::join(devices_, ", "))),
               counted(rows, "row"), counted(folder_.results.size(), "file"));
  }

  void print_rates() const {
    if (groups_.empty()) return;
    bench::Row titles{"operator", "problem"};
    if (with_backend_) titles.emplace_back("backend");
    if (with_device_) titles.emplace_back("device");
    const std::size_t left_columns = titles.size();
    for (const char* title : {"step", "unit", "forward", "backward"}) titles.emplace_back(title);
    if (with_copy_) titles.emplace_back("of copy");
    titles.emplace_back("checks");
    std::vector<bench::Row> table{titles};
    for (const ResultGroup& group : groups_) table.push_back(rates_row(group));
    print_table(table, left_columns, wide_);
    fmt::print("Rates are geometric means over the shapes that are PASS.\n");
    if (with_copy_) fmt::print("Of copy: the step's share of copy bandwidth.\n");
    if (!wide_) print_shared_words();
    fmt::print("\n");
  }

  void print_peers() const {
    bench::Row titles{"operator", "problem", "peer"};
    if (with_device_) titles.emplace_back("device");
    const std::size_t left_columns = titles.size();
    const std::string behind = fmt::format("<{}x", kBehind);
    for (const char* title : {"shapes", "ratio", "worst", "best", behind.c_str(), "peer failed"}) {
      titles.emplace_back(title);
    }
    std::vector<bench::Row> table{titles};
    for (const PairedRatio& ratio : paired_ratios(folder_, PairedBy::problem)) {
      // A copy is a bound and no peer.
      if (wide_ || role_of(ratio.peer) != Role::copy) table.push_back(peer_row(ratio));
    }
    if (table.size() == 1) return;
    fmt::print("octet beside its peers\n");
    print_table(table, left_columns, wide_);
    fmt::print(
        "Ratio = peer's time / octet's, geometric mean over the shapes both passed; above 1 octet "
        "is faster.\n"
        "{}: the share of the shapes whose ratio is lower. Better of: in every shape its fastest "
        "peer.\n\n",
        behind);
  }

  void print_checks() const {
    const ChecksBySide checks = checks_by_side(folder_);
    fmt::print("octet: {}", checks_text(checks.octet));
    if (checks.peers.total() > 0) fmt::print("; peers: {}", checks_text(checks.peers));
    fmt::print("\n");
  }

 private:
  std::string problem(const std::string& title, const std::string& problem) const {
    return wide_ ? problem : names_.brief(title, problem);
  }

  bench::Row rates_row(const ResultGroup& group) const {
    const bool whole = group.model.empty();
    bench::Row row{whole ? group.kind->op : "",
                   whole ? problem(group.kind->op, group.problem) : "  " + group.model};
    if (with_backend_) row.push_back(whole ? group.backend : "");
    if (with_device_) row.push_back(group.device);
    const bench::Unit unit = unit_of(group, groups_);
    row.push_back(mean_of(group, "step", unit));
    row.push_back(unit.name);
    row.push_back(mean_of(group, "forward", unit));
    row.push_back(mean_of(group, "backward", unit));
    if (with_copy_) row.push_back(percent(group.copy_share));
    row.push_back(checks_text(group.checks));
    return row;
  }

  bench::Row peer_row(const PairedRatio& ratio) const {
    bench::Row row{ratio.op, problem(ratio.title, ratio.problem), ratio.peer};
    if (with_device_) row.push_back(ratio.device);
    row.push_back(std::to_string(ratio.cases));
    for (const double value : {ratio.mean, ratio.worst, ratio.best}) row.push_back(times(value));
    row.push_back(percent(ratio.behind));
    row.push_back(failures_text(ratio.checks));
    return row;
  }

  // What the short names of problems leave out.
  void print_shared_words() const {
    std::set<std::string> ops;
    for (const ResultGroup& group : groups_) {
      if (!ops.insert(group.kind->op).second) continue;
      for (const std::string& shared : names_.shared(group.kind->op)) {
        fmt::print("Every {}\n", printable(shared));
      }
    }
  }

  const ResultFolder& folder_;
  ProblemNames names_;
  std::vector<ResultGroup> groups_;
  std::set<std::string> devices_;
  bool wide_;
  bool with_device_ = false;
  bool with_copy_ = false;
  bool with_backend_ = false;
};

int summarize(const SummarizeOptions& options) {
  const ResultFolder folder = read_results_folder(options.path);
  const Summary summary(folder, options.wide);
  summary.print_headline();
  summary.print_rates();
  summary.print_peers();
  summary.print_checks();
  print_skipped(folder);
  return 0;
}

}  // namespace

void add_summarize(CLI::App& octet, Chosen& chosen) {
  CLI::App& app =
      add_command(octet, "summarize", "Print octet's mean rates and its ratios to peers.");
  const auto options = std::make_shared<SummarizeOptions>();
  add_optional_argument(app, "RESULTS", options->path,
                        "A CSV of octet bench or a folder with such files.");
  add_flag(app, "--wide", options->wide, "Show every column in full, however wide the table gets.");
  add_examples(app, {"octet summarize results/h200", "octet summarize run.csv --wide"});
  choose_when_given(app, chosen, [options] { return summarize(*options); });
}

}  // namespace octet::tool
