// An operator as the tool sees it: its options and the cases they select. Every case has the
// command line that repeats it, its gates and its timed workload. Each operator has a file here;
// operator.cpp lists them.
#pragma once

#include "tool/cases/cases.hpp"
#include "tool/machine/support.hpp"
#include "tool/options/op_options.hpp"
#include "tool/options/options.hpp"
#include "tool/options/timing_options.hpp"

#include "bench/workloads/workload.hpp"
#include "check/gates.hpp"

#include <octet/error.hpp>

#include <fmt/core.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace octet::tool {

struct Case {
  std::string name;  // "Llama-3.1-8B norm"; "shape" if from the command line
  std::vector<std::int64_t> extents;
  std::string arguments;  // of the problem, after `octet bench` and `octet check`
  Device device;
  std::function<GateReport(const DataOptions&)> check;
  // Plans the case; throws octet::Error if it cannot. Null for cases that are only checked.
  std::function<std::unique_ptr<bench::Workload>(const DataOptions&)> workload;
  // Of cases that are only checked: plans the case, and names the implementation.
  std::function<std::string(const DataOptions&)> implementation{};
  void plan(const DataOptions& options) const {
    implementation ? void(implementation(options)) : void(workload(options));
  }
  std::string note{};  // for the row, where an option has no effect

  // Layers over groups only: the rows that groups have together, at most the first extent.
  std::int64_t grouped_rows = 0;

  // Linear layers only.
  std::string test_id{};  // in its suite; if empty, the number of the case in this run
  std::int64_t mbs = 0;   // sequences per micro-batch; 0: does not apply
  std::function<double(const DataOptions&)> f16_snr_db{};
  // Plans the baseline; throws octet::Error if it does not take the case.
  std::function<std::unique_ptr<bench::Workload>(const DataOptions&)> baseline{};
  // Attention only, which also has a baseline: of forward, by convention.
  double forward_operations = 0;

  // Over groups and sequences: adds how rows and lengths spread to the data of the operator.
  std::function<DataOptions(DataOptions)> own_data{};
  DataOptions data(const DataOptions& options) const {
    return own_data ? own_data(options) : options;
  }

  std::string shape() const;  // "512x1024x768"
  std::string title() const;  // "Llama-3.1-8B norm 4096x4096"; only the shape if it has no name
  double work() const;        // the product of the extents, to weigh cases of one operator
};

// The contents of a row of results. layer: forward and backward of a linear layer, next to a
// baseline. cast, memory: a cast, or a forward and a backward, next to copies of as many bytes.
// mlp: forward and backward of an MLP, next to its unfused chain. head: a loss, and its step.
// update: one call, next to a copy of as many bytes. grouped: layers over groups of rows. attention:
// forward and backward over sequences.
enum class RowKind { layer, cast, memory, mlp, head, update, grouped, attention };

class Operator {
 public:
  virtual ~Operator() = default;
  virtual const char* name() const = 0;   // "rms-norm"
  virtual const char* about() const = 0;  // a sentence: "RMSNorm, forward and backward."
  // Options of two runs, for the examples of the help. Those of octet check take seconds.
  virtual std::array<const char*, 2> examples(bool timed) const = 0;
  virtual RowKind rows() const { return RowKind::memory; }
  // The library's operators whose implementations this one chooses: "rms_norm".
  virtual std::vector<std::string> chosen_operators() const;
  // The rows of the support table, for `octet ops`.
  virtual std::vector<Support> support() const = 0;
  // Time budget of a case on the CPU without --iters and --seconds-per-case.
  virtual double cpu_seconds() const { return kCpuSeconds; }
  virtual std::string cpu_seconds_text() const { return fmt::format("{}", kCpuSeconds); }

  // `timed`: for octet bench, where every case needs a backward.
  virtual void add_options(CLI::App& app, bool timed) = 0;
  // Further options of octet bench, and their text at the end of its command line.
  virtual void add_bench_options(CLI::App& /*app*/) {}
  virtual std::string bench_arguments() const { return ""; }
  // Throws UsageError if options of octet bench contradict each other.
  virtual void check_bench_options() const {}
  // The name --baseline gives; empty without it. check_baseline throws UsageError if that baseline
  // runs on another device.
  virtual std::string baseline() const { return ""; }
  virtual void check_baseline(Device /*device*/) const {}

