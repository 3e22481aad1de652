// octet summarize: one table over a folder of results.
#include "tool/console.hpp"
#include "tool/options/options.hpp"
#include "tool/reporting/result_groups.hpp"

#include <fmt/format.h>

#include <cmath>
#include <memory>

namespace octet::tool {
namespace {

std::string mean_of(const ResultGroup& group, const std::string& title) {
  for (std::size_t i = 0; i < group.means.size(); ++i) {
    if (group.kind->rates[i].title != title) continue;
    return std::isnan(group.means[i]) ? "-" : fmt::format("{:.4g}", group.means[i]);
  }
  return "-";
}

std::vector<std::string> table_row(const ResultGroup& group) {
  std::vector<std::string> row{group.kind->op, group.problem, group.device, group.backend};
  if (!group.model.empty()) row = {"", "  " + group.model, "", ""};
  for (const std::size_t count :
       {group.count(), group.checks.passed, group.checks.failed, group.checks.errors}) {
    row.push_back(std::to_string(count));
  }
  for (const char* title : {"forward", "backward", "step"}) row.push_back(mean_of(group, title));
  row.emplace_back(group.kind->unit);
  return row;
}

int summarize(const std::string& path) {
  const ResultFolder folder = read_results_folder(path);
  std::vector<bench::Row> table{{"operator", "problem", "device", "backend", "shapes", "PASS",
                                 "FAIL", "ERROR", "forward", "backward", "step", ""}};
  for (const ResultGroup& group : group_results(folder)) table.push_back(table_row(group));
  print_table(table, 4);
  fmt::print("rates are geometric means over the shapes that are PASS\n");
  print_skipped(folder);
  return 0;
}

}  // namespace

void add_summarize(CLI::App& octet, Chosen& chosen) {
  CLI::App& app = add_command(octet, "summarize", "one table over a folder of results");
  const auto folder = std::make_shared<std::string>();
  add_argument(app, "DIR", *folder, "a folder with CSVs of octet bench");
  choose_when_given(app, chosen, [folder] { return summarize(*folder); });
}

}  // namespace octet::tool
