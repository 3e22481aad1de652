#include "tool/bench/step_row.hpp"

#include "tool/bench/forced_backends.hpp"
#include "tool/bench/gemm_row.hpp"

#include "dispatch/machine.hpp"

#include <fmt/format.h>

#include <cmath>

namespace octet::tool {
namespace {

// "cpu_simd", or "cpu_simd; backward: cpu_reference" where the calls differ.
std::string of_calls(const StepRow& row, std::string bench::StepWorkload::Call::*what) {
  const std::string& first = row.calls.front().*what;
  const std::string& last = row.calls.back().*what;
  return first == last ? first : fmt::format("{}; backward: {}", first, last);
}

}  // namespace

const StepLayout& layout_of(RowKind rows) {
  switch (rows) {
    case RowKind::cast: return cast_layout();
    case RowKind::memory: return memory_layout();
    default: return mlp_layout();
  }
}

bench::Row place_fields(const StepRow& row) {
  const Device device = row.step_case.device;
  return {std::to_string(row.test_id), platform(device), gpu_name(device)};
}

bench::Row provenance_fields(const StepRow& row) {
  bench::Row fields{of_calls(row, &bench::StepWorkload::Call::implementation),
                    of_calls(row, &bench::StepWorkload::Call::configuration),
                    std::to_string(this_machine(kCpu, row.data.threads).threads),
                    row.times ? std::to_string(row.times->warmup) : "",
                    row.times ? std::to_string(row.times->iterations()) : "",
                    row.times ? number(row.times->spread() * 100) : "",
                    row.note};
  append(fields,
         machine_fields(row.op, row.step_case.device, row.times ? row.times->gpu : std::nullopt));
  append(fields, {std::to_string(row.data.seed),
                  with_forced_backends("octet bench " + row.arguments + row.timing_arguments)});
  return fields;
}

double least_snr_db(const GateReport& gates, bool gradients) {
  double least = std::nan("");
  for (const GateResult& gate : gates.results) {
    if ((gate.tensor.rfind('d', 0) == 0) == gradients) least = std::fmin(least, gate.snr_db);
  }
  return least;
}

}  // namespace octet::tool
