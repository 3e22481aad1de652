// Random quantised tensors for operators that read them: finite codes of every magnitude, and scales
// of 2^-3 to 2^3. Made on the host, so that every device has the same ones.
#pragma once

#include "check/gates.hpp"

#include <octet/buffer.hpp>
#include <octet/quantized.hpp>

#include <cstdint>

namespace octet {

// How the values lie in memory. The scales lie as in octet's own tensors.
struct CodesLayout {
  bool transposed = false;  // columns are contiguous instead of rows
  std::int64_t pitch = 0;   // bytes from one row to the next, or column; 0: octet's own pitch
  std::int64_t offset = 0;  // bytes of the first element behind a boundary of 256
};

class RandomCodes {
 public:
  RandomCodes(std::int64_t rows, std::int64_t cols, Dtype format, BlockShape block,
              const CodesLayout& layout, const DataOptions& options, Device device);

  const QuantizedView& view() const { return view_; }  // on the device
  const QuantizedView& on_host() const { return on_host_; }
  // For tensors on a CUDA device that nothing compares with.
  void drop_host();

 private:
  QuantizedView view_in(void* memory, Device device) const;

  CodesLayout layout_;
  QuantizedLayout own_;  // octet's, whose scales these are
  std::int64_t scales_at_ = 0;
  Buffer host_;
  Buffer memory_;  // on a CUDA device
  QuantizedView on_host_;
  QuantizedView view_;
};

}  // namespace octet
