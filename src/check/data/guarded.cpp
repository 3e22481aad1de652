#include "check/data/guarded.hpp"

#include "check/cuda_gates.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace octet {
namespace {

bool on_cuda(const Rectangle& rectangle) { return rectangle.device.type == DeviceType::cuda; }

unsigned char* row_of(const Rectangle& rectangle, std::int64_t row) {
  return static_cast<unsigned char*>(rectangle.data) + row * rectangle.pitch;
}

// The sum of count(first, end) over the rows, seen as elements of type T.
template <class T, class Count>
std::int64_t sum_over_rows(const Rectangle& rectangle, const Count& count) {
  std::int64_t sum = 0;
  for (std::int64_t r = 0; r < rectangle.rows; ++r) {
    const auto* first = reinterpret_cast<const T*>(row_of(rectangle, r));
    sum += count(first, first + rectangle.row_bytes / static_cast<std::int64_t>(sizeof(T)));
  }
  return sum;
}

template <class T>
std::int64_t count_bits(const Rectangle& rectangle, std::uint32_t bits) {
  return sum_over_rows<T>(rectangle, [bits](const T* first, const T* end) {
    return std::count(first, end, static_cast<T>(bits));
  });
}

bool is_empty(const Rectangle& rectangle) {
  return rectangle.rows == 0 || rectangle.row_bytes == 0;
}

constexpr unsigned char kPattern = 0xA5;
// The quantiser's own NaN is 0x7F.
constexpr unsigned char kPoison = 0xFF;
constexpr std::uint32_t kPoisonBits[] = {0, 0xFFu, 0xFFFFu, 0, 0xFFFFFFFFu};  // by bytes

std::int64_t changed_bytes(const Rectangle& rectangle, unsigned char from = kPattern) {
  return rectangle.rows * rectangle.row_bytes - count_equal(rectangle, from, 1);
}

Rectangle first_rows(Rectangle rectangle, std::int64_t count) {
  rectangle.rows = count;
  return rectangle;
}
Rectangle rows_from(Rectangle rectangle, std::int64_t first) {
  rectangle.data = row_of(rectangle, first);
  rectangle.rows -= first;
  return rectangle;
}

// The padding after the first `used` bytes of every row.
Rectangle padding_of(const Rectangle& rows, std::int64_t used) {
  return columns(rows, used, rows.pitch);
}

}  // namespace

Rectangle columns(const Rectangle& rectangle, std::int64_t begin, std::int64_t end) {
  Rectangle result = rectangle;
  result.data = static_cast<unsigned char*>(rectangle.data) + begin;
  result.row_bytes = end - begin;
  return result;
}

Rectangle elements_of(const TensorView& matrix) {
  const std::int64_t size = size_bytes(matrix.dtype);
  return {matrix.data, matrix.rows(), matrix.cols() * size, matrix.strides[0] * size,
          matrix.device};
}

void fill(const Rectangle& rectangle, unsigned char byte) {
  if (is_empty(rectangle)) return;
  if (on_cuda(rectangle)) return cuda::fill(rectangle, byte);
  for (std::int64_t r = 0; r < rectangle.rows; ++r) {
    std::memset(row_of(rectangle, r), byte, static_cast<std::size_t>(rectangle.row_bytes));
  }
}

std::int64_t count_equal(const Rectangle& rectangle, std::uint32_t bits, int element_bytes) {
  if (is_empty(rectangle)) return 0;
  if (on_cuda(rectangle)) return cuda::count_equal(rectangle, bits, element_bytes);
  switch (element_bytes) {
    case 1: return count_bits<std::uint8_t>(rectangle, bits);
    case 2: return count_bits<std::uint16_t>(rectangle, bits);
    default: return count_bits<std::uint32_t>(rectangle, bits);
  }
}

std::int64_t count_not_finite(const Rectangle& rectangle) {
  if (is_empty(rectangle)) return 0;
  if (on_cuda(rectangle)) return cuda::count_not_finite(rectangle);
  return sum_over_rows<float>(rectangle, [](const float* first, const float* end) {
    return std::count_if(first, end, [](float value) { return !std::isfinite(value); });
  });
}

void copy(const Rectangle& from, const Rectangle& to) {
  if (is_empty(from)) return;
  if (on_cuda(from)) return cuda::copy(from, to);
  for (std::int64_t r = 0; r < from.rows; ++r) {
    std::memcpy(row_of(to, r), row_of(from, r), static_cast<std::size_t>(from.row_bytes));
  }
}

GuardedMemory::GuardedMemory(std::size_t bytes, Device device)
    : band_(device.type == DeviceType::cuda ? std::int64_t{1} << 20 : 4096),
      memory_(bytes + 2 * static_cast<std::size_t>(band_), device) {
  const auto all = static_cast<std::int64_t>(memory_.bytes());
  fill({memory_.data(), 1, all, all, device}, kPattern);
}

Rectangle GuardedMemory::before() const {
  return {memory_.data(), 1, band_, band_, memory_.device()};
}

Rectangle GuardedMemory::behind(std::int64_t begin) const {
  const std::int64_t length = static_cast<std::int64_t>(memory_.bytes()) - band_ - begin;
  return {data() + begin, 1, length, length, memory_.device()};
}

GuardedMatrix::GuardedMatrix(Dtype dtype, std::int64_t rows, std::int64_t cols, std::int64_t gap,
                             Device device)
    : memory_(static_cast<std::size_t>(rows * (cols + gap) * size_bytes(dtype)), device),
      view_(make_matrix(memory_.data(), dtype, rows, cols, cols + gap, device)) {
  fill(elements_of(view_), kPoison);
}

