#include "tool/machine/first_call.hpp"

#include "tool/console.hpp"
#include "tool/options/usage_error.hpp"

#include "bench/timing/device_queue.hpp"
#include "bench/timing/timing.hpp"
#include "device/cuda_runtime.hpp"

#include <octet/octet.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

namespace octet::tool {
namespace {

// By the kernel's account, to a hundredth of a second: loading the program is part of it.
double seconds_since_process_start() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  // The name of the program, field 2, may hold blanks; the start is field 22, in ticks since boot.
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 -
         std::strtod(field.c_str(), nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

void run_small_forward(Device device) {
  Fp8LinearProblem problem;
  problem.m = problem.n = problem.k = 256;
  problem.device = device;
  const Tensor x(problem.dtype, {problem.m, problem.k}, device);
  const Tensor w(problem.dtype, {problem.n, problem.k}, device);
  const Tensor y(problem.dtype, {problem.m, problem.n}, device);
  Fp8Linear layer(problem);
  layer.forward(x, w, y);
  cuda::synchronize(device.index);
}

}  // namespace

int measure_first_call(Device device) {
  const int count = cuda_device_count();
  if (device.type != DeviceType::cuda || device.index >= count) {
    refuse_usage("--first-call measures a CUDA device, got {}; this machine has {} CUDA devices",
                 name(device), count);
  }
  const bench::Clock clock = bench::steady_clock();
  const double began = seconds_since_process_start();
  const double start = clock.seconds();
  bench::create_context(device);
  const double context = clock.seconds() - start;
  run_small_forward(device);
  const double forward = clock.seconds() - start;
  const auto seconds = [](double value) { return fmt::format("{:.3f} s", value); };
  print_table(
      {{"process start to a CUDA context (an empty CUDA program)", seconds(began + context)},
       {"process start to the end of the first forward", seconds(began + forward)},
       {"the first call above an empty CUDA program", seconds(forward - context)}},
      1);
  return 0;
}

}  // namespace octet::tool
