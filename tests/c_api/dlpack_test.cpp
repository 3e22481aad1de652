// Views to and from DLPack.
#include <octet/dlpack.hpp>

#include <gtest/gtest.h>

namespace octet {
namespace {

std::string message_of(const DLTensor& tensor) {
  try {
    from_dlpack(tensor);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

class Dlpack : public testing::Test {
 protected:
  Dlpack() {
    tensor_.data = memory_;
    tensor_.device = {kDLCPU, 0};
    tensor_.ndim = 2;
    tensor_.dtype = {kDLFloat, 32, 1};
    tensor_.shape = shape_;
  }
  float memory_[12] = {};
  std::int64_t shape_[2] = {3, 4};
  std::int64_t strides_[2] = {1, 3};
  DLTensor tensor_{};
};

TEST_F(Dlpack, AbsentStridesMeanDense) {
  const TensorView view = from_dlpack(tensor_);
  EXPECT_EQ(view.data, memory_);
  EXPECT_EQ(describe(view), "f32[3, 4]");
  EXPECT_EQ(view.strides[0], 4);
  EXPECT_EQ(view.strides[1], 1);
}

TEST_F(Dlpack, StridesAndByteOffsetAreKept) {
  tensor_.strides = strides_;
  tensor_.byte_offset = 8;
  const TensorView view = from_dlpack(tensor_);
  EXPECT_EQ(view.data, memory_ + 2);
  EXPECT_EQ(describe(view), "f32[3, 4] strides [1, 3]");
}

TEST_F(Dlpack, EveryDtypeMakesTheRoundTrip) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::e4m3, Dtype::e5m2,
                            Dtype::ue8m0, Dtype::i32, Dtype::i64}) {
    TensorView view = make_view(static_cast<void*>(memory_), dtype, {3, 4});
    view.device = {DeviceType::cuda, 2};
    view.strides[0] = 16;
    const TensorView back = from_dlpack(to_dlpack(view));
    EXPECT_EQ(back.data, view.data);
    EXPECT_EQ(back.device, view.device);
    EXPECT_EQ(describe(back), describe(view));
  }
}

TEST(DlpackDtype, CodesAreThoseOfDlpack) {
  const auto code = [](Dtype dtype) { return static_cast<int>(to_dlpack(dtype).code); };
  EXPECT_EQ(code(Dtype::i32), 0);
  EXPECT_EQ(code(Dtype::i64), 0);
  EXPECT_EQ(to_dlpack(Dtype::i32).bits, 32);
  EXPECT_EQ(to_dlpack(Dtype::i64).bits, 64);
  EXPECT_EQ(code(Dtype::f16), 2);
  EXPECT_EQ(code(Dtype::bf16), 4);
  EXPECT_EQ(code(Dtype::e4m3), 10);
  EXPECT_EQ(code(Dtype::e5m2), 12);
  EXPECT_EQ(code(Dtype::ue8m0), 14);
  EXPECT_THROW(to_dlpack(static_cast<Dtype>(50)), Error);
}

TEST_F(Dlpack, ManagedMemoryIsMemoryOfItsDevice) {
  tensor_.device = {kDLCUDAManaged, 1};
  EXPECT_EQ(from_dlpack(tensor_).device, (Device{DeviceType::cuda, 1}));
}

TEST_F(Dlpack, RefusesWhatOctetDoesNotHave) {
  tensor_.dtype.lanes = 4;
  EXPECT_EQ(message_of(tensor_),
            "from_dlpack: vector types are not supported: lanes must be 1, got 4");
  tensor_.dtype = {kDLInt, 16, 1};
  EXPECT_EQ(message_of(tensor_),
            "from_dlpack: octet has f32, f16, bf16, e4m3, e5m2, ue8m0, i32 and i64, got type code "
            "0 with 16 bits");
  tensor_.dtype = {kDLUInt, 32, 1};
  EXPECT_EQ(message_of(tensor_),
            "from_dlpack: octet has f32, f16, bf16, e4m3, e5m2, ue8m0, i32 and i64, got type code "
            "1 with 32 bits");
  tensor_.dtype = {kDLFloat, 32, 1};
  tensor_.device.device_type = kDLVulkan;
  EXPECT_EQ(message_of(tensor_),
            "from_dlpack: device must be kDLCPU (1), kDLCUDA (2) or kDLCUDAManaged (13), got 7");
  tensor_.device.device_type = kDLCPU;
  tensor_.ndim = 7;
  EXPECT_EQ(message_of(tensor_), "from_dlpack: rank must be between 0 and 6, got 7");
  tensor_.ndim = 2;
  tensor_.shape = nullptr;
  EXPECT_EQ(message_of(tensor_), "from_dlpack: shape is a null pointer");
  std::int64_t huge[2] = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  tensor_.shape = huge;
  EXPECT_EQ(message_of(tensor_), "from_dlpack: the shape passes 2^63 elements");
}

}  // namespace
}  // namespace octet
