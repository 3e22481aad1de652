#include "tool/profile/ncu_report.hpp"

#include "tool/options/parse.hpp"
#include "tool/results/files.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <sstream>

namespace octet::tool {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  std::istringstream stream{std::string(text)};
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

// From the row of names on, without other lines.
std::string table_in(std::string_view text) {
  std::string table;
  for (const std::string& line : lines_of(text)) {
    const bool is_row = table.empty() ? line.rfind("\"ID\",", 0) == 0 : line.rfind('"', 0) == 0;
    if (is_row) table += line + "\n";
  }
  return table;
}

// "1,234.5"; nothing for "n/a", "nan" and "".
std::optional<double> value_of(std::string text) {
  std::erase(text, ',');
  double value = 0;
  if (!parse_number(std::string_view(text), value) || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool is_in_name(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
}

// Whether the text has the name, and not only as a part of a longer one.
bool has_name(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool begins = at == 0 || !is_in_name(text[at - 1]);
    if (begins && (end == text.size() || !is_in_name(text[end]))) return true;
  }
  return false;
}

void erase_all(std::string& text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) {
    text.erase(at, part.size());
  }
}

}  // namespace

std::vector<KernelLaunch> parse_ncu(std::string_view text) {
  const std::vector<bench::Row> rows = parse_csv(table_in(text), "the output of ncu");
  std::vector<KernelLaunch> launches;
  if (rows.empty()) return launches;
  const bench::Row& names = rows[0];
  bench::Row units(names.size());
  for (std::size_t r = 1; r < rows.size(); ++r) {
    const bench::Record record(names, rows[r]);
    if (record.at("ID").empty()) {
      units = rows[r];
      units.resize(names.size());
      continue;
    }
    KernelLaunch launch{record.at("Kernel Name"), record.at("Grid Size"), record.at("Block Size")};
    for (std::size_t c = 0; c < std::min(names.size(), rows[r].size()); ++c) {
      if (names[c].find("__") == std::string::npos) continue;  // no metric
      const auto value = value_of(rows[r][c]);
      if (value) launch.metrics[names[c]] = *value * base_units(units[c]);
    }
    launches.push_back(std::move(launch));
  }
  return launches;
}

// ncu names a metric with its suffixes or without, plain or as a regular expression:
// "==ERROR== Failed to find metric regex:^sm__no_such\.(sum|min|max|avg)$".
std::vector<std::string> unknown_metrics(std::string_view text,
                                         const std::vector<std::string>& asked) {
  std::vector<std::string> unknown;
  for (const std::string& line : lines_of(text)) {
    if (line.rfind("==ERROR==", 0) != 0 || line.find("metric") == std::string::npos) continue;
    std::vector<std::string> whole;
    std::vector<std::string> stems;
    for (const std::string& name : asked) {
      if (line.find(name) != std::string::npos) whole.push_back(name);
      if (has_name(line, name.substr(0, name.find('.')))) stems.push_back(name);
    }
    for (const std::string& name : whole.empty() ? stems : whole) {
      if (std::find(unknown.begin(), unknown.end(), name) == unknown.end()) unknown.push_back(name);
    }
  }
  return unknown;
}

std::string refusal_of_counters(std::string_view text) {
  for (const char* error : {"ERR_NVGPUCTRPERM", "LibraryNotLoaded"}) {
    if (text.find(error) != std::string_view::npos) return error;
  }
  return "";
}

std::string short_name(std::string function) {
  erase_all(function, "(anonymous namespace)::");
  erase_all(function, "<unnamed>::");
  std::string name;
  int depth = 0;
  for (const char letter : function) {
    if (letter == '(' && depth == 0) break;
    if (letter == '>') --depth;
    if (depth == 0 && letter != '<' && letter != '>') name += letter;
    if (letter == '<') ++depth;
  }
  name = name.substr(name.rfind(' ') + 1);  // npos + 1 is 0
  const std::size_t scope = name.rfind("::");
  return scope == std::string::npos ? name : name.substr(scope + 2);
}

}  // namespace octet::tool
