// A problem as octet tune sees it: what may run it, and its calls on random data. The library's own choice is the
// first candidate; another one takes its place only where it writes the same bits.
#pragma once

#include "check/gates.hpp"
#include "dispatch/tuning_table.hpp"

#include <octet/bench/timing.hpp>
#include <octet/octet.hpp>

#include <memory>
#include <string>
#include <vector>

namespace octet::bench {

struct TuneCandidate {
  TunedChoice choice;
  double predicted = 1;  // its time over that of the implementation's own choice, by its cost model
  bool only_forced = false;  // as of the implementation
};

class Tunable {
 public:
  Tunable() = default;
  virtual ~Tunable() = default;
  Tunable(const Tunable&) = delete;
  Tunable& operator=(const Tunable&) = delete;

  const TuningKey& key() const { return key_; }
  Device device() const { return device_; }
  // What takes the problem. The first is what runs without a tuning table and without an environment that forces
  // another. The reference is only among them where nothing else is.
  const std::vector<TuneCandidate>& candidates() const { return candidates_; }

  // Makes sets of operands that exceed the caches together, at most `most_sets`, and the bits that the first candidate
  // writes. All work is queued on the stream. Throws Error, for example where memory is short.
  virtual void allocate(std::int64_t most_sets, void* stream) = 0;
  // Elements of all outputs in which a candidate's bits are not those of the first.
  virtual std::int64_t differences(std::size_t candidate) = 0;
  virtual Part part(std::size_t candidate) = 0;
  // Waits for the device. Throws Error where a kernel broke it.
  virtual void synchronize() const = 0;
  // What the library chooses now, with the table of this process.
  virtual TunedChoice chosen_now() const = 0;
  // All gates of the problem, through that choice. Throws Error, for example where memory is short.
  virtual GateReport check() const = 0;

 protected:
  TuningKey key_;
  Device device_;
  std::vector<TuneCandidate> candidates_;
};

// Plans every candidate of a problem; throws Error if nothing takes it.
std::unique_ptr<Tunable> make_tunable(const GemmProblem& problem, const DataOptions& options);
std::unique_ptr<Tunable> make_tunable(const GroupedGemmProblem& problem,
                                      const DataOptions& options);
std::unique_ptr<Tunable> make_tunable_forward(const AttentionProblem& problem,
                                              const DataOptions& options);
std::unique_ptr<Tunable> make_tunable_backward(const AttentionProblem& problem,
                                               const DataOptions& options);

}  // namespace octet::bench
