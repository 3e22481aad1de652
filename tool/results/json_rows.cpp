#include "tool/results/json_rows.hpp"

#include "tool/options/parse.hpp"
#include "tool/results/files.hpp"
#include "tool/results/provenance.hpp"

#include "bench/report/record.hpp"
#include "bench/timing/timing.hpp"

#include <octet/version.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

namespace octet::tool {
namespace {

using Json = nlohmann::ordered_json;

// Columns that hold texts, even if a field has only digits.
constexpr std::array<std::string_view, 8> kTextColumns{
    "Case", "Commit", "Device Sources", "CPU", "GPU", "Configuration", "Note", "Command"};

Json field_as_json(const std::string& column, const std::string& field) {
  if (field.empty()) return nullptr;
  if (std::find(kTextColumns.begin(), kTextColumns.end(), column) != kTextColumns.end()) {
    return field;
  }
  std::int64_t whole = 0;
  if (parse_number(field, whole) && std::to_string(whole) == field)
    return whole;  // "007" is a name
  double real = 0;
  const bool has_point = field.find_first_of(".e") != std::string::npos;
  if (has_point && parse_number(field, real) && std::isfinite(real)) return real;
  return field;
}

Json row_object(const bench::Row& header, const bench::Row& row) {
  Json object = Json::object();
  for (std::size_t i = 0; i < header.size(); ++i) {
    object[header[i]] = field_as_json(header[i], row[i]);
  }
  return object;
}

// Bytes that are not UTF-8, as a name in a file of cases may have, are replaced.
std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// The build, the time and the command of a document.
Json origin_of(const std::string& op) {
  Json json;
  json["octet"] =
      fmt::format("{}.{}.{}", OCTET_VERSION_MAJOR, OCTET_VERSION_MINOR, OCTET_VERSION_PATCH);
  json["commit"] = commit();
  json["time"] = utc_now();
  json["op"] = op;
  return json;
}

void require_json_or_nothing(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return;
  const std::string text = read_text_file("--json " + path, path, "a file to write");
  if (text.empty()) return;
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("octet")) {
    refuse_to_replace("--json", path, "results of octet");
  }
}

}  // namespace

std::string row_as_json(const bench::Row& header, const bench::Row& row) {
  return dump(row_object(header, row), -1);
}

JsonFile::JsonFile(const std::string& path) : path_(path) {
  if (path.empty()) return;
  if (to_stdout()) {
    // Lines that stdout still buffers go to stderr too.
    stdout_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    if (stdout_ < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
      refuse_usage("--json -: {}", std::strerror(errno));
    }
    return;
  }
  require_json_or_nothing(path);
  const std::string target = bench::link_target(path);
  if (target.empty() || !std::ofstream(target + ".new")) {
    refuse_usage("--json {}: {}; wanted a file in a folder that exists and can be written", path,
                 std::strerror(target.empty() ? ELOOP : errno));
  }
  beside_ = target + ".new";
}

JsonFile::~JsonFile() {
  if (!beside_.empty()) std::remove(beside_.c_str());
  if (stdout_ >= 0) close(stdout_);
}

void JsonFile::write(const ResultKind& kind, const bench::Row& header,
                     const std::vector<std::optional<bench::Row>>& rows) {
  if (path_.empty()) return;
  Json json = origin_of(kind.op);
  std::vector<double> rates;
  std::set<std::string> digests;
  Json list = Json::array();
  for (const auto& row : rows) {
    if (!row) continue;
    list.push_back(row_object(header, *row));
    const bench::Record record(header, *row);
    digests.insert(record.at("Device Sources"));
    const double rate = rate_of(kind, record);
    if (record.at("Check") == "PASS" && !std::isnan(rate)) rates.push_back(rate);
  }
  // Rows may have run other kernels than each other; then each has its own digest only.
  if (digests.size() == 1) json["device_sources"] = *digests.begin();
  json["score"] = bench::geometric_mean(rates);  // NaN becomes null
  json["score_unit"] = kind.unit;
  json["score_column"] = kind.rates.back().column;
  json["rows"] = std::move(list);
  put(dump(json, 2) + "\n");
}

void JsonFile::write(const std::string& op, const bench::Row& header,
                     const std::vector<bench::Row>& rows) {
  if (path_.empty()) return;
  Json json = origin_of(op);
  json["device_sources"] = device_sources(op);
  Json list = Json::array();
  for (const bench::Row& row : rows) list.push_back(row_object(header, row));
  json["rows"] = std::move(list);
  put(dump(json, 2) + "\n");
}

void JsonFile::put(const std::string& text) {
  const int reason = to_stdout() ? bench::write_all(stdout_, text)
                                 : bench::replace_file(bench::link_target(path_), beside_, text);
  if (reason != 0) refuse_usage("--json {}: {}", path_, std::strerror(reason));
  beside_.clear();
}

}  // namespace octet::tool
