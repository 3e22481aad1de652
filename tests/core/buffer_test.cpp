// Owned memory: which allocator it comes from, that it is freed once, and what happens if there is
// none.
#include <octet/buffer.hpp>

#include "support/refusal.hpp"

#include <octet/quantized.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

namespace octet {
namespace {

// An allocator that tracks its live allocations.
struct Ledger {
  std::map<void*, std::size_t> outstanding;
  int allocations = 0;
  std::size_t misaligned_by = 0;
  bool exhausted = false;

  Allocator allocator() {
    return {[](std::size_t bytes, Device, void* user) {
              return static_cast<Ledger*>(user)->allocate(bytes);
            },
            [](void* memory, std::size_t bytes, Device, void* user) {
              static_cast<Ledger*>(user)->release(memory, bytes);
            },
            this};
  }

  void* allocate(std::size_t bytes) {
    if (exhausted) return nullptr;
    ++allocations;
    const std::size_t room = (bytes + misaligned_by + kAlignment) / kAlignment * kAlignment;
    auto* base = static_cast<char*>(std::aligned_alloc(kAlignment, room));
    std::memset(base, 0xAB, room);
    outstanding[base + misaligned_by] = bytes;
    return base + misaligned_by;
  }

  void release(void* memory, std::size_t bytes) {
    const auto found = outstanding.find(memory);
    ASSERT_NE(found, outstanding.end()) << "released what was not allocated, or twice";
    EXPECT_EQ(found->second, bytes);
    outstanding.erase(found);
    std::free(static_cast<char*>(memory) - misaligned_by);
  }
};

bool all_zero(const Buffer& buffer) {
  const auto* bytes = static_cast<const char*>(buffer.data());
  for (std::size_t i = 0; i < buffer.bytes(); ++i) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

TEST(Buffer, IsAlignedAndZeroed) {
  for (std::size_t bytes : {1, 255, 256, 257, 100000}) {
    const Buffer buffer(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % kAlignment, 0u);
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_TRUE(all_zero(buffer));
  }
}

TEST(Buffer, OfNoBytesHasNoMemory) {
  Ledger ledger;
  const Buffer buffer(0, kCpu, ledger.allocator());
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(ledger.allocations, 0);
}

TEST(Buffer, GivesBackToTheAllocatorItCameFrom) {
  Ledger ledger;
  {
    const Buffer buffer(1000, kCpu, ledger.allocator());
    EXPECT_EQ(ledger.outstanding.size(), 1u);
    EXPECT_TRUE(all_zero(buffer)) << "memory of the caller's allocator is cleared too";
  }
  EXPECT_TRUE(ledger.outstanding.empty());
}

TEST(Buffer, MovesWithoutCopyOrLeak) {
  Ledger ledger;
  {
    Buffer first(100, kCpu, ledger.allocator());
    void* memory = first.data();
    Buffer second(std::move(first));
    EXPECT_EQ(second.data(), memory);
    EXPECT_EQ(first.data(), nullptr);  // NOLINT: tests the moved-from state
    EXPECT_EQ(first.bytes(), 0u);
    Buffer third(200, kCpu, ledger.allocator());
    third = std::move(second);
    EXPECT_EQ(third.data(), memory);
    EXPECT_EQ(ledger.outstanding.size(), 1u) << "what third held went back";
    Buffer& alias = third;
    third = std::move(alias);
    EXPECT_EQ(third.data(), memory);
  }
  EXPECT_TRUE(ledger.outstanding.empty());
}

TEST(Buffer, RefusesAnAllocatorThatDoesNotAlign) {
  Ledger ledger;
  ledger.misaligned_by = 64;
  const std::string message =
      refusal([&] { Buffer(1000, kCpu, ledger.allocator()); }, ErrorCode::invalid_argument);
  EXPECT_EQ(message.find("buffer: an allocator must return memory aligned to 256 bytes"), 0u)
      << message;
  EXPECT_EQ(ledger.allocations, 1);
  EXPECT_TRUE(ledger.outstanding.empty()) << "what was refused went back";
}

TEST(Buffer, RefusesHalfAnAllocator) {
  Allocator half = Ledger{}.allocator();
  half.release = nullptr;
  EXPECT_EQ(refusal([&] { Buffer(1, kCpu, half); }, ErrorCode::invalid_argument),
            "buffer: an allocator must have both allocate and release, or neither");
}

TEST(Buffer, SaysHowMuchCouldNotBeAllocated) {
  Ledger ledger;
  ledger.exhausted = true;
  EXPECT_EQ(refusal([&] { Buffer(1000, kCpu, ledger.allocator()); }, ErrorCode::out_of_memory),
            "buffer: 1000 bytes on cpu could not be allocated");
  refusal([] { Buffer(SIZE_MAX); }, ErrorCode::out_of_memory);
  refusal([] { Buffer(SIZE_MAX / 2); }, ErrorCode::out_of_memory);
}

TEST(Buffer, RefusesADeviceThatIsNotThere) {
  EXPECT_EQ(refusal(
                [] {
                  Buffer(1, Device{DeviceType::cpu, 1});
                },
                ErrorCode::invalid_argument),
            "buffer: the CPU is cpu:0, got cpu:1");
  EXPECT_EQ(refusal(
                [] {
                  Buffer(1, Device{static_cast<DeviceType>(9), 0});
                },
                ErrorCode::invalid_argument),
            "buffer: device must be cpu or cuda, got type 9");
  const std::string message = refusal(
      [] {
        Buffer(1, Device{DeviceType::cuda, 1 << 20});
      },
      ErrorCode::no_device);
  EXPECT_NE(message.find("cuda:1048576 is not on this machine"), std::string::npos) << message;
}

TEST(Tensor, OwnsTheBytesOfItsShape) {
  Ledger ledger;
  {
    const Tensor tensor(Dtype::bf16, {3, 5}, kCpu, ledger.allocator());
    EXPECT_EQ(tensor.bytes(), 30u);
    EXPECT_EQ(describe(tensor.view()), "bf16[3, 5]");
    EXPECT_EQ(ledger.outstanding.begin()->first, tensor.data());
  }
  EXPECT_TRUE(ledger.outstanding.empty());
}

TEST(Tensor, RefusesShapesWithoutElementsOrBeyondMemory) {
  EXPECT_EQ(refusal(
                [] {
                  Tensor(Dtype::f32, {4, 0});
                },
                ErrorCode::invalid_argument),
            "tensor: every extent must be at least 1, got 0");
  refusal([] { Tensor(Dtype::f32, {-4}); }, ErrorCode::invalid_argument);
  // The product of all three is 0; that of the first two exceeds 2^63.
  const std::int64_t big = std::int64_t{1} << 40;
  EXPECT_EQ(refusal(
                [&] {
                  Tensor(Dtype::f32, {big, big, 0});
                },
                ErrorCode::invalid_argument),
            "tensor: every extent must be at least 1, got 0");
  refusal([] { Tensor(Dtype::f32, {std::int64_t{1} << 59}); }, ErrorCode::invalid_argument);
  refusal([] { Tensor(Dtype::f32, {std::int64_t{1} << 57}); }, ErrorCode::out_of_memory);
}

TEST(QuantizedTensor, TakesOneBlockOfMemoryAndGivesItBack) {
  Ledger ledger;
  {
    const QuantizedTensor tensor(100, 300, Dtype::e4m3, kBlock1x128, kCpu, ledger.allocator());
    ASSERT_EQ(ledger.outstanding.size(), 1u);
    EXPECT_EQ(ledger.outstanding.begin()->second,
              QuantizedLayout(100, 300, Dtype::e4m3, kBlock1x128).bytes);
  }
  EXPECT_TRUE(ledger.outstanding.empty());
}

TEST(Copy, CopiesDenseTensorsOfOneForm) {
  const Tensor from(Dtype::i32, {2, 3});
  const Tensor to(Dtype::i32, {2, 3});
  for (int i = 0; i < 6; ++i) static_cast<std::int32_t*>(from.data())[i] = i + 1;
  copy(from, to);
  EXPECT_EQ(std::memcmp(from.data(), to.data(), from.bytes()), 0);
  EXPECT_EQ(static_cast<std::int32_t*>(to.data())[5], 6);
}

TEST(Copy, RefusesWhatIsNotAlike) {
  const Tensor a(Dtype::f32, {2, 3});
  const Tensor wider(Dtype::f32, {2, 4});
  const Tensor other(Dtype::i32, {2, 3});
  EXPECT_EQ(refusal([&] { copy(a, wider); }),
            "copy: from and to must have the same dtype and shape, got f32[2, 3] and f32[2, 4]");
  EXPECT_EQ(refusal([&] { copy(a, other); }),
            "copy: from and to must have the same dtype and shape, got f32[2, 3] and i32[2, 3]");
  EXPECT_EQ(refusal([&] { copy(a, make_matrix(wider.data(), Dtype::f32, 2, 3, 4)); }),
            "copy: tensors must be dense, got f32[2, 3] strides [4, 1]");
  void* nothing = nullptr;
  EXPECT_EQ(refusal([&] {
              copy(a, make_view(nothing, Dtype::f32, {2, 3}));
            }),
            "copy: f32[2, 3] has no data");
  EXPECT_NO_THROW(
      copy(make_view(nothing, Dtype::f32, {0, 3}), make_view(nothing, Dtype::f32, {0, 3})));
}

}  // namespace
}  // namespace octet
