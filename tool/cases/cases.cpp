#include "tool/cases/cases.hpp"

#include "tool/options/parse.hpp"
#include "tool/results/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace octet::tool {
namespace {

enum Column { kTestId, kModel, kOp, kMbs, kM, kN, kK, kColumnCount };
constexpr std::array<std::string_view, kColumnCount> kColumnNames{"test_id", "model", "op", "mbs",
                                                                  "M",       "N",     "K"};

// Index of each column in the file.
std::array<std::size_t, kColumnCount> find_columns(const bench::Row& header,
                                                   std::string_view source) {
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

void check_length(const std::vector<bench::Row>& rows, std::size_t r, std::string_view source) {
  if (rows[r].size() == rows[0].size()) return;
  refuse_usage("{}: row {} has {} fields, the first row has {}", source, r + 1, rows[r].size(),
               rows[0].size());
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
      refuse_usage("no model is called \"{}\"; there are: {}; or give a Hugging Face config.json",
                   name, fmt::join(models, ", "));
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

std::vector<LayerCase> parse_cases(std::string_view text, std::string_view source) {
  const std::vector<bench::Row> rows = parse_csv(text, source);
  if (rows.empty()) {
    refuse_usage("{}: the file is empty; wanted a first row {}", source,
                 fmt::join(kColumnNames, ","));
  }
  const auto columns = find_columns(rows[0], source);
  std::vector<LayerCase> cases;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    check_length(rows, r, source);
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

std::vector<ShapeCase> parse_shape_cases(std::string_view text, std::string_view source,
                                         std::string_view form, bool on_gpu) {
  const std::vector<bench::Row> rows = parse_csv(text, source);
  const bench::Row first{"name", "shape", "cpu_shape"};
  if (rows.empty() || rows[0].size() < first.size() ||
      !std::equal(first.begin(), first.end(), rows[0].begin())) {
    refuse_usage("{}: the first row must begin with name,shape,cpu_shape", source);
  }
  std::vector<ShapeCase> cases;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    check_length(rows, r, source);
    const std::string& shape = rows[r][on_gpu ? 1 : 2];
    if (shape.empty()) continue;
    ShapeCase one{rows[r][0],
                  parse_extents(fmt::format("{}: row {}: a shape", source, r + 1), shape, form),
                  {}};
    for (std::size_t c = first.size(); c < rows[r].size(); ++c) {
      if (!rows[r][c].empty()) one.options[rows[0][c]] = rows[r][c];
    }
    cases.push_back(std::move(one));
  }
  return cases;
}

std::vector<ShapeCase> embedded_shape_cases(std::string op, std::string_view form, bool on_gpu) {
  const std::string file = with_underscores(std::move(op)) + ".csv";
  return parse_shape_cases(embedded_case_file(file), file, form, on_gpu);
}

}  // namespace octet::tool
