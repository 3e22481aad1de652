#include "tool/operators/step_op.hpp"

#include "tool/options/op_options.hpp"
#include "tool/options/parse.hpp"

#include <octet/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace octet::tool {
namespace {

bool can_be_planned(const std::vector<StepCase>& cases, const bench::WorkloadOptions& data) {
  try {
    for (const StepCase& one : cases) one.workload(data);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void StepOp::add_options(CLI::App& app, bool timed) {
  add_texts(app, "--shape", common_.shapes, shape_form(), shape_help());
  add_dtype_option(app);
  add_own_options(app, timed);
  add_text(app, "--backend", common_.backend, "NAME", "the implementation");
  add_device(app, common_.device);
  add_data_options(app, common_.threads, common_.seed, common_.distribution);
}

void StepOp::add_dtype_option(CLI::App& app) {
  add_dtype(app, "--dtype", common_.dtype, kFloats, "of the tensors; bf16");
}

std::vector<ShapeCase> StepOp::shapes_on(Device device) const {
  if (common_.shapes.empty()) {
    return embedded_shape_cases(name(), shape_form(), device.type == DeviceType::cuda);
  }
  std::vector<ShapeCase> shapes;
  for (const std::string& text : common_.shapes) {
    shapes.push_back({"shape", parse_extents("--shape", text, shape_form()), {}});
  }
  return shapes;
}

std::vector<StepCase> StepOp::chosen_cases() const {
  if (common_.device) return cases_on(*common_.device);
  for (int index = 0; index < cuda_device_count(); ++index) {
    const std::vector<StepCase> cases = cases_on({DeviceType::cuda, index});
    if (can_be_planned(cases, data_options())) return cases;
  }
  return cases_on(kCpu);
}

bench::WorkloadOptions StepOp::data_options() const {
  bench::WorkloadOptions data;
  data.distribution = parse_distribution(common_.distribution);
  data.seed = static_cast<std::uint64_t>(common_.seed);
  data.threads = static_cast<int>(common_.threads);
  data.backend = common_.backend;
  return data;
}

std::string StepOp::data_arguments() const {
  std::string result;
  if (!common_.backend.empty()) result += " --backend " + common_.backend;
  if (common_.threads != 0) result += fmt::format(" --threads {}", common_.threads);
  if (common_.seed != 1) result += fmt::format(" --seed {}", common_.seed);
  if (common_.distribution != "normal") result += " --distribution " + common_.distribution;
  return result;
}

}  // namespace octet::tool
