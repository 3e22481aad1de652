#include "quantize_row.hpp"

#include "gemm_row.hpp"

#include "bench/result_columns.hpp"
#include "dispatch/machine.hpp"

namespace octet::tool {
namespace {

std::string block_name(const std::optional<BlockShape>& block) {
  return block ? name(*block) : "none";
}

CsvRow time_fields(const QuantizeRow& row) {
  const std::string bytes = std::to_string(row.bytes);
  if (!row.times) return {"", bytes, "", "", "", ""};
  return {number(row.seconds() * 1e3),
          bytes,
          number(row.gigabytes_per_second(row.seconds())),
          number(row.copy_seconds() * 1e3),
          number(row.gigabytes_per_second(row.copy_seconds())),
          number(row.times->ratio)};
}

CsvRow provenance_fields(const QuantizeRow& row) {
  CsvRow fields{row.implementation,
                row.configuration,
                std::to_string(this_machine(kCpu, row.data.threads).threads),
                row.times ? std::to_string(row.times->ours.warmup) : "",
                row.times ? std::to_string(row.times->ours.iterations()) : "",
                row.times ? number(row.times->ours.spread() * 100) : "",
                row.note};
  for (const std::string& field : machine_fields("quantize", row.problem.device, row.gpu)) {
    fields.push_back(field);
  }
  fields.push_back(std::to_string(row.data.seed));
  fields.push_back("octet bench " + row.arguments + row.timing_arguments);
  return fields;
}

}  // namespace

CsvRow quantize_header() { return bench::memory_columns(); }

CsvRow quantize_fields(const QuantizeRow& row) {
  const QuantizeProblem& problem = row.problem;
  CsvRow fields{std::to_string(row.test_id),
                platform(problem.device),
                gpu_name(problem.device),
                std::to_string(problem.rows),
                std::to_string(problem.cols),
                std::string(name(problem.input)),
                std::string(name(problem.format)),
                block_name(problem.block),
                block_name(problem.transposed_block),
                row.check};
  for (const std::string& field : time_fields(row)) fields.push_back(field);
  for (const std::string& field : provenance_fields(row)) fields.push_back(field);
  return fields;
}

}  // namespace octet::tool
