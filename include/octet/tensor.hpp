// Non-owning tensor views: a pointer, a dtype, 64-bit shape and strides (in elements), a device.
#pragma once

#include <octet/device.hpp>
#include <octet/dtype.hpp>
#include <octet/export.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace octet {

inline constexpr int kMaxRank = 6;

struct TensorView {
  void* data = nullptr;
  Dtype dtype = Dtype::f32;
  std::int32_t rank = 0;
  std::array<std::int64_t, kMaxRank> shape{};
  std::array<std::int64_t, kMaxRank> strides{};  // in elements
  Device device{};

  std::int64_t rows() const { return shape[0]; }
  std::int64_t cols() const { return shape[1]; }
};

// A dense row-major view. Operators write only to what they call an output, so the second form may
// be used for inputs that are const.
OCTET_API TensorView make_view(void* data, Dtype dtype, std::initializer_list<std::int64_t> shape,
                               Device device = kCpu);
OCTET_API TensorView make_view(const void* data, Dtype dtype,
                               std::initializer_list<std::int64_t> shape, Device device = kCpu);
// A matrix whose rows are `row_stride` elements apart.
OCTET_API TensorView make_matrix(void* data, Dtype dtype, std::int64_t rows, std::int64_t cols,
                                 std::int64_t row_stride, Device device = kCpu);
// The same memory with the two dimensions of a matrix exchanged.
OCTET_API TensorView transposed(const TensorView& matrix);

// "bf16[512, 4096]", with strides if not dense: "bf16[512, 4096] strides [8192, 1]".
OCTET_API std::string describe(const TensorView& view);
// "[512, 4096]"
OCTET_API std::string describe_shape(const TensorView& view);

}  // namespace octet
