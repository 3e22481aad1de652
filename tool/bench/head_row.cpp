// The rows of linear-cross-entropy: the loss alone, and the step with both gradients.
#include "tool/bench/case_result.hpp"

#include "bench/report/tables.hpp"

namespace octet::tool {
namespace {

// Logits have 2 MVK operations, the gradients twice as many; logits that are computed again for a
// gradient per token do not count.
bench::Row time_fields(const CaseResult& result) {
  if (!result.times) return bench::Row(4);
  double volume = 1;
  for (const double extent : result.chosen.extents) volume *= extent;
  bench::Row fields;
  for (const std::size_t call : {0, 1}) {
    const double operations = (call == 0 ? 2 : 6) * volume;
    const double seconds = result.seconds(call);
    append(fields, {number(seconds * 1e3), number(operations / seconds / 1e12)});
  }
  return fields;
}

bench::Row head_fields(const CaseResult& result) {
  const Case& one = result.chosen;
  bench::Row fields = place_fields(result);
  append(fields, {one.name, result.op});
  for (const std::int64_t extent : one.extents) fields.push_back(std::to_string(extent));
  append(fields, {option_of(one.arguments, "--dtype"), other_options(one.arguments), result.check});
  append(fields, time_fields(result));
  append(fields,
         {std::to_string(result.calls[1].workspace_bytes),
          number(least_snr_db(result.gates, false)), number(least_snr_db(result.gates, true))});
  append(fields, run_fields(result));
  append(fields, origin_fields(result));
  return fields;
}

}  // namespace

RowLayout head_layout() { return {bench::head_columns(), head_fields, bench::head_table, "Case"}; }

}  // namespace octet::tool