void GuardedMatrix::fill_from(const TensorView& matrix) {
  copy(elements_of(matrix), elements_of(view_));
  poisoned_ = false;
}

GuardFindings GuardedMatrix::inspect() const {
  const Rectangle elements = elements_of(view_);
  const auto size = static_cast<int>(size_bytes(view_.dtype));
  GuardFindings findings;
  findings.outside = changed_bytes(memory_.before()) +
                     changed_bytes(padding_of(elements, elements.row_bytes)) +
                     changed_bytes(memory_.behind(elements.rows * elements.pitch));
  if (poisoned_) findings.unwritten = count_equal(elements, kPoisonBits[size], size);
  return findings;
}

GuardedQuantized::GuardedQuantized(const QuantizedLayout& layout, bool owns_padding, Device device)
    : scales_offset_(static_cast<std::int64_t>(layout.scales_offset)),
      memory_(layout.bytes, device),
      view_(layout.view(memory_.data(), device)) {
  view_.owns_padding = owns_padding;
  poison();
}

GuardedQuantized::GuardedQuantized(const QuantizedBatchLayout& layout, bool owns_padding,
                                   Device device)
    : scales_offset_(static_cast<std::int64_t>(layout.scales_offset)),
      memory_(layout.bytes, device),
      view_(layout.view(memory_.data(), device)) {
  view_.owns_padding = owns_padding;
  poison();
}

void GuardedQuantized::poison() {
  const Rectangle rows = value_rows();
  const Rectangle lines = scale_lines();
  fill(columns(rows, 0, view_.values.shape[view_.values.rank - 1]), kPoison);
  fill(view_.owns_padding ? lines : columns(lines, 0, scale_line_bytes()), kPoison);
}

void GuardedQuantized::give_scales() {
  const Rectangle lines = scale_lines();
  fill(view_.owns_padding ? lines : columns(lines, 0, scale_line_bytes()), kGivenScaleByte);
}

// Matrices of a batch follow one another without a gap, in values and in scales.
Rectangle GuardedQuantized::value_rows() const {
  const TensorView& values = view_.values;
  const int rows = values.rank - 2;
  const std::int64_t count = values.shape[rows] * (rows > 0 ? values.shape[0] : 1);
  return {values.data, count, values.strides[rows], values.strides[rows], values.device};
}

Rectangle GuardedQuantized::scale_lines() const {
  const TensorView& scales = view_.scales;
  const LineDimensions lines = scale_dimensions();
  std::int64_t count = 1;
  for (int i = 0; i < scales.rank; ++i) count *= i == lines.along ? 1 : scales.shape[i];
  const std::int64_t line_bytes = scales.strides[lines.across] * size_bytes(scales.dtype);
  return {scales.data, count, line_bytes, line_bytes, scales.device};
}

std::int64_t GuardedQuantized::scale_line_bytes() const {
  return view_.scales.shape[scale_dimensions().along] * size_bytes(view_.scales.dtype);
}

std::int64_t GuardedQuantized::not_finite(const Rectangle& scales) const {
  // NaN of ue8m0 has the bits of the poison.
  return view_.scales.dtype == Dtype::ue8m0 ? count_equal(scales, kPoison, 1)
                                            : count_not_finite(scales);
}

GuardFindings GuardedQuantized::inspect(std::int64_t written) const {
  const std::int64_t cols = view_.values.shape[view_.values.rank - 1];
  const Rectangle rows = value_rows();
  const Rectangle lines = scale_lines();
  const Rectangle scales = columns(lines, 0, scale_line_bytes());
  const std::int64_t between = rows.rows * rows.pitch;

  // What is written comes first: rows of values, and scales in every line or whole lines.
  const std::int64_t parts = view_.values.shape[0];
  const std::int64_t value_rows_written = rows.rows / parts * written;
  // Where all parts are written all scales are, also one that they share.
  const bool along_parts = scale_dimensions().along == 0 && written != parts;
  const std::int64_t bytes_written =
      along_parts ? scales.row_bytes / parts * written : scales.row_bytes;
  const std::int64_t lines_written =
      along_parts || written == parts ? lines.rows : lines.rows / parts * written;

  const Rectangle values_left = columns(rows_from(rows, value_rows_written), 0, cols);
  const Rectangle scales_left = along_parts ? columns(scales, bytes_written, scales.row_bytes)
                                            : rows_from(scales, lines_written);
  const Rectangle value_padding = padding_of(first_rows(rows, value_rows_written), cols);
  const Rectangle scale_padding = padding_of(first_rows(lines, lines_written), scales.row_bytes);

  GuardFindings findings;
  findings.unwritten =
      count_equal(columns(first_rows(rows, value_rows_written), 0, cols), kPoison, 1) +
      not_finite(columns(first_rows(scales, lines_written), 0, bytes_written));
  findings.outside = changed_bytes(memory_.before()) +
                     changed_bytes({memory_.data() + between, 1, scales_offset_ - between,
                                    scales_offset_ - between, rows.device}) +
                     changed_bytes(memory_.behind(scales_offset_ + lines.rows * lines.pitch)) +
                     changed_bytes(values_left, kPoison) + changed_bytes(scales_left, kPoison);
  if (view_.owns_padding) {
    findings.bad_padding = value_padding.rows * value_padding.row_bytes -
                           count_equal(value_padding, 0, 1) + not_finite(scale_padding);
  } else {
    findings.outside +=
        changed_bytes(padding_of(rows, cols)) + changed_bytes(padding_of(lines, scales.row_bytes));
  }
  return findings;
}

}  // namespace octet
