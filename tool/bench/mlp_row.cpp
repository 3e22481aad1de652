// The rows of gated-mlp and moe-mlp: rates of forward and backward, launches and bytes. Rows of an
// FP8 gated MLP also have the unfused chain, timed in the same run.
#include "tool/bench/case_result.hpp"

#include "bench/report/tables.hpp"

#include <algorithm>

namespace octet::tool {
namespace {

// Operations of forward: a product with 2F features, and with --down or in experts one with F; a
// token of experts has top-k rows. Backward has twice as many.
double forward_operations(const CaseResult& result) {
  double volume = 1;
  for (const double extent : result.chosen.extents) volume *= extent;
  const std::string& arguments = result.chosen.arguments;
  const std::string top_k = option_of(arguments, "--top-k");
  if (!top_k.empty()) return 6 * std::stod(top_k) * volume;
  return (arguments.find(" --down ") != std::string::npos ? 6 : 4) * volume;
}

// Launches and bytes of forward and of backward.
bench::Row cost_fields(const std::vector<bench::Workload::Call>& calls) {
  if (calls.empty()) return bench::Row(4);
  bench::Row fields;
  for (const auto& call : calls) {
    append(fields, {std::to_string(call.launches), std::to_string(call.bytes)});
  }
  return fields;
}

// The gates named F compare every output and saved view of the fused and the unfused layer.
std::string same_bits(const GateReport& gates) {
  const auto is_f = [](const GateResult& gate) { return gate.gate == "F"; };
  if (std::none_of(gates.results.begin(), gates.results.end(), is_f)) return "";
  return std::all_of(gates.results.begin(), gates.results.end(),
                     [&](const GateResult& gate) { return !is_f(gate) || gate.pass; })
             ? "yes"
             : "no";
}

bench::Row unfused_fields(const CaseResult& result) {
  bench::Row fields = cost_fields(result.peer_calls);
  if (result.comparison) {
    const bench::Comparison& comparison = *result.comparison;
    append(fields,
           {number(comparison.peer.median_seconds(0) * 1e3),
            number(comparison.peer.median_seconds(1) * 1e3), number(comparison.part_ratios[0]),
            number(comparison.part_ratios[1]), number(comparison.ratio)});
  } else {
    append(fields, bench::Row(5));
  }
  fields.push_back(same_bits(result.gates));
  return fields;
}

bench::Row mlp_fields(const CaseResult& result) {
  const Case& one = result.chosen;
  bench::Row fields = place_fields(result);
  append(fields, {one.name, result.op});
  for (const std::int64_t extent : one.extents) fields.push_back(std::to_string(extent));
  append(fields, {option_of(one.arguments, "--dtype"), other_options(one.arguments), result.check});
  append(fields, step_fields(result, forward_operations(result)));
  append(fields, cost_fields(result.calls));
  append(fields, unfused_fields(result));
  append(fields,
         {number(least_snr_db(result.gates, false)), number(least_snr_db(result.gates, true))});
  append(fields, run_fields(result));
  append(fields, origin_fields(result));
  return fields;
}

}  // namespace

RowLayout mlp_layout() { return {bench::mlp_columns(), mlp_fields, bench::mlp_table, "Case"}; }

}  // namespace octet::tool