  // On the device of --device, or else on the best one that has an implementation.
  virtual std::vector<Case> chosen_cases() const = 0;
  const DataOptions& data_options() const { return data_; }
  // The same for problems that come without a case, as from a log: with how rows and sequences spread.
  virtual DataOptions data_of_problems() const { return data_; }
  const std::optional<Device>& given_device() const { return common_.device; }

  // The command lines that repeat a case. Choices forced by the environment come first:
  // "OCTET_GEMM_BACKEND=cpu_reference octet bench gemm ...".
  std::string bench_command(const Case& one, const TimingOptions& timing) const;
  // The words of that command between "octet bench" and the timing.
  std::vector<std::string> bench_words(const Case& one) const;
  std::string check_command(const Case& one) const;

 protected:
  // "octet check OP ..." of both examples, or "octet bench OP ...".
  void add_op_examples(CLI::App& app, bool timed) const;

  // Options of every operator.
  struct CommonOptions {
    std::vector<std::string> shapes;
    std::optional<Dtype> dtype;
    std::optional<Device> device;
  };
  CommonOptions common_;
  DataOptions data_;

 private:
  std::vector<std::string> data_words() const;
  std::string data_arguments() const;
  std::string forced_backends() const;
};

inline constexpr Dtype kUsualDtype = Dtype::bf16;  // without --dtype
// Groups of options, for the help.
inline constexpr const char* kNumericOptions = "Numerics";
inline constexpr const char* kMachineOptions = "Device";
inline constexpr const char* kMaskOptions = "Mask";

// An operator whose cases are shapes: those of --shape, or else those of cases/<operator>.csv.
class ShapeOperator : public Operator {
 public:
  void add_options(CLI::App& app, bool timed) override;
  // All cases run on one device.
  std::vector<Case> chosen_cases() const override;

 protected:
  virtual const char* shape_form() const { return "RxC"; }
  // What the letters of the form mean.
  virtual const char* shape_help() const { return "A tensor of R rows and C columns."; }
  virtual void add_dtype_option(CLI::App& app);
  virtual void add_own_options(CLI::App& app, bool timed) = 0;
  virtual std::vector<Case> cases_on(Device device) const = 0;

  std::vector<ShapeCase> shapes_on(Device device) const;
  Dtype dtype() const { return common_.dtype.value_or(kUsualDtype); }
};

// An operator on the heads of q and k.
class HeadsOperator : public ShapeOperator {
 protected:
  const char* shape_form() const override { return "BxSxH"; }
  const char* shape_help() const override {
    return "B sequences of S tokens with H features of q.";
  }
};

template <class Problem>
Case shape_case(const ShapeCase& shape, const Problem& problem,
                GateReport (*check)(const Problem&, const DataOptions&)) {
  return {shape.name,
          shape.extents,
          describe(problem),
          problem.device,
          [problem, check](const DataOptions& options) { return check(problem, options); },
          [problem](const DataOptions& options) { return bench::make_workload(problem, options); }};
}

// The same with the sizes of groups that the options ask for.
template <class Problem>
Case group_case(const ShapeCase& shape, const Problem& problem, const Groups& groups,
                GateReport (*check)(const Problem&, const DataOptions&)) {
  const auto with_groups = [spread = groups.spread](DataOptions options) {
    options.group_spread = spread;
    return options;
  };
  Case result = shape_case(shape, problem, check);
  result.arguments += groups.arguments();
  result.own_data = with_groups;
  result.check = [=](const DataOptions& options) { return check(problem, with_groups(options)); };
  result.workload = [=](const DataOptions& options) {
    return bench::make_workload(problem, with_groups(options));
  };
  return result;
}

// Returns make(device) for the given device. Without one, takes the first CUDA device for which
// plan(made) does not throw octet::Error, and falls back to the CPU.
template <class Make, class Plan>
auto on_best_device(const std::optional<Device>& given, const Make& make, const Plan& plan) {
  if (given) return make(*given);
  for (int index = 0; index < cuda_device_count(); ++index) {
    auto made = make(Device{DeviceType::cuda, index});
    try {
      plan(made);
      return made;
    } catch (const Error&) {
      continue;
    }
  }
  return make(kCpu);
}

// Makes one operator of the tool. `octet bench` without a subcommand runs the first in the list.
using MakeOperator = std::unique_ptr<Operator> (*)();
const std::vector<MakeOperator>& operators();

}  // namespace octet::tool
