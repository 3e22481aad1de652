// Turns the fuzzer's bytes into C structs: mostly nearly right, so that calls get past the first
// check, but any field may be wrong.
//
// A tensor that reaches outside the arena gets a null pointer. An accepted call therefore touches
// only the arena, and one that reads or writes elsewhere is caught.
#pragma once

#include <octet/octet.h>

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <vector>

namespace octet::fuzz {

inline constexpr std::int64_t kArenaBytes = 1 << 15;
inline constexpr std::uint32_t kLargestStruct = 1 << 16;  // larger sizes are refused unread

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size, char* arena)
      : bytes_(data, size), arena_(arena) {}

  // True about once in sixteen: the caller then breaks something.
  bool spoilt() { return bytes_.ConsumeIntegralInRange(0, 15) == 15; }
  bool coin() { return bytes_.ConsumeBool(); }
  int choice(int count) { return bytes_.ConsumeIntegralInRange(0, count - 1); }

  std::int64_t extent() {
    if (spoilt()) return bytes_.ConsumeIntegral<std::int64_t>();
    if (spoilt()) return bytes_.ConsumeIntegralInRange<std::int64_t>(100, 300);
    return bytes_.ConsumeIntegralInRange<std::int64_t>(1, 24);
  }
  // A small extent, for operators that multiply many of them.
  std::int64_t few() { return spoilt() ? extent() : bytes_.ConsumeIntegralInRange(0, 4); }
  std::int32_t number(std::int32_t first, std::int32_t last) {
    if (spoilt()) return bytes_.ConsumeIntegral<std::int32_t>();
    return bytes_.ConsumeIntegralInRange(first, last);
  }
  std::int32_t flag() { return spoilt() ? bytes_.ConsumeIntegral<std::int32_t>() : choice(2); }
  float real() { return spoilt() ? bytes_.ConsumeFloatingPoint<float>() : 0; }
  octet_dtype float_dtype() { return number(OCTET_F32, OCTET_BF16); }
  octet_dtype fp8_dtype() { return number(OCTET_E4M3, OCTET_E5M2); }
  octet_device device() {
    if (!spoilt()) return octet_cpu();
    return {bytes_.ConsumeIntegral<std::int32_t>(), bytes_.ConsumeIntegral<std::int32_t>()};
  }
  octet_block block() {
    if (spoilt()) return {extent(), extent()};
    constexpr octet_block kBlocks[] = {{1, 128}, {128, 1}, {128, 128}, {-2, -2}, {0, 0},
                                       {-1, -1}, {1, -1},  {-1, 1},    {1, 32},  {32, 32}};
    return kBlocks[choice(10)];
  }

  // The tensor that an operator expects, or a similar one.
  octet_tensor tensor(octet_dtype dtype, std::initializer_list<std::int64_t> shape,
                      bool padded = false);
  octet_tensor tensor(octet_dtype dtype, std::int64_t rows, std::int64_t cols,
                      bool padded = false) {
    return tensor(dtype, {rows, cols}, padded);
  }
  octet_quantized quantized(octet_dtype dtype, std::int64_t rows, std::int64_t cols,
                            octet_block block);
  // The same of [batch, rows, cols].
  octet_quantized quantized_batch(octet_dtype dtype, std::int64_t batch, std::int64_t rows,
                                  std::int64_t cols, octet_block block);
  // Options that start few threads, unless spoilt.
  template <class Options>
  const Options* options(Options* storage, const char* Options::*backend) {
    if (!spoilt())
      OCTET_INIT(storage);
    else
      std::memset(storage, 0, sizeof *storage);
    constexpr std::array<std::int32_t, 5> kThreads{1, 2, 0, -1, 5000};
    constexpr std::array<const char*, 4> kNames{"cpu_reference", nullptr, "", "nonsense"};
    storage->threads = kThreads[static_cast<std::size_t>(spoilt() ? choice(5) : choice(2))];
    storage->*backend = kNames[static_cast<std::size_t>(spoilt() ? 3 : choice(3))];
    return storage;
  }

  // A struct with space behind it, as newer headers would have, and a size that may be wrong.
  template <class Struct>
  struct Grown {
    Struct known;
    std::array<std::uint8_t, 64> tail;
  };
  template <class Struct>
  void grow(Grown<Struct>* grown) {
    grown->tail.fill(spoilt() ? 1 : 0);
    if (!spoilt()) return;
    const auto size = bytes_.ConsumeIntegralInRange<std::uint32_t>(0, sizeof(Struct) + 64);
    grown->known.struct_size = spoilt() ? kLargestStruct + 1 + size : size;
  }

 private:
  std::int64_t stride(std::int64_t wanted) {
    if (!spoilt()) return wanted;
    return coin() ? bytes_.ConsumeIntegralInRange<std::int64_t>(-2, 300)
                  : bytes_.ConsumeIntegral<std::int64_t>();
  }
  void place(octet_tensor* tensor, bool padded);

  FuzzedDataProvider bytes_;
  char* arena_;
  std::int64_t used_ = 0;
};

