#include "tool/bench/headline.hpp"

#include "tool/console.hpp"
#include "tool/history/history.hpp"
#include "tool/results/provenance.hpp"

#include "bench/timing/machine_facts.hpp"
#include "device/cuda_runtime.hpp"
#include "dispatch/machine.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace octet::tool {
namespace {

std::string describe_device(Device device, int threads) {
  if (device.type == DeviceType::cuda) {
    if (device.index >= cuda::device_count()) return name(device);  // the run will refuse it
    return fmt::format("{}: {}, {}", name(device), cuda::properties(device.index).name,
                       cuda::driver_status());
  }
  const Machine machine = this_machine(device, threads);
  return fmt::format("cpu: {}, {}, {}", cpu_model(),
                     counted(static_cast<std::size_t>(machine.threads), "thread"),
                     machine.avx512 ? "AVX-512"
                     : machine.avx2 ? "AVX2"
                                    : "no AVX2");
}

void add_once(std::vector<std::string>& texts, const std::string& text) {
  if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
}

}  // namespace

std::string machine_headline(const std::vector<PlannedRun>& cases, int threads) {
  std::vector<std::string> facts{version_text()};
  for (const PlannedRun& one : cases) add_once(facts, describe_device(one.device, threads));
  for (const PlannedRun& one : cases) add_once(facts, one.implementation);
  return printable(fmt::format("{}", fmt::join(facts, " · ")));
}

std::string output_headline(const TimingOptions& timing) {
  return printable(fmt::format("rows: {} · history: {}",
                               timing.output.empty() ? "not kept (-o FILE.csv)" : timing.output,
                               history_place()));
}

}  // namespace octet::tool
