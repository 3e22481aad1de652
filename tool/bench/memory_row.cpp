// The rows of operators that memory bounds, beside copies of as many bytes: a cast, or a forward and
// a backward.
#include "tool/bench/gemm_row.hpp"
#include "tool/bench/step_row.hpp"

#include "bench/report/columns.hpp"
#include "bench/report/tables.hpp"

namespace octet::tool {
namespace {

double gigabytes_per_second(std::size_t bytes, double seconds) {
  return static_cast<double>(bytes) / seconds / 1e9;
}

bench::Row rate_fields(std::size_t bytes, double seconds, double ratio) {
  return {number(seconds * 1e3), number(gigabytes_per_second(bytes, seconds)), number(ratio)};
}

bench::Row memory_time_fields(const StepRow& row) {
  if (!row.comparison) return bench::Row(9);
  bench::Row fields;
  double step_seconds = 0;
  std::size_t step_bytes = 0;
  for (std::size_t i = 0; i < row.calls.size(); ++i) {
    append(fields, rate_fields(row.calls[i].bytes, row.seconds(i), row.comparison->part_ratios[i]));
    step_seconds += row.seconds(i);
    step_bytes += row.calls[i].bytes;
  }
  append(fields, rate_fields(step_bytes, step_seconds, row.comparison->ratio));
  return fields;
}

bench::Row memory_fields(const StepRow& row) {
  const std::string& arguments = row.step_case.arguments;
  bench::Row fields = place_fields(row);
  append(fields, {row.step_case.name, row.op, option_of(arguments, "--shape"),
                  option_of(arguments, "--dtype"), other_options(arguments), row.check});
  append(fields, memory_time_fields(row));
  append(fields, {std::to_string(row.calls[0].bytes), std::to_string(row.calls[1].bytes),
                  number(least_snr_db(row.gates, false)), number(least_snr_db(row.gates, true))});
  append(fields, provenance_fields(row));
  return fields;
}

bench::Row cast_time_fields(const StepRow& row) {
  const std::size_t bytes = row.calls[0].bytes;
  if (!row.comparison) return {"", std::to_string(bytes), "", "", "", ""};
  const double copy_seconds = row.comparison->peer.median_seconds(0);
  return {number(row.seconds(0) * 1e3),
          std::to_string(bytes),
          number(gigabytes_per_second(bytes, row.seconds(0))),
          number(copy_seconds * 1e3),
          number(gigabytes_per_second(bytes, copy_seconds)),
          number(row.comparison->ratio)};
}

bench::Row cast_fields(const StepRow& row) {
  const std::string& arguments = row.step_case.arguments;
  const std::string shape = option_of(arguments, "--shape");
  const std::string transposed = option_of(arguments, "--transposed-block");
  bench::Row fields = place_fields(row);
  append(fields,
         {shape.substr(0, shape.find('x')), shape.substr(shape.find('x') + 1),
          option_of(arguments, "--dtype"), option_of(arguments, "--format"),
          option_of(arguments, "--block"), transposed.empty() ? "none" : transposed, row.check});
  append(fields, cast_time_fields(row));
  append(fields, provenance_fields(row));
  return fields;
}

}  // namespace

const StepLayout& memory_layout() {
  static const StepLayout layout{
      bench::memory_step_columns(),
      memory_fields,
      bench::memory_step_table,
      4,
      "Shape",
      {{"Combined Copy Ratio", "score: {:.3f} of a copy of the same bytes, the geometric mean\n"},
       {"Forward Copy Ratio", "  forward: {:.3f} of a copy\n"},
       {"Backward Copy Ratio", "  backward: {:.3f} of a copy\n"}}};
  return layout;
}

const StepLayout& cast_layout() {
  static const StepLayout layout{
      bench::cast_columns(),
      cast_fields,
      bench::cast_table,
      4,
      "Backend",
      {{"Memcpy Ratio", "score: {:.3f} of a copy of the same bytes, the geometric mean\n"}}};
  return layout;
}

}  // namespace octet::tool
