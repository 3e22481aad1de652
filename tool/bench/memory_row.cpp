// The rows of memory-bound operators, a cast, an update or a forward and a backward, next to copies
// of as many bytes.
#include "tool/bench/case_result.hpp"

#include "bench/report/tables.hpp"

#include <octet/bench/metrics.hpp>

namespace octet::tool {
namespace {

using bench::gigabytes_per_second;

bench::Row copy_fields(std::size_t bytes, double seconds, double ratio) {
  return {number(seconds * 1e3), number(gigabytes_per_second(bytes, seconds)), number(ratio)};
}

bench::Row memory_time_fields(const CaseResult& result) {
  if (!result.comparison) return bench::Row(9);
  bench::Row fields;
  double step_seconds = 0;
  std::size_t step_bytes = 0;
  for (std::size_t i = 0; i < result.calls.size(); ++i) {
    append(fields, copy_fields(result.calls[i].bytes, result.seconds(i),
                               result.comparison->part_ratios[i]));
    step_seconds += result.seconds(i);
    step_bytes += result.calls[i].bytes;
  }
  append(fields, copy_fields(step_bytes, step_seconds, result.comparison->ratio));
  return fields;
}

bench::Row memory_fields(const CaseResult& result) {
  const std::string& arguments = result.chosen.arguments;
  bench::Row fields = place_fields(result);
  append(fields, {result.chosen.name, result.op, option_of(arguments, "--shape"),
                  option_of(arguments, "--dtype"), other_options(arguments), result.check});
  append(fields, memory_time_fields(result));
  append(fields,
         {std::to_string(result.calls[0].bytes), std::to_string(result.calls[1].bytes),
          number(least_snr_db(result.gates, false)), number(least_snr_db(result.gates, true))});
  append(fields, run_fields(result));
  append(fields, origin_fields(result));
  return fields;
}

bench::Row cast_time_fields(const CaseResult& result) {
  const std::size_t bytes = result.calls[0].bytes;
  if (!result.comparison) return {"", std::to_string(bytes), "", "", "", ""};
  const double copy_seconds = result.comparison->peer.median_seconds(0);
  return {number(result.seconds(0) * 1e3),
          std::to_string(bytes),
          number(gigabytes_per_second(bytes, result.seconds(0))),
          number(copy_seconds * 1e3),
          number(gigabytes_per_second(bytes, copy_seconds)),
          number(result.comparison->ratio)};
}

bench::Row cast_fields(const CaseResult& result) {
  const std::string& arguments = result.chosen.arguments;
  const std::string shape = option_of(arguments, "--shape");
  const std::string transposed = option_of(arguments, "--transposed-block");
  bench::Row fields = place_fields(result);
  append(fields,
         {shape.substr(0, shape.find('x')), shape.substr(shape.find('x') + 1),
          option_of(arguments, "--dtype"), option_of(arguments, "--format"),
          option_of(arguments, "--block"), transposed.empty() ? "none" : transposed, result.check});
  append(fields, cast_time_fields(result));
  append(fields, run_fields(result));
  append(fields, origin_fields(result));
  return fields;
}

bench::Row update_fields(const CaseResult& result) {
  const std::string& arguments = result.chosen.arguments;
  bench::Row fields = place_fields(result);
  const std::string dtype = option_of(arguments, "--dtype");
  append(fields, {result.chosen.name, result.op, result.chosen.shape(),
                  dtype.empty() ? option_of(arguments, "--format") : dtype,
                  other_options(arguments), result.check});
  append(fields, cast_time_fields(result));
  append(fields, {number(least_snr_db(result.gates, false))});
  append(fields, run_fields(result));
  append(fields, origin_fields(result));
  return fields;
}

}  // namespace

RowLayout update_layout() {
  return {bench::update_columns(), update_fields, bench::update_table, "Shape"};
}

RowLayout memory_layout() {
  return {bench::memory_step_columns(), memory_fields, bench::memory_step_table, "Shape"};
}

RowLayout cast_layout() {
  return {bench::cast_columns(), cast_fields, bench::cast_table, "Backend"};
}

}  // namespace octet::tool
