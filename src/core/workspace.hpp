// One workspace for several pieces of scratch memory, each aligned like a workspace.
#pragma once

#include <octet/buffer.hpp>
#include <octet/plan.hpp>

#include <cstddef>

namespace octet {

// The bytes a piece takes in a workspace.
inline std::size_t aligned_bytes(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Hands out the pieces of a workspace, one after the other.
class WorkspaceCarver {
 public:
  explicit WorkspaceCarver(const Workspace& workspace) : rest_(workspace) {}

  // The next `bytes`; null for 0 bytes.
  void* take(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    void* piece = rest_.data;
    const std::size_t step = aligned_bytes(bytes);
    rest_.data = static_cast<char*>(rest_.data) + step;
    rest_.bytes -= step;
    return piece;
  }
  Workspace rest() const { return rest_; }

 private:
  Workspace rest_;
};

}  // namespace octet
