#include "dispatch/machine.hpp"

#include "core/message.hpp"
#include "cpu/threads.hpp"
#include "device/cuda_runtime.hpp"

#ifdef __x86_64__
#include <cpuid.h>

#include <cstring>
#endif

namespace octet {
namespace {

#ifdef __x86_64__
// GCC 12 and clang 14 differ in whether __builtin_cpu_supports knows "f16c".
bool has_f16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// The brand string: 48 characters in three leaves, padded with spaces or zeros.
std::string brand() {
  constexpr unsigned kFirstLeaf = 0x80000002;
  char text[49] = {};
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    unsigned registers[4] = {};
    if (__get_cpuid(kFirstLeaf + leaf, &registers[0], &registers[1], &registers[2],
                    &registers[3]) == 0) {
      return "";
    }
    std::memcpy(text + leaf * sizeof registers, registers, sizeof registers);
  }
  const std::string given = text;
  const std::size_t begin = given.find_first_not_of(' ');
  return begin == std::string::npos ? ""
                                    : given.substr(begin, given.find_last_not_of(' ') + 1 - begin);
}

#endif

struct CpuFeatures {
  bool avx2 = false;
  bool avx512 = false;
};

// Asked once per process: on a virtual machine each CPUID instruction takes several us.
CpuFeatures cpu_features() {
  CpuFeatures cpu;
#ifdef __x86_64__
  cpu.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("bmi2") && has_f16c();
  cpu.avx512 = cpu.avx2 && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
  return cpu;
}

}  // namespace

Machine this_machine(Device device, int threads) {
  if (threads < 0 || threads > kMaxThreads) {
    refuse_argument("threads must be between 0 and ", kMaxThreads, ", got ", threads);
  }
  static const CpuFeatures cpu = cpu_features();
  Machine machine;
  machine.threads = threads != 0 ? threads : default_threads();
  machine.avx2 = cpu.avx2;
  machine.avx512 = cpu.avx512;
  if (const cuda::PretendedDevice* pretended = cuda::pretended();
      pretended != nullptr && device.type == DeviceType::cuda) {
    machine.sm_major = pretended->sm_major;
    machine.sm_minor = pretended->sm_minor;
    machine.multiprocessors = pretended->multiprocessors;
    machine.cublaslt = pretended->cublaslt;
    machine.cudnn_version = [] { return cuda::pretended()->cudnn; };
  } else if (device.type == DeviceType::cuda) {
    const cuda::DeviceProperties properties = cuda::properties(device.index);
    machine.sm_major = properties.sm_major;
    machine.sm_minor = properties.sm_minor;
    machine.multiprocessors = properties.multiprocessors;
    machine.cublaslt = cuda::cublaslt_is_installed();
    machine.cudnn_version = cuda::cudnn_version;
  }
  return machine;
}

const std::string& cpu_model() {
  static const std::string model = [] {
#ifdef __x86_64__
    if (std::string given = brand(); !given.empty()) return given;
#endif
    return std::string("unknown");
  }();
  return model;
}

}  // namespace octet
