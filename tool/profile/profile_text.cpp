#include "tool/profile/profile_text.hpp"

#include "tool/console.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace octet::tool {
namespace {

// What was measured without ncu, of a part.
constexpr std::array kTimingFacts{"time (ms)", "clock (MHz)", "power (W)", "temperature (C)",
                                  "throttle"};

std::string fact(const Facts& facts, const std::string& name) {
  const auto found = facts.find(name);
  return found == facts.end() ? "" : found->second;
}

// Four digits, and whole bytes.
std::string cell(double value) {
  constexpr double kWhole = 1000;
  if (value >= kWhole) return fmt::format("{:.0f}", value);
  return bench::Unit{"", 1}.text(value);
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

double counter_of(const KernelRow* row, std::size_t index) {
  return row == nullptr ? std::nan("") : row->counters[index];
}

std::string difference(const Counter& counter, double ours, double other) {
  if (std::isnan(ours) || std::isnan(other)) return "-";
  if (ours == other) return "=";
  if (counter.is_share) return fmt::format("{:+.1f} points", ours - other);
  return other == 0 ? "-" : fmt::format("{:+.1f} %", (ours / other - 1) * 100);
}

}  // namespace

std::vector<bench::Row> kernel_table(const BuildProfile& profile) {
  std::vector<bench::Row> table{{"part", "kernel", "launches"}};
  for (const Counter& counter : counters()) table[0].emplace_back(counter.label);
  for (const KernelRow& row : profile.rows) {
    bench::Row line{row.part, printable(row.kernel), std::to_string(row.launches)};
    for (const double value : row.counters) line.push_back(cell(value));
    table.push_back(std::move(line));
  }
  return table;
}

std::vector<bench::Row> side_by_side(const BuildProfile& ours, const BuildProfile& other) {
  std::vector<bench::Row> table{{"part", "kernel", "counter", "this", "against", "difference"}};
  for (const auto& [first, second] : paired(ours.rows, other.rows)) {
    const KernelRow& one = first != nullptr ? *first : *second;
    std::string kernel = one.kernel;
    if (first != nullptr && second != nullptr && first->kernel != second->kernel) {
      kernel += ", against " + second->kernel;
    }
    for (std::size_t c = 0; c < counters().size(); ++c) {
      const double a = counter_of(first, c);
      const double b = counter_of(second, c);
      bench::Row line{"",      "",      counters()[c].label,
                      cell(a), cell(b), difference(counters()[c], a, b)};
      if (c == 0) {
        line[0] = one.part;
        line[1] = printable(kernel);
      }
      table.push_back(std::move(line));
    }
  }
  return table;
}

std::vector<bench::Row> timing_table(const std::vector<BuildProfile>& profiles,
                                     const std::vector<std::string>& parts) {
  std::vector<bench::Row> table{
      {"without ncu", "build", "check", "ms", "MHz", "W", "C", "throttle", "note"}};
  for (const std::string& part : parts) {
    for (const BuildProfile& profile : profiles) {
      const std::string check = fact(profile.facts, "check");
      if (check.empty()) continue;
      bench::Row line{part, printable(profile.build), check};
      for (const char* name : kTimingFacts) {
        line.push_back(or_dash(printable(fact(profile.facts, part + " " + name))));
      }
      line.push_back(printable(fact(profile.facts, part + " note")));
      table.push_back(std::move(line));
    }
  }
  return table;
}

const bench::Row& profile_header() {
  static const bench::Row header = [] {
    bench::Row row{"Operator", "Case", "Shape", "Build",   "Part",
                   "Kernel",   "Grid", "Block", "Launches"};
    for (const Counter& counter : counters()) row.emplace_back(counter.column);
    bench::append(row, {"Check", "Time (ms)", "Clock (MHz)", "Power (W)", "Temperature (C)",
                        "Throttle", "Note", "Backend", "Configuration", "Function", "GPU", "Commit",
                        "Device Sources", "Command"});
    return row;
  }();
  return header;
}

std::vector<bench::Row> profile_rows(const BuildProfile& profile, const std::string& op,
                                     const Case& one, const std::string& command) {
  std::vector<bench::Row> rows;
  for (const KernelRow& kernel : profile.rows) {
    const auto of_part = [&](const std::string& name) {
      return fact(profile.facts, kernel.part + " " + name);
    };
    bench::Row row{op,
                   one.name,
                   one.shape(),
                   profile.build,
                   kernel.part,
                   kernel.kernel,
                   kernel.grid,
                   kernel.block,
                   std::to_string(kernel.launches)};
    for (const double value : kernel.counters) row.push_back(bench::number(value));
    row.push_back(fact(profile.facts, "check"));
    for (const char* name : kTimingFacts) row.push_back(of_part(name));
    bench::append(row, {of_part("note"), of_part("backend"), of_part("configuration"),
                        kernel.function, fact(profile.facts, "GPU"), fact(profile.facts, "commit"),
                        fact(profile.facts, "device sources"), command});
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace octet::tool
