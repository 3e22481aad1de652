// The launch parameters of a kernel, searched: every combination has to pass the gate, and those
// that do are timed against the best so far in interleaved rounds. A combination replaces it only
// where it is more than 2 % faster, so that equals do not change places from run to run: the order
// of the space decides between them.
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

  // configuration["block"]; throws Error where there is no such parameter.
  OCTET_API std::int64_t operator[](std::string_view name) const;
  friend bool operator==(const Configuration&, const Configuration&) = default;
};
// "block=128 stages=3".
OCTET_API std::string describe(const Configuration& configuration);

struct TuneRequest {
  std::string problem;  // its canonical text: "saxpy --n 1048576 --dtype f32"
  std::string version;  // of the kernel; the choice for another one is not taken
  Space space;
  // Where choices are kept, by problem, device and version; empty: nowhere. A file that cannot be
  // read or written costs a warning, never the result.
  std::string cache{};
  bool again = false;  // measure even so; what the file has is the best so far
  Protocol protocol{.warmup = 3, .iterations = 50, .seconds = 0.2};
  std::function<void(const std::string&)> warn{};  // empty: a line on stderr
};

struct Candidate {
  Configuration configuration;
  Verdict verdict;     // FAIL with the message where the kernel threw
  double speedup = 1;  // over the best before it; 1 for the first, and where it was not timed
};

struct Tuned {
  Configuration chosen;
  bool from_cache = false;  // nothing was timed; the gate was asked
  std::vector<Candidate> candidates{};
};

// Launches the kernel; `call` counts up, so that inputs can rotate.
using TunableKernel = std::function<void(const Configuration& configuration, std::int64_t call)>;

// Throws Error(invalid_argument) for a space that cannot be meant, Error(unsupported) with the
// reason of every candidate where none passes.
OCTET_API Tuned tune(DeviceTiming& timing, const TuneRequest& request, const TunableKernel& kernel,
                     const Gate& gate);

}  // namespace octet::bench
