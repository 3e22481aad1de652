#include "check/data/random_codes.hpp"

#include "check/data/random.hpp"
#include "core/checks.hpp"
#include "cpu/threads.hpp"
#include "device/cuda_runtime.hpp"

#include <algorithm>

namespace octet {
namespace {

// Distinct from the streams of other data and of samples.
constexpr std::uint32_t kCodeStream = 0x81;
constexpr std::uint32_t kScaleStream = 0x82;
constexpr std::int64_t kCodesOfCounter = 16;

// A finite code from a random byte. 0x7F is NaN in e4m3, 0x7C and above are not finite in e5m2.
std::uint8_t finite_code(std::uint32_t byte, Dtype format) {
  const std::uint32_t count = format == Dtype::e5m2 ? 0x7C : 0x7F;
  return static_cast<std::uint8_t>((byte & 0x80u) | (byte & 0x7Fu) % count);
}

void fill_row(const TensorView& values, std::int64_t row, std::uint64_t seed) {
  auto* const first = static_cast<std::uint8_t*>(values.data) + row * values.strides[0];
  const std::int64_t cols = values.cols();
  const std::int64_t counters = ceil_div(cols, kCodesOfCounter);
  for (std::int64_t i = 0; i < counters; ++i) {
    const PhiloxBlock words = random_words({seed, kCodeStream}, RandomUse::value,
                                           static_cast<std::uint64_t>(row * counters + i));
    const std::int64_t end = std::min(kCodesOfCounter, cols - i * kCodesOfCounter);
    for (std::int64_t c = 0; c < end; ++c) {
      first[(i * kCodesOfCounter + c) * values.strides[1]] =
          finite_code(words.word[c / 4] >> (c % 4 * 8) & 0xFFu, values.dtype);
    }
  }
}

void fill_scales(const TensorView& scales, std::uint64_t seed) {
  for (std::int64_t i = 0; i < scales.rows(); ++i) {
    for (std::int64_t j = 0; j < scales.cols(); ++j) {
      const PhiloxBlock words = random_words({seed, kScaleStream}, RandomUse::value,
                                             static_cast<std::uint64_t>(i * scales.cols() + j));
      const std::int64_t at = i * scales.strides[0] + j * scales.strides[1];
      const std::uint32_t exponent = 124 + words.word[0] % 7;
      if (scales.dtype == Dtype::ue8m0) {
        static_cast<std::uint8_t*>(scales.data)[at] = static_cast<std::uint8_t>(exponent);
      } else {
        static_cast<float*>(scales.data)[at] = f32_from_bits(exponent << 23 | words.word[1] >> 9);
      }
    }
  }
}

}  // namespace

RandomCodes::RandomCodes(std::int64_t rows, std::int64_t cols, Dtype format, BlockShape block,
                         const CodesLayout& layout, const DataOptions& options, Device device)
    : layout_(layout), own_(rows, cols, format, block) {
  const std::int64_t lines = layout.transposed ? cols : rows;
  if (layout_.pitch == 0) layout_.pitch = round_up(layout.transposed ? rows : cols, kBlock);
  scales_at_ = round_up(layout_.offset + lines * layout_.pitch, kAlignment);
  const std::size_t bytes = static_cast<std::size_t>(scales_at_) + own_.bytes - own_.scales_offset;
  host_ = Buffer(bytes);
  on_host_ = view_ = view_in(host_.data(), kCpu);
  const int threads = options.threads != 0 ? options.threads : default_threads();
  parallel_for(threads, rows,
               [&](std::int64_t row) { fill_row(on_host_.values, row, options.seed); });
  fill_scales(on_host_.scales, options.seed);
  if (device.type == DeviceType::cpu) return;
  memory_ = Buffer(bytes, device);
  cuda::copy(memory_.data(), host_.data(), bytes, device.index);
  view_ = view_in(memory_.data(), device);
}

void RandomCodes::drop_host() {
  if (view_.values.device.type == DeviceType::cpu) return;
  host_ = Buffer();
  on_host_ = {};
}

QuantizedView RandomCodes::view_in(void* memory, Device device) const {
  auto* const bytes = static_cast<char*>(memory);
  QuantizedView view = own_.view(bytes + scales_at_ - own_.scales_offset, device);
  view.values.data = bytes + layout_.offset;
  view.values.strides[0] = layout_.transposed ? 1 : layout_.pitch;
  view.values.strides[1] = layout_.transposed ? layout_.pitch : 1;
  view.owns_padding = false;
  return view;
}

}  // namespace octet
