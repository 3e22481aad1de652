// A CUDA device that is not there: what would be planned for an H200 can be asked on any machine.
#pragma once

namespace octet::cuda {

struct PretendedDevice {
  int sm_major = 9;
  int sm_minor = 0;
  int multiprocessors = 132;
  bool cublaslt = true;  // is installed
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
