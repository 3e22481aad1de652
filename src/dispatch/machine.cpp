#include "dispatch/machine.hpp"

#include "core/message.hpp"
#include "cpu/threads.hpp"
#include "device/cublaslt.hpp"
#include "device/cuda_runtime.hpp"

namespace octet {

Machine this_machine(Device device, int threads) {
  if (threads < 0 || threads > kMaxThreads) {
    refuse_argument("threads must be between 0 and ", kMaxThreads, ", got ", threads);
  }
  Machine machine;
  machine.threads = threads != 0 ? threads : default_threads();
#ifdef __x86_64__
  machine.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                 __builtin_cpu_supports("bmi2");
  machine.avx512 = machine.avx2 && __builtin_cpu_supports("avx512f") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
  if (device.type == DeviceType::cuda) {
    const cuda::DeviceProperties properties = cuda::properties(device.index);
    machine.sm_major = properties.sm_major;
    machine.sm_minor = properties.sm_minor;
    machine.multiprocessors = properties.multiprocessors;
    machine.cublaslt = cuda::cublaslt_is_installed();
  }
  return machine;
}

}  // namespace octet
