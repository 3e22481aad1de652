// The search that tune() and octet tune share: candidates are judged in order, and those that pass are timed
// against the best so far.
#pragma once

#include <octet/bench/gates.hpp>

#include <cstddef>
#include <functional>
#include <vector>

namespace octet::bench {

// A new best has to be this much faster: among equals the first stays, so that the choice does not change from
// run to run.
inline constexpr double kLeastGain = 1.02;

struct Trial {
  Verdict verdict;  // FAIL with the message if something threw
  double speedup =
      1;  // over the best before it; 1 for the first that passed, and if it was not timed
};

struct SearchResult {
  std::vector<Trial> trials;  // of each candidate
  std::size_t chosen = 0;     // trials.size() if none passed
};

// `judge` and `compare` name candidates by their index; compare(i, best) is the time of `best` over that of i. An
// exception of theirs fails only its own candidate, unless `synchronize` then throws, too: a CUDA device that a kernel
// broke runs nothing any more, and what would pass or be fast no longer shows. The search ends with that error.
SearchResult search_fastest(std::size_t candidates,
                            const std::function<Verdict(std::size_t)>& judge,
                            const std::function<double(std::size_t, std::size_t)>& compare,
                            const std::function<void()>& synchronize);

}  // namespace octet::bench
