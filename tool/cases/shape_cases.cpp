#include "tool/cases/shape_cases.hpp"

#include "tool/cases/cases.hpp"
#include "tool/results/csv.hpp"
#include "tool/cases/suites.hpp"
#include "tool/options/usage_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace octet::tool {
namespace {

constexpr std::array<const char*, 4> kNumbers{"no", "one", "two", "three"};

}  // namespace

std::vector<std::int64_t> parse_extents(std::string_view what, const std::string& text,
                                        std::string_view form) {
  const auto count = static_cast<std::size_t>(std::count(form.begin(), form.end(), 'x')) + 1;
  std::vector<std::int64_t> extents(count);
  if (!parse_shape(text, extents.data(), static_cast<int>(count))) {
    refuse_usage("{} must be {}, {} whole numbers between 1 and {}, got \"{}\"", what, form,
                 kNumbers.at(count), std::numeric_limits<std::int64_t>::max(), text);
  }
  return extents;
}

std::vector<ShapeCase> parse_shape_cases(std::string_view text, std::string_view source,
                                         std::string_view form, bool on_gpu) {
  const std::vector<CsvRow> rows = parse_csv(text, source);
  const CsvRow first{"name", "shape", "cpu_shape"};
  if (rows.empty() || rows[0].size() < first.size() ||
      !std::equal(first.begin(), first.end(), rows[0].begin())) {
    refuse_usage("{}: the first row must begin with name,shape,cpu_shape", source);
  }
  std::vector<ShapeCase> cases;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    if (rows[r].size() != rows[0].size()) {
      refuse_usage("{}: row {} has {} fields, the first row has {}", source, r + 1, rows[r].size(),
                   rows[0].size());
    }
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
  std::replace(op.begin(), op.end(), '-', '_');
  const std::string file = op + ".csv";
  return parse_shape_cases(embedded_case_file(file), file, form, on_gpu);
}

}  // namespace octet::tool