// First to last byte of a tensor, including owned padding; too far if beyond the arena.
inline std::int64_t reach_bytes(const octet_tensor& tensor, bool padded) {
  __int128 last = 0;
  __int128 line = 0;
  for (int i = 0; i < std::clamp(tensor.rank, 0, OCTET_MAX_RANK); ++i) {
    if (tensor.strides[i] < 0 || tensor.shape[i] < 0) return 0;  // refused anyway
    last +=
        static_cast<__int128>(std::max<std::int64_t>(tensor.shape[i], 1) - 1) * tensor.strides[i];
    if (last > kArenaBytes) return kArenaBytes + 1;
    line = std::max(line, static_cast<__int128>(tensor.strides[i]));
  }
  const auto element = static_cast<std::int64_t>(octet_dtype_size(tensor.dtype));
  const __int128 bytes = (last + 1 + (padded ? line : 0)) * std::max<std::int64_t>(element, 4);
  return bytes > kArenaBytes ? kArenaBytes + 1 : static_cast<std::int64_t>(bytes);
}

inline void Input::place(octet_tensor* tensor, bool padded) {
  const std::int64_t bytes = reach_bytes(*tensor, padded);
  std::int64_t offset = used_;
  if (spoilt()) offset = bytes_.ConsumeIntegralInRange<std::int64_t>(0, kArenaBytes);
  if (offset + bytes > kArenaBytes || spoilt()) return;
  tensor->data = arena_ + offset;
  used_ = std::max(used_, (offset + bytes + 15) / 16 * 16);
}

inline octet_tensor Input::tensor(octet_dtype dtype, std::initializer_list<std::int64_t> shape,
                                  bool padded) {
  octet_tensor tensor{};
  tensor.dtype = spoilt() ? number(0, 9) : dtype;
  const auto rank = static_cast<std::int32_t>(shape.size());
  tensor.rank = spoilt() ? bytes_.ConsumeIntegralInRange(-1, 8) : rank;
  std::int64_t dense = 1;
  for (int i = rank - 1; i >= 0; --i) {
    const std::int64_t wanted = std::data(shape)[i];
    tensor.shape[i] = spoilt() ? extent() : wanted;
    tensor.strides[i] = stride(dense);
    if (__builtin_mul_overflow(dense, wanted, &dense)) dense = kArenaBytes;
    const bool fp8 = dtype == OCTET_E4M3 || dtype == OCTET_E5M2;
    if (fp8 && dense > 0 && dense < kArenaBytes) dense = (dense + 15) / 16 * 16;
  }
  tensor.device = device();
  place(&tensor, padded);
  return tensor;
}

inline std::int64_t blocks_of(std::int64_t extent, std::int64_t step) {
  return step > 0 && extent > 0 ? (extent - 1) / step + 1 : std::int64_t{1};
}

inline octet_quantized Input::quantized(octet_dtype dtype, std::int64_t rows, std::int64_t cols,
                                        octet_block block) {
  octet_quantized view{};
  view.block = spoilt() ? this->block() : block;
  view.owns_padding = flag();
  const bool padded = view.owns_padding != 0;
  view.values = tensor(dtype, rows, cols, padded);
  if (block.rows != 0 || block.cols != 0) {
    const bool mx = block.cols == 32 && (block.rows == 1 || block.rows == 32);
    view.scales = tensor(mx ? OCTET_UE8M0 : OCTET_F32, blocks_of(rows, block.rows),
                         blocks_of(cols, block.cols), padded);
  }
  return view;
}

inline octet_quantized Input::quantized_batch(octet_dtype dtype, std::int64_t batch,
                                              std::int64_t rows, std::int64_t cols,
                                              octet_block block) {
  octet_quantized view{};
  view.block = spoilt() ? this->block() : block;
  view.owns_padding = flag();
  const bool padded = view.owns_padding != 0;
  view.values = tensor(dtype, {batch, rows, cols}, padded);
  if (block.rows > 0 || block.cols > 0) {
    view.scales = tensor(OCTET_F32,
                         {batch, blocks_of(rows, block.rows), blocks_of(cols, block.cols)}, padded);
  }
  return view;
}

}  // namespace octet::fuzz
