// The rows of linear layers: rates of forward and backward, and with --baseline the times of
// another library from the same run.
#include "tool/bench/case_result.hpp"

#include "bench/report/tables.hpp"

#include <fmt/format.h>

namespace octet::tool {
namespace {

bench::Row case_fields(const CaseResult& result) {
  const Case& layer = result.chosen;
  const std::string granularity = option_of(layer.arguments, "--granularity");
  bench::Row fields = place_fields(result);
  append(fields, {layer.name, layer.mbs == 0 ? "" : std::to_string(layer.mbs)});
  for (const std::int64_t extent : layer.extents) fields.push_back(std::to_string(extent));
  append(fields, {option_of(layer.arguments, "--dtype"), granularity.empty() ? "none" : granularity,
                  result.check});
  return fields;
}

// 2 MNK; backward has two such products.
double forward_operations(const CaseResult& result) {
  double operations = 2;
  for (const std::int64_t extent : result.chosen.extents) operations *= static_cast<double>(extent);
  return operations;
}

bench::Row error_fields(const CaseResult& result) {
  bench::Row fields;
  for (const char* gate : {"G1", "G2", "G4"}) {
    for (const char* tensor : {"y", "dx", "dw"}) {
      fields.push_back(number(result.gates.snr_db(gate, tensor)));
    }
  }
  fields.push_back(number(result.f16_snr_db));
  return fields;
}

bench::Row layer_fields(const CaseResult& result) {
  bench::Row fields = case_fields(result);
  append(fields, step_fields(result, forward_operations(result)));
  append(fields, error_fields(result));
  append(fields, run_fields(result));
  fields.push_back(option_of(result.chosen.arguments, "--wgrad-blocks"));
  append(fields, origin_fields(result));
  if (!result.baseline.empty()) append(fields, baseline_fields(result));
  return fields;
}

}  // namespace

RowLayout layer_layout(const std::string& baseline) {
  return {bench::gemm_columns(!baseline.empty()), layer_fields, bench::gemm_table, "Case"};
}

}  // namespace octet::tool
