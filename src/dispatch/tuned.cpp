#include "dispatch/tuned.hpp"

#include "core/message.hpp"
#include "device/cuda_runtime.hpp"

#include <octet/octet.h>

namespace octet {
namespace {

constexpr std::string_view kNone = "-";

std::string or_none(const std::string& text) { return text.empty() ? std::string(kNone) : text; }

std::string cuda_name(Device device) {
  const cuda::PretendedDevice* pretended = cuda::pretended();
  return pretended != nullptr ? pretended->name : cuda::properties(device.index).name;
}

// The digest of all kernels that may run a problem of the operator. The products' are in several files, each
// of which counts by itself elsewhere.
std::string kernels_of(std::string_view op) {
  const bool products = op == "gemm" || op == "grouped_gemm";
  return octet_device_sources((std::string(op) + (products ? "_products" : "")).c_str());
}

}  // namespace

std::string tuning_problem(std::string_view described, bool backward) {
  constexpr std::string_view kDevice = " --device ";
  std::string result(described);
  if (const std::size_t at = result.find(kDevice); at != std::string::npos) {
    result.erase(at, result.find(' ', at + kDevice.size()) - at);
  }
  return result + (backward ? ", backward" : "");
}

std::string tuning_device(Device device, const Machine& machine) {
  if (device.type == DeviceType::cuda) {
    return text(cuda_name(device), ", ", machine.multiprocessors, " multiprocessors");
  }
  return text(cpu_model(),
              machine.avx512 ? ", avx512"
              : machine.avx2 ? ", avx2"
                             : "",
              ", ", machine.threads, machine.threads == 1 ? " thread" : " threads");
}

TuningKey tuning_key(std::string_view op, std::string_view described, bool backward, Device device,
                     const Machine& machine) {
  TuningKey key{tuning_problem(described, backward), tuning_device(device, machine),
                std::string(kNone), OCTET_CPU_KERNELS};
  if (device.type == DeviceType::cuda) {
    key.driver = cuda::pretended() != nullptr ? cuda::pretended()->driver : cuda::driver_status();
    key.kernels = or_none(kernels_of(op));
  }
  return key;
}

std::optional<TableEntry> find_tuned(const TuningTable& table, const TuningKey& key) {
  const auto entry_of = [&](const TunedChoice& choice, std::string refusal) {
    return TableEntry{choice.implementation, choice.configuration, table.path, std::move(refusal)};
  };
  if (const auto found = table.entries.find(key); found != table.entries.end()) {
    return entry_of(found->second, "");
  }
  // Keys of one problem and device are neighbours.
  const auto near = table.entries.lower_bound({key.problem, key.device, "", ""});
  if (near == table.entries.end() || near->first.problem != key.problem ||
      near->first.device != key.device) {
    return std::nullopt;
  }
  const bool driver = near->first.driver != key.driver;
  return entry_of(
      near->second,
      text("it was measured with ", driver ? near->first.driver : "kernels " + near->first.kernels,
           ", here are ", driver ? key.driver : "kernels " + key.kernels));
}

}  // namespace octet
