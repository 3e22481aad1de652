// The search of octet tune over what may run a problem: judged, timed in turns with the library's own choice, and
// gated before it may take that place.
#pragma once

#include "tool/tune/tuning_store.hpp"

#include "bench/tune/tunable.hpp"

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace octet::tool {

struct Case;
class Operator;
class RunClock;

struct TunerOptions {
  bool all = false;      // also what the cost model says is far behind
  double seconds = 0.4;  // of the rounds of a candidate that is close
  // Implementations that may be chosen although they write other bits.
  std::vector<std::string> allow{};
};

// A table of this process while it lives.
class ScopedTable {
 public:
  explicit ScopedTable(TuningEntries entries);
  ~ScopedTable();
  ScopedTable(const ScopedTable&) = delete;
  ScopedTable& operator=(const ScopedTable&) = delete;

 private:
  std::shared_ptr<const TuningTable> before_;
};

// A problem that the plans of a case have, and where and on which data it is tuned.
struct CaseProblem {
  std::string problem;
  Device device;
  DataOptions data{};
};

// Those that octet tune knows. Throws Error if the case cannot be planned.
std::vector<CaseProblem> problems_of(const Case& one, const DataOptions& options);

// Whether the library can run a choice, as an imported one may not be.
bool is_candidate(const bench::Tunable& tunable, const TunedChoice& choice);

// Why a choice may not stand for a problem: the library does not take it from a table, or a gate fails. Empty: it may.
std::string refuse_choice(const bench::Tunable& tunable, const TunedChoice& choice);

// Measures one problem. The entry has the library's own choice where nothing is more than 2 % faster. Throws Error where
// the problem cannot be run, or that choice fails its gates.
TunedEntry tune_problem(bench::Tunable& tunable, const TunerOptions& options,
                        const std::function<void(const std::string&)>& phase);

// Throws UsageError where the environment forces an implementation of one of these operators ("grouped-gemm"): what is
// tuned would not run.
void refuse_forced_backends(const std::set<std::string>& ops);

// "cpu_simd avx512 tile=8x48 ..."
std::string choice_text(const TunedChoice& choice);

// After an error of a problem: throws Error where the device is broken, as by a kernel that wrote where it may not. All
// that follows would fail, too.
void require_working(Device device, const std::exception& error);

// With OCTET_AUTO_TUNE=1: tunes the problems that the user's store does not have until the clock is over, and takes its
// table. `timed` is called with the table so far and returns the cases that will be timed. A store that cannot be
// written costs a line on stderr where a problem is missing, and so does an implementation that is forced.
void auto_tune(const Operator& op, const std::function<std::vector<Case>()>& timed,
               const RunClock& clock);

}  // namespace octet::tool
