#include "tool/cases/cases.hpp"

#include "tool/results/csv.hpp"
#include "tool/options/parse_number.hpp"
#include "tool/options/usage_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>

namespace octet::tool {
namespace {

enum Column { kTestId, kModel, kOp, kMbs, kM, kN, kK, kColumnCount };
constexpr std::array<std::string_view, kColumnCount> kColumnNames{"test_id", "model", "op", "mbs",
                                                                  "M",       "N",     "K"};

// Where each column stands in the file.
std::array<std::size_t, kColumnCount> find_columns(const CsvRow& header, std::string_view source) {
  std::array<std::size_t, kColumnCount> places{};
  for (std::size_t column = 0; column < kColumnCount; ++column) {
    const auto found = std::find(header.begin(), header.end(), kColumnNames[column]);
    if (found == header.end()) {
      refuse_usage("{}: the first row must name the columns {}; there is no {}", source,
                   fmt::join(kColumnNames, ","), kColumnNames[column]);
    }
    places[column] = static_cast<std::size_t>(found - header.begin());
  }
  return places;
}

template <class Value>
void add_once(std::vector<Value>& list, const Value& value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

void check_models(const std::vector<LayerCase>& cases, const std::vector<std::string>& wanted) {
  std::vector<std::string> models;
  for (const LayerCase& layer : cases) add_once(models, layer.model);
  for (const std::string& name : wanted) {
    if (std::none_of(models.begin(), models.end(),
                     [&](const std::string& model) { return same_name(model, name); })) {
      refuse_usage("no model is called \"{}\"; there are: {}", name, fmt::join(models, ", "));
    }
  }
}

void check_mbs(const std::vector<LayerCase>& cases, const std::vector<std::int64_t>& wanted) {
  std::vector<std::int64_t> sizes;
  for (const LayerCase& layer : cases) add_once(sizes, layer.mbs);
  for (const std::int64_t size : wanted) {
    if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) {
      refuse_usage("no case has a micro-batch of {}; there are: {}", size, fmt::join(sizes, ", "));
    }
  }
}

}  // namespace

std::string LayerCase::name() const { return model.empty() ? op : fmt::format("{} {}", model, op); }

bool parse_whole(std::string_view text, std::int64_t least, std::int64_t most,
                 std::int64_t& value) {
  return parse_number(text, value) && value >= least && value <= most;
}

bool parse_shape(std::string_view text, std::int64_t* factors, int count) {
  for (int i = 0; i < count; ++i) {
    const std::size_t end = i + 1 < count ? text.find('x') : text.size();
    if (end == std::string_view::npos) return false;
    if (!parse_whole(text.substr(0, end), 1, std::numeric_limits<std::int64_t>::max(),
                     factors[i])) {
      return false;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return true;
}

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

std::vector<LayerCase> parse_cases(std::string_view text, std::string_view source) {
  const std::vector<CsvRow> rows = parse_csv(text, source);
  if (rows.empty()) {
    refuse_usage("{}: the file is empty; wanted a first row {}", source,
                 fmt::join(kColumnNames, ","));
  }
  const auto columns = find_columns(rows[0], source);
  std::vector<LayerCase> cases;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    if (rows[r].size() != rows[0].size()) {
      refuse_usage("{}: row {} has {} fields, the first row has {}", source, r + 1, rows[r].size(),
                   rows[0].size());
    }
    const auto field = [&](Column column) -> const std::string& {
      return rows[r][columns[column]];
    };
    const auto whole = [&](Column column) {
      std::int64_t value = 0;
      if (!parse_whole(field(column), 1, std::numeric_limits<std::int64_t>::max(), value)) {
        refuse_usage("{}: row {}: {} must be a whole number of at least 1, got \"{}\"", source,
                     r + 1, kColumnNames[column], field(column));
      }
      return value;
    };
    cases.push_back(
        {field(kTestId), field(kModel), field(kOp), whole(kMbs), whole(kM), whole(kN), whole(kK)});
  }
  if (cases.empty()) refuse_usage("{}: there is no case below the first row", source);
  return cases;
}

std::vector<LayerCase> select_cases(const std::vector<LayerCase>& cases,
                                    const std::vector<std::string>& models,
                                    const std::vector<std::int64_t>& mbs) {
  check_models(cases, models);
  check_mbs(cases, mbs);
  std::vector<LayerCase> selected;
  for (const LayerCase& layer : cases) {
    const bool model_listed =
        models.empty() || std::any_of(models.begin(), models.end(), [&](const std::string& name) {
          return same_name(layer.model, name);
        });
    const bool mbs_listed =
        mbs.empty() || std::find(mbs.begin(), mbs.end(), layer.mbs) != mbs.end();
    if (model_listed && mbs_listed) selected.push_back(layer);
  }
  return selected;
}

}  // namespace octet::tool
