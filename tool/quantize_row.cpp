#include "quantize_row.hpp"

#include "gemm_row.hpp"
#include "provenance.hpp"

#include "bench/host.hpp"
#include "dispatch/machine.hpp"

#include <fmt/format.h>

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
  return {row.implementation,
          row.configuration,
          std::to_string(this_machine(kCpu, row.data.threads).threads),
          row.times ? std::to_string(row.times->ours.warmup) : "",
          row.times ? std::to_string(row.times->ours.iterations()) : "",
          row.times ? number(row.times->ours.spread() * 100) : "",
          row.note,
          commit(),
          bench::cpu_model(),
          number(bench::cpu_clock_mhz()),
          std::to_string(row.data.seed),
          "octet bench " + row.arguments + row.timing_arguments};
}

}  // namespace

CsvRow quantize_header() {
  return {"TestID",
          "Platform",
          "GPU",
          "Rows",
          "Cols",
          "Dtype",
          "Format",
          "Block",
          "Transposed Block",
          "Check",
          "Time (ms)",
          "Bytes",
          "GB/s",
          "Memcpy Time (ms)",
          "Memcpy GB/s",
          "Memcpy Ratio",
          "Backend",
          "Configuration",
          "Threads",
          "Warmup",
          "Iterations",
          "Spread (%)",
          "Note",
          "Commit",
          "CPU",
          "Clock (MHz)",
          "Seed",
          "Command"};
}

CsvRow quantize_fields(const QuantizeRow& row, std::size_t test_id) {
  const QuantizeProblem& problem = row.problem;
  CsvRow fields{std::to_string(test_id),
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

CsvRow quantize_table_header() {
  return {"shape", "block",       "transposed", "check",    "ms",
          "GB/s",  "memcpy GB/s", "ratio",      "spread %", "note"};
}

CsvRow quantize_table_fields(const QuantizeRow& row) {
  const QuantizeProblem& problem = row.problem;
  CsvRow result{fmt::format("{}x{}", problem.rows, problem.cols),
                block_name(problem.block),
                block_name(problem.transposed_block),
                row.check,
                "-",
                "-",
                "-",
                "-",
                "-",
                row.check == "PASS" ? row.note : ""};
  if (row.times) {
    result[4] = fmt::format("{:.4g}", row.seconds() * 1e3);
    result[5] = fmt::format("{:.4g}", row.gigabytes_per_second(row.seconds()));
    result[6] = fmt::format("{:.4g}", row.gigabytes_per_second(row.copy_seconds()));
    result[7] = fmt::format("{:.3f}", row.times->ratio);
    result[8] = fmt::format("{:.1f}", row.times->ours.spread() * 100);
  }
  return result;
}

}  // namespace octet::tool
