#include "tool/profile/launches.hpp"

#include "tool/results/command_line.hpp"
#include "tool/results/provenance.hpp"

#include "bench/report/record.hpp"
#include "bench/timing/device_queue.hpp"
#include "bench/timing/device_timing.hpp"
#include "device/cuda_runtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace octet::tool {
namespace {

// A case, planned, with the parts that its kind of row names.
struct PlannedCase {
  const Case& one;
  std::vector<std::string> parts;
  std::unique_ptr<bench::Workload> workload;

  PlannedCase(const Operator& op, const Case& chosen)
      : one(chosen), parts(parts_of(op.rows())), workload(chosen.workload(op.data_options())) {
    if (workload->calls().size() != parts.size()) {
      throw Error(ErrorCode::internal,
                  fmt::format("{} has {} parts, wanted {}", op.name(), workload->calls().size(),
                              fmt::join(parts, " and ")));
    }
    print_facts(op);
  }

 private:
  void print_facts(const Operator& op) const {
    const Device device = one.device;
    fmt::print("commit: {}\n", commit());
    fmt::print("device sources: {}\n", device_sources(digest_of(op.bench_command(one, {}))));
    fmt::print("GPU: {}\n",
               device.type == DeviceType::cuda ? cuda::properties(device.index).name : "none");
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const bench::Workload::Call& call = workload->calls()[i];
      fmt::print("{} backend: {}\n", parts[i], call.implementation);
      fmt::print("{} configuration: {}\n", parts[i], call.configuration);
    }
    std::fflush(stdout);
  }
};

bool is_in(const std::vector<std::string>& texts, const std::string& text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

void print_times(const std::string& part, const bench::Samples& times) {
  fmt::print("{} time (ms): {}\n", part, bench::number(times.median_seconds() * 1e3));
  if (const std::string note = times.note(); !note.empty()) fmt::print("{} note: {}\n", part, note);
  if (!times.gpu) return;
  fmt::print("{} clock (MHz): {}\n", part, bench::number(times.gpu->clock_mhz));
  fmt::print("{} power (W): {}\n", part, bench::number(times.gpu->power_w));
  fmt::print("{} temperature (C): {}\n", part, bench::number(times.gpu->temperature_c));
  fmt::print("{} throttle: {}\n", part, bench::throttle_text(times.gpu->throttle));
}

}  // namespace

std::vector<std::string> parts_of(RowKind rows) {
  switch (rows) {
    case RowKind::cast: return {"cast"};
    case RowKind::update: return {"update"};
    case RowKind::head: return {"loss", "step"};
    default: return {"forward", "backward"};
  }
}

void run_launches(const Operator& op, const Case& one, const std::vector<std::string>& wanted,
                  std::int64_t calls) {
  PlannedCase planned(op, one);
  const Device device = one.device;
  const bench::DeviceTiming timing(device);  // for its stream
  planned.workload->set_stream(timing.stream());
  planned.workload->allocate(1 + calls);
  const bench::Task task = planned.workload->task();
  for (const bench::Part& part : task) part(0);
  if (device.type == DeviceType::cuda) cuda::synchronize(device.index);
  for (std::int64_t call = 1; call <= calls; ++call) {
    for (std::size_t i = 0; i < task.size(); ++i) {
      const bool recorded = is_in(wanted, planned.parts[i]);
      if (recorded) bench::begin_recording(device);
      task[i](call);
      if (recorded) bench::end_recording(device);
    }
  }
  if (device.type == DeviceType::cuda) cuda::synchronize(device.index);
}

bool run_timing(const Operator& op, const Case& one, const std::vector<std::string>& wanted,
                double seconds) {
  // Input sets in turns, so that a small case does not stay in the L2 cache.
  const std::int64_t sets = one.device.type == DeviceType::cuda ? 64 : 2;
  constexpr int kMostCalls = 1'000'000;
  PlannedCase planned(op, one);
  const bool pass = one.check(op.data_options()).pass();
  fmt::print("check: {}\n", pass ? "PASS" : "FAIL");
  std::fflush(stdout);
  if (!pass || seconds == 0) return pass;
  bench::DeviceTiming timing(one.device);
  planned.workload->set_stream(timing.stream());
  planned.workload->allocate(sets);
  const bench::Task task = planned.workload->task();
  // Once over all sets, since backward reads what forward wrote.
  for (std::int64_t set = 0; set < sets; ++set) {
    for (const bench::Part& part : task) part(set);
  }
  bench::Protocol protocol;
  protocol.iterations = kMostCalls;
  protocol.seconds = seconds;
  for (std::size_t i = 0; i < task.size(); ++i) {
    if (!is_in(wanted, planned.parts[i])) continue;
    const bench::Part part = [&](std::int64_t call) { task[i](call % sets); };
    print_times(planned.parts[i], timing.measure({part}, protocol));
  }
  return true;
}

Facts parse_facts(const std::string& text) {
  Facts facts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) facts.emplace(line.substr(0, colon), line.substr(colon + 2));
  }
  return facts;
}

}  // namespace octet::tool
