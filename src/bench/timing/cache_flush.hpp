// Empties the last-level cache of a device by writing a buffer twice its size.
#pragma once

#include <octet/buffer.hpp>

namespace octet::bench {

class CacheFlush {
 public:
  // Queued on `stream` where the device is a CUDA one.
  CacheFlush(Device device, void* stream);

  void operator()() const;
  std::size_t bytes() const { return memory_.bytes(); }

 private:
  Buffer memory_;
  void* stream_;
};

}  // namespace octet::bench
