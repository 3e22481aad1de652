// The rows of linear layers over groups: rates of forward and backward, and how the rows of the
// buffers are spread over the groups.
#include "tool/bench/case_result.hpp"

#include "bench/report/tables.hpp"

namespace octet::tool {
namespace {

// M, N and K, where M counts the rows of groups.
std::vector<std::int64_t> multiplied_extents(const CaseResult& result) {
  std::vector<std::int64_t> extents = result.chosen.extents;
  extents.at(0) = result.chosen.grouped_rows;
  return extents;
}

// 2 MNK; backward has two such products.
double forward_operations(const CaseResult& result) {
  double operations = 2;
  for (const std::int64_t extent : multiplied_extents(result)) {
    operations *= static_cast<double>(extent);
  }
  return operations;
}

std::string or_else(const std::string& text, const char* usual) {
  return text.empty() ? usual : text;
}

bench::Row grouped_fields(const CaseResult& result) {
  const Case& one = result.chosen;
  bench::Row fields = place_fields(result);
  append(fields,
         {one.name, result.op, or_else(option_of(one.arguments, "--group-sizes"), "balanced"),
          option_of(one.arguments, "--groups")});
  for (const std::int64_t extent : multiplied_extents(result)) {
    fields.push_back(std::to_string(extent));
  }
  append(fields, {option_of(one.arguments, "--dtype"),
                  or_else(option_of(one.arguments, "--granularity"), "none"), result.check});
  append(fields, step_fields(result, forward_operations(result)));
  for (const char* gate : {"G1", "G2", "G4"}) {
    for (const char* tensor : {"y", "dx", "dw"}) {
      fields.push_back(number(result.gates.snr_db(gate, tensor)));
    }
  }
  append(fields, run_fields(result));
  fields.push_back(option_of(one.arguments, "--wgrad-blocks"));
  append(fields, origin_fields(result));
  return fields;
}

}  // namespace

RowLayout grouped_layout() {
  return {bench::grouped_columns(), grouped_fields, bench::grouped_table, "Case"};
}

}  // namespace octet::tool
