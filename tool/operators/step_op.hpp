// An operator as the tool sees it: the options that name its problems, and of every problem the
// command line that repeats it, the gates that judge it and what is timed.
#pragma once

#include "tool/options/options.hpp"
#include "tool/cases/cases.hpp"

#include "bench/workloads/step_workload.hpp"
#include "check/gates.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace octet::tool {

struct StepCase {
  std::string name;  // "Llama-3.1-8B norm"; "shape" for one of the command line
  std::vector<std::int64_t> extents;
  std::string arguments;  // of the problem, after `octet bench` and `octet check`
  Device device;
  std::function<GateReport(const GateOptions&)> check;
  // Plans it, throwing octet::Error where that cannot be.
  std::function<std::unique_ptr<bench::StepWorkload>(const bench::WorkloadOptions&)> workload;
};

template <class Problem>
StepCase step_case(const ShapeCase& shape, const Problem& problem,
                   GateReport (*check)(const Problem&, const GateOptions&)) {
  return {shape.name,
          shape.extents,
          describe(problem),
          problem.device,
          [problem, check](const GateOptions& options) { return check(problem, options); },
          [problem](const bench::WorkloadOptions& options) {
            return bench::make_workload(problem, options);
          }};
}

// What every operator is asked.
struct StepOptions {
  std::vector<std::string> shapes;
  std::optional<Dtype> dtype;
  std::string backend;
  std::optional<Device> device;
  std::int64_t threads = 0;
  std::int64_t seed = 1;
  std::string distribution = "normal";
};

// What a row of results tells: one cast or a forward and a backward, beside copies of as many bytes;
// or a forward and a backward of an MLP, beside its unfused chain.
enum class RowKind { cast, memory, mlp };

class StepOp {
 public:
  virtual ~StepOp() = default;
  virtual const char* name() const = 0;  // "rms-norm"
  virtual const char* about() const = 0;
  virtual RowKind rows() const { return RowKind::memory; }
  // `timed`: of octet bench, which has to have a backward.
  void add_options(CLI::App& app, bool timed);

  // On the device of the options or else on the best whose implementations take them all; those of
  // cases/ where no shape is given.
  std::vector<StepCase> chosen_cases() const;
  bench::WorkloadOptions data_options() const;
  // " --backend ... --threads ... --seed ... --distribution ...", where they are not the defaults.
  std::string data_arguments() const;

 protected:
  virtual const char* shape_form() const { return "RxC"; }
  virtual const char* shape_help() const { return "rows x columns; repeatable"; }
  virtual void add_dtype_option(CLI::App& app);
  virtual void add_own_options(CLI::App& app, bool timed) = 0;
  virtual std::vector<StepCase> cases_on(Device device) const = 0;

  std::vector<ShapeCase> shapes_on(Device device) const;
  Dtype dtype() const { return common_.dtype.value_or(Dtype::bf16); }

 private:
  StepOptions common_;
};

std::unique_ptr<StepOp> make_quantize_op();
std::unique_ptr<StepOp> make_rms_norm_op();
std::unique_ptr<StepOp> make_rope_op();
std::unique_ptr<StepOp> make_rms_norm_rope_op();
std::unique_ptr<StepOp> make_gated_activation_op();
std::unique_ptr<StepOp> make_gated_mlp_op();

}  // namespace octet::tool
