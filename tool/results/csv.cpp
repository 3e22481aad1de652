#include "tool/results/csv.hpp"

#include "tool/options/usage_error.hpp"

#include <csv.h>

namespace octet::tool {
namespace {

struct Collector {
  std::vector<bench::Row> rows;
  bench::Row row;
};

void add_field(void* field, std::size_t length, void* collector) {
  static_cast<Collector*>(collector)->row.emplace_back(static_cast<const char*>(field), length);
}

void end_row(int /*terminator*/, void* collector) {
  auto& [rows, row] = *static_cast<Collector*>(collector);
  rows.push_back(std::move(row));
  row.clear();
}

// Frees libcsv's memory on every exit from the scope.
class Parser {
 public:
  Parser() { csv_init(&parser_, CSV_STRICT | CSV_STRICT_FINI); }
  ~Parser() { csv_free(&parser_); }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;
  csv_parser* operator&() { return &parser_; }  // NOLINT: stands for the struct it wraps

 private:
  csv_parser parser_{};
};

}  // namespace

std::vector<bench::Row> parse_csv(std::string_view text, std::string_view source) {
  Parser parser;
  Collector collector;
  const std::size_t read =
      csv_parse(&parser, text.data(), text.size(), add_field, end_row, &collector);
  if (read != text.size() || csv_fini(&parser, add_field, end_row, &collector) != 0) {
    refuse_usage("{}: row {} is not CSV: {}", source, collector.rows.size() + 1,
                 csv_strerror(csv_error(&parser)));
  }
  return std::move(collector.rows);
}

}  // namespace octet::tool
