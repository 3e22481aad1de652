#include "bench/timing/machine_facts.hpp"
#include "bench/tune/tune_search.hpp"
#include "core/message.hpp"
#include "device/cuda_runtime.hpp"

#include <algorithm>
#include <cstdio>

namespace octet::bench {
namespace {

class Search {
 public:
  Search(const TuneRequest& request, const TunableKernel& kernel, const Gate& gate,
         const CompareKernels& compare)
      : request_(request),
        kernel_(kernel),
        gate_(gate),
        compare_(compare),
        candidates_(combinations(request.space)) {}

  bool has(const Configuration& configuration) const {
    return std::find(candidates_.begin(), candidates_.end(), configuration) != candidates_.end();
  }

  // An exception of the kernel fails only its own candidate: too much shared memory, for example.
  Verdict judge(const Configuration& configuration) const {
    try {
      return gate_([&] { kernel_(configuration, 0); });
    } catch (const std::exception& error) {
      Verdict verdict;
      verdict.note = error.what();
      return verdict;
    }
  }

  // `first` is tried first: a configuration of equal speed does not replace it.
  Tuned run(const std::optional<Configuration>& first) {
    if (first) {
      const auto found = std::find(candidates_.begin(), candidates_.end(), *first);
      std::rotate(candidates_.begin(), found, found + 1);
    }
    Tuned tuned;
    bool any = false;
    for (const Configuration& configuration : candidates_) {
      Candidate candidate{configuration, judge(configuration)};
      if (candidate.verdict.pass && any) time_against(tuned.chosen, candidate);
      if (candidate.verdict.pass && (!any || candidate.speedup > kLeastGain)) {
        tuned.chosen = configuration;
        any = true;
      }
      tuned.candidates.push_back(std::move(candidate));
    }
    if (!any) refuse(tuned.candidates);
    return tuned;
  }

 private:
  Part part(const Configuration& configuration) const {
    return [this, configuration](std::int64_t call) { kernel_(configuration, call); };
  }

  // A kernel that passed the gate but throws while it is timed fails too.
  void time_against(const Configuration& best, Candidate& candidate) const {
    try {
      candidate.speedup = compare_(part(candidate.configuration), part(best));
    } catch (const std::exception& error) {
      candidate.verdict = {};
      candidate.verdict.note = error.what();
    }
  }

  [[noreturn]] void refuse(const std::vector<Candidate>& failed) const {
    std::string reasons;
    for (const Candidate& candidate : failed) {
      reasons += text("\n  ", describe(candidate.configuration), ": ", candidate.verdict.note);
    }
    fail(ErrorCode::unsupported,
         "tune: no configuration passes its gate\n  problem: ", request_.problem, reasons);
  }

  const TuneRequest& request_;
  const TunableKernel& kernel_;
  const Gate& gate_;
  const CompareKernels& compare_;
  std::vector<Configuration> candidates_;
};

void warn_on_stderr(const std::string& message) {
  std::fputs(text("octet: tune: ", message, '\n').c_str(), stderr);
}

}  // namespace

Tuned search(const TuneRequest& request, const std::string& device, const TunableKernel& kernel,
             const Gate& gate, const CompareKernels& compare) {
  const CacheKey key{request.problem, device, request.version};
  check_key(key);
  if (!kernel || !gate) refuse_argument("tune: the ", kernel ? "gate" : "kernel", " is empty");
  Search search(request, kernel, gate, compare);
  const Warn warn = request.warn ? request.warn : warn_on_stderr;
  std::optional<Configuration> known;
  if (!request.cache.empty()) known = read_choice(request.cache, key, warn);
  if (known && !search.has(*known)) known.reset();  // of another space
  if (known && !request.again) {
    const Verdict verdict = search.judge(*known);
    if (verdict.pass) return {*known, true, {{*known, verdict}}};
    warn(text(describe(*known), " of ", request.cache, " no longer passes: ", verdict.note));
  }
  Tuned tuned = search.run(known);
  if (!request.cache.empty()) write_choice(request.cache, key, tuned.chosen, warn);
  return tuned;
}

Tuned tune(DeviceTiming& timing, const TuneRequest& request, const TunableKernel& kernel,
           const Gate& gate) {
  const Device device = timing.device();
  const std::string device_name =
      device.type == DeviceType::cuda ? cuda::properties(device.index).name : cpu_model();
  return search(request, device_name, kernel, gate, [&](const Part& first, const Part& second) {
    return timing.compare({first}, {second}, request.protocol).ratio;
  });
}

}  // namespace octet::bench
