// octet doctor: prints what this machine has that octet could use.
#include "tool/console.hpp"
#include "tool/operators/operator.hpp"
#include "tool/options/options.hpp"
#include "tool/results/provenance.hpp"

#include "bench/timing/device_queue.hpp"
#include "bench/timing/device_timing.hpp"
#include "bench/timing/machine_facts.hpp"
#include "bench/timing/timing.hpp"
#include "cpu/threads.hpp"
#include "device/cuda_runtime.hpp"
#include "dispatch/choose.hpp"
#include "dispatch/machine.hpp"

#include <octet/octet.hpp>

#include <dlfcn.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>

namespace octet::tool {

// The file that was embedded when the tool was built; empty if it is another.
std::string_view embedded_kernel_file(std::string_view name);

namespace {

using Table = std::vector<bench::Row>;

const char* yes_or_no(bool value) { return value ? "yes" : "no"; }

// The thread count from OCTET_NUM_THREADS, or what is wrong with the variable.
std::string threads_of_a_run() {
  try {
    return std::to_string(default_threads());
  } catch (const Error& error) {
    return error.what();
  }
}

void add_cpu(Table& table) {
  const Machine machine = this_machine(kCpu, 1);
  table.push_back({"CPU", cpu_model()});
  table.push_back({"AVX2 and FMA", yes_or_no(machine.avx2)});
  table.push_back({"AVX-512 (F, BW, CD, DQ, VL)", yes_or_no(machine.avx512)});
  table.push_back({"cores", std::to_string(sysconf(_SC_NPROCESSORS_ONLN))});
  table.push_back({"threads of a run", threads_of_a_run()});
  table.push_back({"clock", fmt::format("{:.0f} MHz", bench::cpu_clock_mhz())});
  table.push_back({"memory", fmt::format("{:.1f} GiB",
                                         static_cast<double>(bench::memory_bytes()) / (1 << 30))});
  for (const bench::Cache& cache : bench::cpu_caches()) {
    table.push_back({fmt::format("L{} cache", cache.level),
                     fmt::format("{} KiB, {}", cache.bytes >> 10, cache.type)});
  }
}

void add_gpus(Table& table) {
  table.push_back({"built with CUDA", yes_or_no(cuda::built_with_cuda())});
  table.push_back({"CUDA driver", cuda::driver_status()});
  table.push_back({"GPUs", std::to_string(cuda::device_count())});
  for (int index = 0; index < cuda::device_count(); ++index) {
    try {
      const cuda::DeviceProperties gpu = cuda::properties(index);
      table.push_back(
          {fmt::format("cuda:{}", index),
           fmt::format("{}, sm_{}{}, {} multiprocessors, {:.1f} GiB, L2 {} MiB", gpu.name,
                       gpu.sm_major, gpu.sm_minor, gpu.multiprocessors,
                       static_cast<double>(gpu.memory_bytes) / (1 << 30), gpu.l2_bytes >> 20)});
    } catch (const Error& error) {
      table.push_back({fmt::format("cuda:{}", index), error.what()});
    }
  }
}

// Adds the first of `names` that loads, or a line that none does.
void add_library(Table& table, const std::string& library, const std::vector<const char*>& names,
                 const std::string& purpose) {
  for (const char* name : names) {
    // Left loaded: some libraries leak memory when they are unloaded.
    if (dlopen(name, RTLD_LAZY | RTLD_LOCAL) != nullptr) {
      table.push_back({library, fmt::format("{} ({})", name, purpose)});
      return;
    }
  }
  table.push_back({library, fmt::format("not found ({})", purpose)});
}

void add_cudnn(Table& table) {
  const int version = cuda::cudnn_version();
  const std::string found =
      version == cuda::kBuiltWithoutCudnn ? "not in this build"
      : version == 0                      ? "not found"
                     : fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  table.push_back({"cuDNN", found + " (attention and a peer on a GPU)"});
}

// The operators of the library, including those that are not commands.
std::vector<std::string> operators_with_backends() {
  std::vector<std::string> names{"gemm", "quantize", "dequantize", "repack", "group_table"};
  for (const MakeOperator make : operators()) {
    for (const std::string& name : make()->chosen_operators()) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

void add_environment(Table& table) {
  std::vector<std::string> names;
  for (const std::string& op : operators_with_backends()) names.push_back(backend_variable(op));
  names.insert(names.end(), {"OCTET_NUM_THREADS", "OCTET_CUDNN_DIR", "OCTET_LOG", "OCTET_HISTORY",
                             "OCTET_TUNING_TABLE", "OCTET_TUNING_STORE", "OCTET_AUTO_TUNE",
                             "OPENBLAS_NUM_THREADS", "OPENBLAS_THREAD_TIMEOUT"});
  for (const std::string& name : names) {
    const char* value = std::getenv(name.c_str());
    table.push_back({name, value != nullptr ? value : "not set"});
  }
}

// What has a digest: the operators, and "gemm_bf16" and the like, which are named by the table of the kernels.
std::vector<std::string> names_with_digests() {
  std::vector<std::string> names;
  for (const MakeOperator make : operators()) names.emplace_back(make()->name());
  const auto table = nlohmann::json::parse(embedded_kernel_file("operators.json"));
  for (const auto& entry : table.at("operators").items()) {
    const std::string& name = entry.key();
    const bool is_operator = std::any_of(names.begin(), names.end(), [&](const std::string& op) {
      return with_underscores(op) == name;
    });
    if (!is_operator && !device_sources(name).empty()) names.push_back(name);
  }
  return names;
}

// "dd29ac3a9b8e gemm quantize": operators that share kernels share a line.
void add_device_sources(Table& table) {
  std::vector<std::pair<std::string, std::string>> ops_of;  // by hash
  for (const std::string& name : names_with_digests()) {
    const std::string hash = device_sources(name);
    const auto same = std::find_if(ops_of.begin(), ops_of.end(),
                                   [&](const auto& entry) { return entry.first == hash; });
    if (same == ops_of.end()) {
      ops_of.emplace_back(hash, " " + name);
    } else {
      same->second += " " + name;
    }
  }
  for (const auto& [hash, ops] : ops_of) {
    table.push_back({"device sources", fmt::format("{}{}", hash, ops)});
  }
}

int doctor() {
  Table table{{"octet", version_text()}};
  add_device_sources(table);
  add_cpu(table);
  add_gpus(table);
  add_library(table, "OpenBLAS", {"libopenblas.so.0"}, "--baseline openblas");
  add_library(table, "cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"},
              "products and a peer on a GPU");
  add_cudnn(table);
  add_library(table, "NVML", {"libnvidia-ml.so.1"}, "clocks and power of a GPU");
  add_environment(table);
  print_table(table, 2);
  return 0;
}

// By the kernel's clock, to 0.01 s. Includes the time to load the program.
double seconds_since_process_start() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  // Field 2, the program's name, may contain spaces. The start time is field 22, in ticks since
  // boot.
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

// The product whose calls are timed on the host. It is small, so that the device never falls
// behind.
GemmProblem small_product(Device device) {
  GemmProblem problem;
  problem.m = 128;
  problem.n = 256;
  problem.k = 512;
  problem.device = device;
  return problem;
}

// Host microseconds per call: the median over rounds of `calls` calls without synchronisation in
// between, once clocks and caches have settled. `calls` must be smaller than a stream's queue.
double host_microseconds(Device device, int calls, const std::function<void()>& call) {
  constexpr double kSettleSeconds = 0.3;
  const bench::Clock clock = bench::steady_clock();
  const double began = clock.seconds();
  std::vector<double> rounds;
  while (rounds.size() < 31) {
    cuda::synchronize(device.index);
    const double start = clock.seconds();
    for (int i = 0; i < calls; ++i) call();
    if (start - began < kSettleSeconds) continue;
    rounds.push_back((clock.seconds() - start) / calls * 1e6);
  }
  cuda::synchronize(device.index);
  std::nth_element(rounds.begin(), rounds.begin() + 15, rounds.end());
  return rounds[15];
}

double run_microseconds(Device device) {
  const GemmProblem problem = small_product(device);
  const QuantizedTensor a(problem.m, problem.k, problem.a.dtype, problem.a.block, device);
  const QuantizedTensor b(problem.n, problem.k, problem.b.dtype, problem.b.block, device);
  const Tensor d(problem.out_dtype, {problem.m, problem.n}, device);
  const GemmPlan plan = plan_gemm(problem);
  const bench::DeviceTiming timing(device);
  return host_microseconds(device, 500, [&] { run(plan, {a, b, d}, {}, timing.stream()); });
}

// Runs the forward of a small layer as the first thing a process does on a CUDA device. Prints when
// the context was ready, when the forward was done, and the difference, which is what the first
// call costs on top of an empty CUDA program. Then prints the host cost of plans and runs. Throws
// UsageError if there is no such device. Returns the exit status.
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
  plan_gemm(small_product(device));
  const double first_plan = clock.seconds() - start - context;
  run_small_forward(device);
  const double forward = clock.seconds() - start;
  const double plan = host_microseconds(device, 200, [&] { plan_gemm(small_product(device)); });
  const auto microseconds = [](double value) { return fmt::format("{:.2f} us", value); };
  const auto seconds = [](double value) { return fmt::format("{:.3f} s", value); };
  print_table(
      {{"process start to a CUDA context (an empty CUDA program)", seconds(began + context)},
       {"process start to the end of the first forward", seconds(began + forward)},
       {"the first call above an empty CUDA program", seconds(forward - context)},
       {"the first plan of the process", microseconds(first_plan * 1e6)},
       {"a later plan of a gemm", microseconds(plan)},
       {"run(gemm) on the host, without synchronisation", microseconds(run_microseconds(device))},
       {"CPU", cpu_model()}},
      1);
  return 0;
}

}  // namespace

void add_doctor(CLI::App& octet, Chosen& chosen) {
  CLI::App& app = add_command(
      octet, "doctor",
      "Show what this machine has that octet can use: CPU, GPUs, libraries, environment.");
  struct Options {
    bool first_call = false;
    std::optional<Device> device;
  };
  const auto options = std::make_shared<Options>();
  add_flag(app, "--first-call", options->first_call,
           "Measure what the host pays on a GPU instead: the first call of a process, a plan and a "
           "run of gemm.");
  add_device(app, options->device, "GPU of --first-call. [default: cuda:0]");
  add_examples(app, {"octet doctor", "octet doctor --first-call --device cuda:0"});
  choose_when_given(app, chosen, [options] {
    if (options->first_call) {
      return measure_first_call(options->device.value_or(Device{DeviceType::cuda, 0}));
    }
    if (options->device) {
      refuse_usage("--device goes with --first-call, got --device {}", name(*options->device));
    }
    return doctor();
  });
}

}  // namespace octet::tool
