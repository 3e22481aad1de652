// Views: their descriptions, and what they refuse.
#include <octet/tensor.hpp>

#include "support/refusal.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace octet {
namespace {

TEST(TensorView, IsDenseAndRowMajorByDefault) {
  float memory[24];
  const TensorView view = make_view(memory, Dtype::f32, {2, 3, 4});
  EXPECT_EQ(view.data, memory);
  EXPECT_EQ(view.rank, 3);
  EXPECT_EQ(view.strides[0], 12);
  EXPECT_EQ(view.strides[1], 4);
  EXPECT_EQ(view.strides[2], 1);
  EXPECT_EQ(view.device, kCpu);
  EXPECT_EQ(describe(view), "f32[2, 3, 4]");
}

TEST(TensorView, DescribesStridesOnlyWhereTheyAreNotDense) {
  EXPECT_EQ(describe(make_matrix(nullptr, Dtype::bf16, 512, 4096, 8192)),
            "bf16[512, 4096] strides [8192, 1]");
  EXPECT_EQ(describe(make_matrix(nullptr, Dtype::bf16, 512, 4096, 4096)), "bf16[512, 4096]");
  // The stride of a single row is never used, so it is not printed.
  EXPECT_EQ(describe(make_matrix(nullptr, Dtype::bf16, 1, 4096, 8192)), "bf16[1, 4096]");
}

TEST(TensorView, TransposedExchangesShapeAndStrides) {
  const TensorView view = transposed(make_matrix(nullptr, Dtype::f16, 3, 5, 8));
  EXPECT_EQ(view.rows(), 5);
  EXPECT_EQ(view.cols(), 3);
  EXPECT_EQ(describe(view), "f16[5, 3] strides [1, 8]");
  EXPECT_EQ(describe(transposed(view)), "f16[3, 5] strides [8, 1]");
}

TEST(TensorView, RefusesToTransposeWhatIsNoMatrix) {
  const TensorView cube = make_view(static_cast<void*>(nullptr), Dtype::f32, {2, 2, 2});
  EXPECT_EQ(refusal([&] { transposed(cube); }, ErrorCode::invalid_argument),
            "transposed: the view must have rank 2, got rank 3");
}

TEST(TensorView, RefusesARankBeyondSix) {
  const auto call = [] {
    make_view(static_cast<void*>(nullptr), Dtype::f32, {1, 1, 1, 1, 1, 1, 1});
  };
  EXPECT_EQ(refusal(call, ErrorCode::invalid_argument), "make_view: rank must be at most 6, got 7");
}

TEST(TensorView, RefusesAShapeWhoseProductOverflows) {
  const std::int64_t big = std::int64_t{1} << 32;
  const auto call = [&] { make_view(static_cast<void*>(nullptr), Dtype::f32, {big, big}); };
  EXPECT_EQ(refusal(call, ErrorCode::invalid_argument),
            "make_view: shape [4294967296, 4294967296] passes 2^63 elements");
}

TEST(TensorView, StridesPassTwoToTheThirtyOneWithoutWrapping) {
  const TensorView view = make_view(static_cast<void*>(nullptr), Dtype::e4m3, {3, 70000, 70000});
  EXPECT_EQ(view.strides[0], std::int64_t{4900000000});
}

TEST(Dtype, NamesAndSizesRoundTrip) {
  struct Entry {
    Dtype dtype;
    std::string_view name;
    int bytes;
  };
  const std::vector<Entry> entries{{Dtype::f32, "f32", 4},   {Dtype::f16, "f16", 2},
                                   {Dtype::bf16, "bf16", 2}, {Dtype::e4m3, "e4m3", 1},
                                   {Dtype::e5m2, "e5m2", 1}, {Dtype::ue8m0, "ue8m0", 1},
                                   {Dtype::i32, "i32", 4},   {Dtype::i64, "i64", 8}};
  for (const Entry& entry : entries) {
    EXPECT_EQ(name(entry.dtype), entry.name);
    EXPECT_EQ(size_bytes(entry.dtype), entry.bytes) << entry.name;
    EXPECT_EQ(parse_dtype(entry.name), entry.dtype) << entry.name;
  }
  std::size_t with_a_size = 0;
  for (int number = -1; number < 100; ++number) {
    with_a_size += size_bytes(static_cast<Dtype>(number)) != 0 ? 1 : 0;
  }
  EXPECT_EQ(with_a_size, entries.size()) << "a dtype is missing in this test";
  EXPECT_EQ(parse_dtype("fp32"), std::nullopt);
  EXPECT_EQ(parse_dtype(""), std::nullopt);
  EXPECT_EQ(name(static_cast<Dtype>(77)), "unknown dtype");
  EXPECT_EQ(size_bytes(static_cast<Dtype>(77)), 0);
}

TEST(Device, NamesRoundTrip) {
  EXPECT_EQ(parse_device("cpu"), kCpu);
  EXPECT_EQ(parse_device("cuda"), (Device{DeviceType::cuda, 0}));
  EXPECT_EQ(parse_device("cuda:3"), (Device{DeviceType::cuda, 3}));
  EXPECT_EQ(name(Device{DeviceType::cuda, 3}), "cuda:3");
  EXPECT_EQ(name(kCpu), "cpu");
}

TEST(Device, RefusesWhatNamesNone) {
  for (const char* text : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda:99999999999", "CPU"}) {
    const std::string message = refusal([&] { parse_device(text); }, ErrorCode::invalid_argument);
    EXPECT_EQ(message,
              "device must be cpu, cuda or cuda:<number>, got \"" + std::string(text) + "\"");
  }
}

}  // namespace
}  // namespace octet
