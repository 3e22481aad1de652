// An operator as the tool sees it: its options, the cases they name, and of every case the command line
// that repeats it, the gates that judge it and what is timed. Each has a file of its own here;
// operators.cpp lists them.
#pragma once

#include "tool/cases/cases.hpp"
#include "tool/machine/support.hpp"
#include "tool/options/options.hpp"
#include "tool/options/timing_options.hpp"

#include "bench/workloads/workload.hpp"
#include "check/gates.hpp"

#include <octet/error.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace octet::tool {

struct Case {
  std::string name;  // "Llama-3.1-8B norm"; "shape" for one of the command line
  std::vector<std::int64_t> extents;
  std::string arguments;  // of the problem, after `octet bench` and `octet check`
  Device device;
  std::function<GateReport(const DataOptions&)> check;
  // Plans it, throwing octet::Error where that cannot be. Null for what is only checked.
  std::function<std::unique_ptr<bench::Workload>(const DataOptions&)> workload;

  // Of linear layers only.
  std::string test_id{};  // in its suite; empty: the number of the case in this run
  std::int64_t mbs = 0;   // sequences per micro-batch; 0: does not apply
  std::function<double(const DataOptions&)> f16_snr_db{};
  // Plans what --baseline names, throwing octet::Error where it does not take the case.
  std::function<std::unique_ptr<bench::Workload>(const DataOptions&)> baseline{};
};

// What a row of results tells: forward and backward of a linear layer, beside a baseline; one cast or a
// forward and a backward, beside copies of as many bytes; or a forward and a backward of an MLP, beside
// its unfused chain.
enum class RowKind { layer, cast, memory, mlp };

class Operator {
 public:
  virtual ~Operator() = default;
  virtual const char* name() const = 0;  // "rms-norm"
  virtual const char* about() const = 0;
  virtual const char* about_check() const { return about(); }
  virtual RowKind rows() const { return RowKind::memory; }
  // The operators of the library whose implementations are chosen where this one is run: "rms_norm".
  virtual std::vector<std::string> chosen_operators() const;
  // Where it is supported, for `octet ops`.
  virtual std::vector<Support> support() const = 0;
  // What the progress bar shows of a case.
  virtual std::string progress_text(const Case& one) const { return one.arguments; }
  // What a case takes on the CPU where neither --iters nor --seconds-per-case is given.
  virtual double cpu_seconds() const { return 1; }

  // `timed`: of octet bench, which has to have a backward.
  virtual void add_options(CLI::App& app, bool timed) = 0;
  // Further options of octet bench, and what they say after the others in its command line.
  virtual void add_bench_options(CLI::App& /*app*/) {}
  virtual std::string bench_arguments() const { return ""; }
  // Throws UsageError where the options of octet bench do not go together.
  virtual void check_bench_options() const {}
  // The name --baseline gives; empty without it. check_baseline throws UsageError where that runs on
  // another device.
  virtual std::string baseline() const { return ""; }
  virtual void check_baseline(Device /*device*/) const {}

  // On the device of the options, or else on the best one whose implementations take them.
  virtual std::vector<Case> chosen_cases() const = 0;
  DataOptions data_options() const;

  // The command lines that repeat a case. What the environment forces on it comes first:
  // "OCTET_GEMM_BACKEND=cpu_reference octet bench gemm ...".
  std::string bench_command(const Case& one, const TimingOptions& timing) const;
  std::string check_command(const Case& one) const;

 protected:
  // What every operator is asked.
  struct CommonOptions {
    std::vector<std::string> shapes;
    std::optional<Dtype> dtype;
    std::string backend;
    std::string quantize_backend;  // of linear layers only
    std::optional<Device> device;
    std::int64_t threads = 0;
    std::int64_t seed = 1;
    std::string distribution = "normal";
  };
  CommonOptions common_;

 private:
  std::string data_arguments() const;
  std::string forced_backends() const;
};

// An operator whose cases are shapes: those of --shape, or else those of cases/<operator>.csv.
class ShapeOperator : public Operator {
 public:
  void add_options(CLI::App& app, bool timed) override;
  // All on one device.
  std::vector<Case> chosen_cases() const override;

 protected:
  virtual const char* shape_form() const { return "RxC"; }
  virtual const char* shape_help() const { return "rows x columns; repeatable"; }
  virtual void add_dtype_option(CLI::App& app);
  virtual void add_own_options(CLI::App& app, bool timed) = 0;
  virtual std::vector<Case> cases_on(Device device) const = 0;

  std::vector<ShapeCase> shapes_on(Device device) const;
  Dtype dtype() const { return common_.dtype.value_or(Dtype::bf16); }
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

// make(device) of the given device; else of the first CUDA device where plan(made) does not throw
// octet::Error; else of the CPU.
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

// Makes each operator of the tool. `octet bench` without a subcommand runs the first.
using MakeOperator = std::unique_ptr<Operator> (*)();
const std::vector<MakeOperator>& operators();

}  // namespace octet::tool
