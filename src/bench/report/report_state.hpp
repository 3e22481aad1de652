// The rows behind a Report.
#pragma once

#include "bench/report/table.hpp"

#include <octet/bench/report.hpp>

#include <string_view>

namespace octet::bench {

struct Report::State {
  enum class Kind { none, product, memory };

  KernelInfo kernel{};
  Kind kind = Kind::none;
  Row header{};
  std::vector<Row> rows{};

  void add_product(const GemmCase& product, const Verdict& verdict, const Samples& times,
                   const Comparison* beside);
  void add_memory(const MemoryCase& shape, const Verdict& verdict, const Samples& times,
                  const Comparison* beside);

  // A row with what both kinds have. Throws Error where the rows before are of the other kind, or a
  // PASS has no times or those of too many parts.
  void begin_row(Kind kind_of_row, const Verdict& verdict, const Samples& times);
  void set(std::string_view column, const std::string& field);      // of the last row
  void set_times(const std::string& prefix, const Samples& times);  // of a product
  std::string at(const Row& row, std::string_view column) const;
  std::string name_of(const Row& row) const;

  std::string score_line() const;  // empty where no row has a rate
  std::string text(bool colours) const;
  void write_csv(const std::string& path) const;
};

}  // namespace octet::bench
