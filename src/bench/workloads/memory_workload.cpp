#include "bench/workloads/memory_workload.hpp"

#include "dispatch/machine.hpp"

#include <algorithm>

namespace octet::bench {

MemoryWorkload::MemoryWorkload(Device device, const DataOptions& options)
    : device_(device), options_(options), threads_(this_machine(kCpu, options.threads).threads) {}

std::size_t MemoryWorkload::most_bytes() const {
  std::size_t most = 0;
  for (const Call& call : calls_) most = std::max(most, call.bytes);
  return most;
}

std::size_t MemoryWorkload::set_bytes() const {
  std::size_t all = 0;
  for (const Call& call : calls_) all += call.bytes;
  return all + most_bytes();
}

void MemoryWorkload::allocate(std::int64_t uses) {
  require_free(bytes(), free_bytes(device_), device_);
  workspace_ = Buffer(workspace_bytes(), device_);
  std::size_t least = calls_.front().bytes;
  for (const Call& call : calls_) least = std::min(least, call.bytes);
  // A call reads at least half of its bytes.
  const std::int64_t count = input_set_count(least / 2, set_bytes(), device_, uses);
  for (std::int64_t i = 0; i < count; ++i) {
    add_set();
    add_copies(most_bytes() / 2);
  }
  // Run forward once on every set, because backward reads what it writes.
  for (std::int64_t i = 0; i < count; ++i) task().front()(i);
}

std::size_t MemoryWorkload::set_of(std::size_t call, std::int64_t iteration) const {
  const std::size_t apart = call * copies_.size() / calls_.size();
  return (static_cast<std::size_t>(iteration) + apart) % copies_.size();
}

void MemoryWorkload::add_copies(std::size_t bytes) {
  copies_.push_back({Buffer(bytes, device_), Buffer(bytes, device_)});
  // The copied data is random rather than zero.
  const auto count = static_cast<std::int64_t>(bytes / sizeof(float));
  fill_input(make_view(copies_.back().from.data(), Dtype::f32, {1, count}, device_), options_, 0);
}

Task MemoryWorkload::task() {
  Task parts;
  for (std::size_t call = 0; call < calls_.size(); ++call) {
    parts.emplace_back([this, call](std::int64_t iteration) {
      run(call, set_of(call, iteration), {workspace_.data(), workspace_.bytes()}, stream_);
    });
  }
  return parts;
}

Task MemoryWorkload::peer() {
  Task parts;
  for (std::size_t call = 0; call < calls_.size(); ++call) {
    parts.emplace_back([this, call](std::int64_t iteration) {
      const CopyPair& pair = copies_[set_of(call, iteration)];
      copy_on_device(pair.to.data(), pair.from.data(), calls_[call].bytes / 2, device_, stream_,
                     threads_);
    });
  }
  return parts;
}

Tensor MemoryWorkload::random_tensor(Dtype dtype, std::int64_t rows, std::int64_t cols,
                                     std::uint32_t number) const {
  Tensor tensor(dtype, {rows, cols}, device_);
  fill_input(tensor, options_, number);
  return tensor;
}

Tensor MemoryWorkload::empty_tensor(Dtype dtype, std::int64_t rows, std::int64_t cols) const {
  return {dtype, {rows, cols}, device_};
}

TensorView MemoryWorkload::as_vector(const Tensor& row) {
  const TensorView& view = row.view();
  if (view.data == nullptr) return {};
  return make_view(view.data, view.dtype, {view.cols()}, view.device);
}

}  // namespace octet::bench
