// The rows of gated-mlp: rates of forward and backward, launches and bytes, and of an FP8 layer the
// unfused chain beside them, timed in the same run.
#include "tool/bench/gemm_row.hpp"
#include "tool/bench/step_row.hpp"

#include "bench/report/columns.hpp"
#include "bench/report/tables.hpp"

#include <algorithm>

namespace octet::tool {
namespace {

// Of forward: a product of 2F features, and with --down one of F; backward has twice as many.
double forward_operations(const StepRow& row) {
  double volume = 1;
  for (const double extent : row.step_case.extents) volume *= extent;
  const bool down = row.step_case.arguments.find(" --down ") != std::string::npos;
  return (down ? 6 : 4) * volume;
}

bench::Row time_fields(const StepRow& row) {
  if (!row.times) return bench::Row(6);
  const double operations = forward_operations(row);
  const auto fields = [](double amount, double seconds) {
    return bench::Row{number(seconds * 1e3), number(amount / seconds / 1e12)};
  };
  bench::Row result = fields(operations, row.seconds(0));
  append(result, fields(2 * operations, row.seconds(1)));
  append(result, fields(3 * operations, row.seconds(0) + row.seconds(1)));
  return result;
}

// Launches and bytes of forward and of backward.
bench::Row cost_fields(const std::vector<bench::StepWorkload::Call>& calls) {
  if (calls.empty()) return bench::Row(4);
  bench::Row fields;
  for (const auto& call : calls) {
    append(fields, {std::to_string(call.launches), std::to_string(call.bytes)});
  }
  return fields;
}

// The gates called F compare every output and saved view of both ways.
std::string same_bits(const GateReport& gates) {
  const auto is_f = [](const GateResult& gate) { return gate.gate == "F"; };
  if (std::none_of(gates.results.begin(), gates.results.end(), is_f)) return "";
  return std::all_of(gates.results.begin(), gates.results.end(),
                     [&](const GateResult& gate) { return !is_f(gate) || gate.pass; })
             ? "yes"
             : "no";
}

bench::Row unfused_fields(const StepRow& row) {
  bench::Row fields = cost_fields(row.peer_calls);
  if (row.comparison) {
    const bench::Comparison& comparison = *row.comparison;
    append(fields,
           {number(comparison.peer.median_seconds(0) * 1e3),
            number(comparison.peer.median_seconds(1) * 1e3), number(comparison.part_ratios[0]),
            number(comparison.part_ratios[1]), number(comparison.ratio)});
  } else {
    append(fields, bench::Row(5));
  }
  fields.push_back(same_bits(row.gates));
  return fields;
}

bench::Row mlp_fields(const StepRow& row) {
  const StepCase& one = row.step_case;
  bench::Row fields = place_fields(row);
  append(fields, {one.name, row.op});
  for (const std::int64_t extent : one.extents) fields.push_back(std::to_string(extent));
  append(fields, {option_of(one.arguments, "--dtype"), other_options(one.arguments), row.check});
  append(fields, time_fields(row));
  append(fields, cost_fields(row.calls));
  append(fields, unfused_fields(row));
  append(fields, {number(least_snr_db(row.gates, false)), number(least_snr_db(row.gates, true))});
  append(fields, provenance_fields(row));
  return fields;
}

}  // namespace

const StepLayout& mlp_layout() {
  static const StepLayout layout{
      bench::mlp_columns(),
      mlp_fields,
      bench::mlp_table,
      4,
      "Case",
      {{"Combined Step TFLOPS",
        "score: {:.4g} TFLOPS, the geometric mean of Combined Step TFLOPS\n"},
       {"Combined Ratio",
        "ratio: {:.3f}, the geometric mean of the unfused chain's time over ours\n"},
       {"Forward Ratio", "  forward: {:.3f}\n"},
       {"Backward Ratio", "  backward: {:.3f}\n"}}};
  return layout;
}

}  // namespace octet::tool
