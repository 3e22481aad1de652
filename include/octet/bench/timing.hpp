// The time of a kernel, whoever wrote it: warm-ups, then calls back to back until their number or
// their time is reached. On the CPU the steady clock times every call; on a CUDA device batches of
// calls are timed between two events. Two contestants take turns in one process, and their ratio is
// the median over the turns, so that a change of clock or load affects both.
#pragma once

#include <octet/device.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace octet::bench {

struct Protocol {
  int warmup = 20;
  int iterations = 100;
  double seconds = 1;        // of the timed iterations; warm-ups take at most a quarter of it
  int least_iterations = 3;  // whatever the time
  int rounds = 5;            // turns of two contestants; batches of a single one on a device
  // Pause before a turn, in which threads of the other contestant that still spin after their work
  // fall asleep (OpenBLAS's do so within 2^26 cycles, some 25 ms).
  double settle_seconds = 0.05;
  // A buffer of twice the last-level cache is written before every timed call, outside the timed
  // region. Otherwise calls run back to back (sustained), so that power and thermal limits show.
  bool cold = false;
};

// One iteration calls the parts in turn and times each. The argument counts up from 0 over warm-ups
// and iterations, so that a part can rotate its inputs. On a device a part only queues its work.
using Part = std::function<void(std::int64_t)>;
using Task = std::vector<Part>;

// The most calls of a part that timing it makes, including a repetition. With as many sets of
// inputs, no two calls share one.
OCTET_API std::int64_t most_calls(const Protocol& protocol);

// The state of a GPU while it was timed.
struct GpuReading {
  double clock_mhz = 0;  // of the multiprocessors
  double power_w = 0;
  double temperature_c = 0;
  std::uint64_t throttle = 0;  // bits of NVML
};

struct Samples {
  std::vector<std::vector<double>> parts{};  // [part][iteration or batch], seconds of one call
  int warmup = 0;                            // calls before the first sample
  int timed_calls = 0;                       // one per sample, or more if batches are timed
  bool cold = false;                         // as Protocol::cold
  bool repeated = false;            // the first run was noisy; these are the quieter of two
  std::optional<GpuReading> gpu{};  // while the samples were taken; nothing on the CPU

  int iterations() const { return timed_calls; }
  OCTET_API double median_seconds(std::size_t part = 0) const;
  // The interquartile range over the median, of whole iterations or of batches of them.
  OCTET_API double spread() const;
  // The interquartile range is more than 10 % of the median: do not compare this number.
  OCTET_API bool noisy() const;
  // Those that hold of "cold; noisy; repeated"; mostly empty.
  OCTET_API std::string note() const;
};

struct Comparison {
  Samples ours;
  Samples peer;
  std::vector<double> part_ratios;  // peer's time over ours: above 1 we are faster
  double ratio = 0;                 // of whole iterations
};

class OCTET_API DeviceTiming {
 public:
  // A CUDA device is timed on `stream`, or on a stream of its own if none is given: queue work
  // there. Throws Error if the device is not on this machine.
  explicit DeviceTiming(Device device = kCpu, void* stream = nullptr);
  ~DeviceTiming();
  DeviceTiming(const DeviceTiming&) = delete;
  DeviceTiming& operator=(const DeviceTiming&) = delete;

  Device device() const;
  void* stream() const;
  // Calls `hook` after the warm-ups of every measurement, before the first timed call.
  void on_timing_begins(std::function<void()> hook);
  // Both functions measure a second time if the samples are noisy, and keep the quieter of the two.
  Samples measure(const Task& task, const Protocol& protocol = {});
  // Both tasks must have the same number of parts.
  Comparison compare(const Task& ours, const Task& peer, const Protocol& protocol = {});

 private:
  struct Instruments;
  std::unique_ptr<Instruments> instruments_;
};

}  // namespace octet::bench
