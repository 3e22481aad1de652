#include "bench/tune/search.hpp"

#include <exception>

namespace octet::bench {
namespace {

Verdict failed(const std::exception& error) {
  Verdict verdict;
  verdict.note = error.what();
  return verdict;
}

}  // namespace

SearchResult search_fastest(std::size_t candidates,
                            const std::function<Verdict(std::size_t)>& judge,
                            const std::function<double(std::size_t, std::size_t)>& compare,
                            const std::function<void()>& synchronize) {
  SearchResult result;
  result.trials.resize(candidates);
  result.chosen = candidates;
  for (std::size_t i = 0; i < candidates; ++i) {
    Trial& trial = result.trials[i];
    const bool first = result.chosen == candidates;
    try {
      trial.verdict = judge(i);
      if (trial.verdict.pass && !first) trial.speedup = compare(i, result.chosen);
    } catch (const std::exception& error) {
      trial.verdict = failed(error);  // too much shared memory, for example
      synchronize();
    }
    if (trial.verdict.pass && (first || trial.speedup > kLeastGain)) result.chosen = i;
  }
  return result;
}

}  // namespace octet::bench
