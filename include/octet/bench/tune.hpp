// Search over the launch parameters of a kernel: every combination has to pass the gate, and those
// that do are timed against the best so far in interleaved rounds. A combination replaces the best
// only if it is more than 2 % faster, so that the choice does not change from run to run: among
// equals, the first in the order of the space wins.
#pragma once

#include <octet/bench/gates.hpp>
#include <octet/bench/timing.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace octet::bench {

struct Parameter {
  std::string name;  // letters, digits and _
  std::vector<std::int64_t> values;
};
// {{"block", {64, 128, 256}}, {"stages", {2, 3, 4}}}: nine combinations.
using Space = std::vector<Parameter>;

// A value for every parameter of a space.
struct Configuration {
  std::vector<std::pair<std::string, std::int64_t>> values;

  // configuration["block"]; throws Error if there is no such parameter.
  OCTET_API std::int64_t operator[](std::string_view name) const;
  friend bool operator==(const Configuration&, const Configuration&) = default;
};
// "block=128 stages=3".
OCTET_API std::string describe(const Configuration& configuration);

struct TuneRequest {
  std::string problem;  // its canonical text: "saxpy --n 1048576 --dtype f32"
  std::string version;  // of the kernel; choices of other versions are not used
  Space space;
  // File that keeps the choices, by problem, device and version; empty: none. If it cannot be read
  // or written there is a warning, but the result stands.
  std::string cache{};
  bool again = false;  // measure even if the file has a choice, which is then the best so far
  Protocol protocol{.warmup = 3, .iterations = 50, .seconds = 0.2};
  std::function<void(const std::string&)> warn{};  // empty: a line on stderr
};

struct Candidate {
  Configuration configuration;
  Verdict verdict;     // FAIL with the message if the kernel threw
  double speedup = 1;  // over the best before it; 1 for the first, and if it was not timed
};

struct Tuned {
  Configuration chosen;
  bool from_cache = false;  // nothing was timed, but the gate was run
  std::vector<Candidate> candidates{};
};

// Launches the kernel; `call` counts up, so that inputs can rotate.
using TunableKernel = std::function<void(const Configuration& configuration, std::int64_t call)>;

// Throws Error(invalid_argument) for an invalid space, Error(unsupported) with the reason of every
// candidate if none passes, and the device's error if a kernel broke the device; then nothing is kept.
OCTET_API Tuned tune(DeviceTiming& timing, const TuneRequest& request, const TunableKernel& kernel,
                     const Gate& gate);

}  // namespace octet::bench
