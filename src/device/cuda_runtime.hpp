// What the core asks of CUDA. cuda/runtime.cpp answers where the build has CUDA, cuda_absent.cpp
// where it has not; either way the library loads on a machine with no GPU and no driver.
#pragma once

#include <cstddef>
#include <string>

namespace octet::cuda {

struct DeviceProperties {
  std::string name;
  int sm_major = 0;
  int sm_minor = 0;
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
};

bool built_with_cuda() noexcept;
int device_count() noexcept;                    // 0 without a driver
std::string driver_status();                    // "driver 13.0", or why there is none
DeviceProperties properties(int device);        // throws Error
int multiprocessors(int device);                // throws Error
void* allocate(std::size_t bytes, int device);  // null: out of memory
void release(void* memory, int device) noexcept;
void clear(void* memory, std::size_t bytes, int device);
// Between host and device or within it, on a stream; waits until the copy is done.
void copy(void* to, const void* from, std::size_t bytes, int device, void* stream = nullptr);
void synchronize(int device);

// libcublasLt is found and loaded at run time: octet has no link to it. Its names, the preferred
// first.
inline constexpr const char* kCublasLtNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

// Whether the loader would find it. Loads nothing: mapping the library takes 0.3 s (13.1, 540 MB),
// which a plan that may not use it must not pay.
bool cublaslt_is_installed();

// libcudnn is loaded at run time too: from the folder in OCTET_CUDNN_DIR or, without it, as the
// loader finds it. That takes 0.3 ms, 90 from a cold disk, so only plans that may use it ask.
inline constexpr const char* kCudnnName = "libcudnn.so.9";
inline constexpr int kBuiltWithoutCudnn = -1;

void* cudnn_library();  // null: not found
// 91900 for 9.19.0; 0: not found; kBuiltWithoutCudnn: its headers were missing at build time.
int cudnn_version();

// A CUDA device that is not there: what would be planned for an H200 can be asked on any machine.
struct PretendedDevice {
  int sm_major = 9;
  int sm_minor = 0;
  int multiprocessors = 132;
  bool cublaslt = true;  // is installed
  int cudnn = 91900;     // its version
  const char* name = "NVIDIA H200";
  const char* driver = "driver 13.0";
};

// While it lives, plans of this thread take cuda:0 for such a device. They cannot be run.
class Pretend {
 public:
  explicit Pretend(const PretendedDevice& device);
  ~Pretend();
  Pretend(const Pretend&) = delete;
  Pretend& operator=(const Pretend&) = delete;

 private:
  PretendedDevice device_;
  const PretendedDevice* before_;
};

// The device this thread pretends to have; null where it does not.
const PretendedDevice* pretended();

inline constexpr PretendedDevice kH200{};

}  // namespace octet::cuda
