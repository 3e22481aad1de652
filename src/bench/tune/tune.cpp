#include "bench/tune/search.hpp"
#include "bench/tune/tune_search.hpp"
#include "core/message.hpp"
#include "device/cuda_runtime.hpp"
#include "dispatch/tuned.hpp"

#include <algorithm>
#include <cstdio>

namespace octet::bench {
namespace {

[[noreturn]] void refuse(const TuneRequest& request, const std::vector<Candidate>& failed) {
  std::string reasons;
  for (const Candidate& candidate : failed) {
    reasons += text("\n  ", describe(candidate.configuration), ": ", candidate.verdict.note);
  }
  fail(ErrorCode::unsupported,
       "tune: no configuration passes its gate\n  problem: ", request.problem, reasons);
}

void warn_on_stderr(const std::string& message) {
  std::fputs(text("octet: tune: ", message, '\n').c_str(), stderr);
}

}  // namespace

Tuned search(const TuneRequest& request, const std::string& device, const std::string& driver,
             const TunableKernel& kernel, const Gate& gate, const CompareKernels& compare,
             const std::function<void()>& synchronize) {
  const TuningKey key{request.problem, device, driver, request.version};
  check_entry("tune", key, choice_of({}));
  if (!kernel || !gate) refuse_argument("tune: the ", kernel ? "gate" : "kernel", " is empty");
  std::vector<Configuration> space = combinations(request.space);
  const Warn warn = request.warn ? request.warn : warn_on_stderr;
  const auto judge = [&](const Configuration& configuration) {
    return gate([&] { kernel(configuration, 0); });
  };
  if (!request.cache.empty()) {
    const std::optional<Configuration> known = read_choice(request.cache, key, warn);
    const auto found = known ? std::find(space.begin(), space.end(), *known) : space.end();
    if (found != space.end()) {
      if (!request.again) {
        const Trial trial = search_fastest(
                                1, [&](std::size_t) { return judge(*known); }, {}, synchronize)
                                .trials[0];
        if (trial.verdict.pass) return {*known, true, {{*known, trial.verdict}}};
        warn(text(describe(*known), " of ", request.cache,
                  " no longer passes: ", trial.verdict.note));
      }
      std::rotate(space.begin(), found, found + 1);  // one of equal speed does not replace it
    }
  }
  const auto part = [&](std::size_t index) -> Part {
    return [&, index](std::int64_t call) { kernel(space[index], call); };
  };
  const SearchResult result = search_fastest(
      space.size(), [&](std::size_t index) { return judge(space[index]); },
      [&](std::size_t index, std::size_t best) { return compare(part(index), part(best)); },
      synchronize);
  Tuned tuned;
  for (std::size_t i = 0; i < space.size(); ++i) {
    tuned.candidates.push_back({space[i], result.trials[i].verdict, result.trials[i].speedup});
  }
  if (result.chosen == space.size()) refuse(request, tuned.candidates);
  tuned.chosen = space[result.chosen];
  if (!request.cache.empty()) write_choice(request.cache, key, tuned.chosen, warn);
  return tuned;
}

Tuned tune(DeviceTiming& timing, const TuneRequest& request, const TunableKernel& kernel,
           const Gate& gate) {
  const Device device = timing.device();
  const bool on_cuda = device.type == DeviceType::cuda;
  return search(
      request, tuning_device(device, this_machine(device, 0)),
      on_cuda ? cuda::driver_status() : "-", kernel, gate,
      [&](const Part& first, const Part& second) {
        return timing.compare({first}, {second}, request.protocol).ratio;
      },
      [&] {
        if (on_cuda) cuda::synchronize(device.index);
      });
}

}  // namespace octet::bench
