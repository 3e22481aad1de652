#include "tool/bench/gemm_row.hpp"

#include "tool/results/provenance.hpp"

#include "bench/timing/host.hpp"
#include "bench/report/columns.hpp"
#include "device/cuda_runtime.hpp"
#include "dispatch/machine.hpp"

namespace octet::tool {
namespace {

using bench::append;

bench::Row case_fields(const GemmRow& row) {
  const LayerCase& layer = row.layer.layer;
  return {layer.test_id,
          platform(row.layer.device()),
          gpu_name(row.layer.device()),
          layer.name(),
          layer.mbs == 0 ? "" : std::to_string(layer.mbs),
          std::to_string(layer.m),
          std::to_string(layer.n),
          std::to_string(layer.k),
          row.layer.fp8 ? "fp8" : std::string(name(row.layer.input())),
          row.layer.fp8 ? "blockwise" : "none",
          row.check};
}

bench::Row time_fields(const GemmRow& row) {
  if (!row.times) return bench::Row(6);
  return {number(row.forward_ms()),  number(row.tflops(1, row.forward_ms())),
          number(row.backward_ms()), number(row.tflops(2, row.backward_ms())),
          number(row.step_ms()),     number(row.step_tflops())};
}

bench::Row error_fields(const GemmRow& row) {
  bench::Row fields;
  for (const char* gate : {"G1", "G2", "G4"}) {
    for (const char* tensor : {"y", "dx", "dw"}) {
      fields.push_back(number(row.gates.snr_db(gate, tensor)));
    }
  }
  fields.push_back(number(row.f16_snr_db));
  return fields;
}

bench::Row provenance_fields(const GemmRow& row) {
  const Layer& layer = row.layer;
  const bool square = layer.fp8_problem.wgrad_blocks == WgradBlocks::square;
  bench::Row fields{row.implementation,
                    row.configuration,
                    std::to_string(this_machine(kCpu, layer.data.threads).threads),
                    row.times ? std::to_string(row.times->warmup) : "",
                    row.times ? std::to_string(row.times->iterations()) : "",
                    row.times ? number(row.times->spread() * 100) : "",
                    row.note,
                    layer.fp8 ? (square ? "2d" : "1d") : ""};
  append(fields, machine_fields("gemm", layer.device(), row.gpu));
  append(fields, {std::to_string(layer.data.seed), row.command});
  return fields;
}

bench::Row baseline_fields(const GemmRow& row) {
  if (!row.comparison) {
    bench::Row fields(7);
    fields[0] = row.baseline;
    return fields;
  }
  const bench::Comparison& comparison = *row.comparison;
  const double forward_ms = comparison.peer.median_seconds(0) * 1e3;
  const double backward_ms = comparison.peer.median_seconds(1) * 1e3;
  return {row.baseline,
          number(comparison.part_ratios[0]),
          number(comparison.part_ratios[1]),
          number(comparison.ratio),
          number(forward_ms),
          number(backward_ms),
          number(forward_ms + backward_ms)};
}

}  // namespace

double GemmRow::tflops(int products, double ms) const {
  const LayerCase& shape = layer.layer;
  const double operations = 2.0 * products * static_cast<double>(shape.m) *
                            static_cast<double>(shape.n) * static_cast<double>(shape.k);
  return operations / (ms * 1e-3) / 1e12;
}

std::string number(double value) { return bench::number(value); }

std::string platform(Device device) { return device.type == DeviceType::cuda ? "cuda" : "cpu"; }

std::string gpu_name(Device device) {
  return device.type == DeviceType::cuda ? cuda::properties(device.index).name : "none";
}

bench::Row machine_fields(const std::string& op, Device device,
                          const std::optional<bench::GpuReading>& gpu) {
  bench::Row fields{commit(), device_sources(op), bench::cpu_model()};
  if (device.type == DeviceType::cpu) {
    append(fields, {number(bench::cpu_clock_mhz()), "", "", ""});
  } else if (gpu) {
    append(fields, {number(gpu->clock_mhz), number(gpu->power_w), number(gpu->temperature_c),
                    bench::throttle_text(gpu->throttle)});
  } else {
    append(fields, bench::Row(4));
  }
  return fields;
}

bench::Row gemm_header(bool with_baseline) { return bench::gemm_columns(with_baseline); }

bench::Row gemm_fields(const GemmRow& row, bool with_baseline) {
  bench::Row fields = case_fields(row);
  append(fields, time_fields(row));
  append(fields, error_fields(row));
  append(fields, provenance_fields(row));
  if (with_baseline) append(fields, baseline_fields(row));
  return fields;
}

}  // namespace octet::tool
