#include "check/reference/reference.hpp"

#include "check/cuda_gates.hpp"
#include "check/reference/decode.hpp"
#include "core/message.hpp"
#include "cpu/threads.hpp"
#include "device/cuda_runtime.hpp"

#include <octet/buffer.hpp>

#include <algorithm>

namespace octet {
namespace {

constexpr std::int64_t kBatch = 256;  // tiles
constexpr std::int64_t kTileElements = std::int64_t{kTile} * kTile;

// Host memory and its copy on the device.
template <class T>
class OnDevice {
 public:
  OnDevice(const T* host, std::size_t count, Device device) : buffer_(count * sizeof(T), device) {
    cuda::copy(buffer_.data(), host, buffer_.bytes(), device.index);
  }
  const T* data() const { return static_cast<const T*>(buffer_.data()); }

 private:
  Buffer buffer_;
};

// Results on the device, and the host memory they are copied to.
template <class T>
class Results {
 public:
  Results(std::int64_t count, Device device)
      : buffer_(static_cast<std::size_t>(count) * sizeof(T), device),
        host_(static_cast<std::size_t>(count)) {}

  T* on_device() const { return static_cast<T*>(buffer_.data()); }
  const T* fetch(std::int64_t count) {
    if (count == 0 || host_.empty()) return nullptr;
    cuda::copy(host_.data(), buffer_.data(), static_cast<std::size_t>(count) * sizeof(T),
               buffer_.device().index);
    return host_.data();
  }

 private:
  Buffer buffer_;
  std::vector<T> host_;
};

// The table of an operand's codes; any table if its values are not codes.
const double* table_of(const QuantizedView& view) {
  return fp8_values(view.values.dtype == Dtype::e5m2 ? Dtype::e5m2 : Dtype::e4m3);
}

int extent_of_tile(std::int64_t first, std::int64_t extent) {
  return static_cast<int>(std::min<std::int64_t>(kTile, extent - first));
}

}  // namespace

void for_each_tile_on_cuda(const ReferenceProduct& product, const std::vector<std::int64_t>& rows,
                           int threads, const std::function<void(const ReferenceTile&)>& use) {
  const Device device = product.a.values.device;
  if (!(product.b.values.device == device)) {
    refuse_argument("reference product: a and b must be on one device, got a on ", name(device),
                    " and b on ", name(product.b.values.device));
  }
  const auto row_count = static_cast<std::int64_t>(rows.size());
  const std::int64_t b_rows = product.b.values.rows();
  const std::int64_t col_tiles = (b_rows + kTile - 1) / kTile;
  const std::int64_t tiles = (row_count + kTile - 1) / kTile * col_tiles;
  const std::int64_t batch_elements = std::min(tiles, kBatch) * kTileElements;

  const OnDevice<std::int64_t> list(rows.data(), rows.size(), device);
  const OnDevice<double> a_codes(table_of(product.a), 256, device);
  const OnDevice<double> b_codes(table_of(product.b), 256, device);
  Results<double> values(batch_elements, device);
  Results<float> magnitudes(product.magnitudes ? batch_elements : 0, device);

  cuda::TileBatch batch;
  batch.a = product.a;
  batch.b = product.b;
  batch.rows = list.data();
  batch.row_count = row_count;
  batch.fp8_values[0] = a_codes.data();
  batch.fp8_values[1] = b_codes.data();
  batch.value = values.on_device();
  batch.magnitude = magnitudes.on_device();
  for (std::int64_t first = 0; first < tiles; first += kBatch) {
    batch.first_tile = first;
    batch.tile_count = std::min(kBatch, tiles - first);
    cuda::multiply_tiles(batch);
    const double* value = values.fetch(batch.tile_count * kTileElements);
    const float* magnitude = magnitudes.fetch(batch.tile_count * kTileElements);
    parallel_for(threads, batch.tile_count, [&](std::int64_t i) {
      const std::int64_t row = (first + i) / col_tiles * kTile;
      const std::int64_t col = (first + i) % col_tiles * kTile;
      use({row, col, extent_of_tile(row, row_count), extent_of_tile(col, b_rows),
           value + i * kTileElements,
           magnitude != nullptr ? magnitude + i * kTileElements : nullptr});
    });
  }
}

}  // namespace octet
