// Running out of memory: an allocator that returns null, impossible sizes, and an operator new that
// fails at each allocation of a C call in turn.
#include "bad_input/both_apis.hpp"
#include "core/message.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace {

// Number of allocations of this thread before one fails; negative: none fails.
thread_local long allocations_left = -1;

void* counted_allocation(std::size_t bytes) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return counted_allocation(bytes); }
void* operator new[](std::size_t bytes) { return counted_allocation(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

// With the address sanitizer an oversized allocation must fail as it does without it.
extern "C" OCTET_API const char* __asan_default_options() {  // NOLINT: the sanitizer's own name
  return "allocator_may_return_null=1";
}

namespace octet::bad_input {
namespace {

// Serves a given number of allocations, then fails; counts the live ones.
struct Stingy {
  int gifts = 0;
  int held = 0;

  Allocator allocator() {
    return {[](std::size_t bytes, Device, void* user) -> void* {
              auto* self = static_cast<Stingy*>(user);
              if (self->gifts == 0) return nullptr;
              --self->gifts;
              ++self->held;
              return std::aligned_alloc(kAlignment,
                                        (bytes + kAlignment - 1) / kAlignment * kAlignment);
            },
            [](void* memory, std::size_t, Device, void* user) {
              --static_cast<Stingy*>(user)->held;
              std::free(memory);
            },
            this};
  }
};

TEST(MemoryBadInput, AnAllocatorThatGivesNothingIsOutOfMemory) {
  Stingy stingy;
  expect_error(ErrorCode::out_of_memory, "buffer: 100 bytes on cpu could not be allocated",
               [&] { Buffer(100, kCpu, stingy.allocator()); });
  expect_error(ErrorCode::out_of_memory, "buffer: 48 bytes on cpu could not be allocated", [&] {
    Tensor(Dtype::f32, {3, 4}, kCpu, stingy.allocator());
  });
  expect_error(ErrorCode::out_of_memory, "buffer: 768 bytes on cpu could not be allocated",
               [&] { QuantizedTensor(3, 4, Dtype::e4m3, kBlock1x128, kCpu, stingy.allocator()); });
}

TEST(MemoryBadInput, TheLayerGivesBackWhatItGotBeforeTheMemoryRanOut) {
  Fp8LinearProblem problem;
  problem.m = problem.n = problem.k = 8;
  for (int gifts = 0; gifts < 3; ++gifts) {
    Stingy stingy{gifts};
    EXPECT_THROW(Fp8Linear(problem, {}, stingy.allocator()), Error) << gifts;
    EXPECT_EQ(stingy.held, 0) << "leaked after " << gifts << " allocations";
  }
  Stingy enough{3};
  {
    const Fp8Linear layer(problem, {}, enough.allocator());
    EXPECT_EQ(enough.held, 3);
  }
  EXPECT_EQ(enough.held, 0);
}

TEST(MemoryBadInput, SizesNoMachineHasAreOutOfMemory) {
  expect_error(ErrorCode::out_of_memory,
               "buffer: 4503599627370496 bytes on cpu could not be allocated", [] {
                 Tensor(Dtype::f32, {1 << 20, std::int64_t{1} << 30});
               });
  expect_error(ErrorCode::invalid_argument,
               "tensor: a tensor of 4611686018427387904 x 1 has more than 2^58 elements, the most "
               "that octet can address",
               [] {
                 Tensor(Dtype::f32, {std::int64_t{1} << 31, std::int64_t{1} << 31});
               });
}

TEST(MemoryBadInput, AllocatorsMustBeWhole) {
  Stingy stingy;
  Allocator half = stingy.allocator();
  half.release = nullptr;
  expect_error(ErrorCode::invalid_argument,
               "buffer: an allocator must have both allocate and release, or neither",
               [&] { Buffer(1, kCpu, half); });
}

TEST(MemoryBadInput, OwningTensorsRefuseBadShapes) {
  expect_error(ErrorCode::invalid_argument, "tensor: every extent must be at least 1, got 0", [] {
    Tensor(Dtype::f32, {4, 0});
  });
  expect_error(ErrorCode::invalid_argument, "tensor: no dtype has the number 77",
               [] { Tensor(static_cast<Dtype>(77), {4}); });
  expect_error(ErrorCode::invalid_argument, "make_view: rank must be at most 6, got 7", [] {
    Tensor(Dtype::f32, {1, 1, 1, 1, 1, 1, 1});
  });
}

// Two views of the same form, which no other check of copy() tells from good ones.
TEST(MemoryBadInput, CopyRefusesWhatIsNoTensor) {
  float from[4] = {1, 2, 3, 4};
  float to[4] = {};
  const auto expect_copy_error = [&](const char* message, TensorView view) {
    TensorView other = view;
    view.data = from;
    other.data = to;
    expect_error(ErrorCode::invalid_argument, message, [&] { copy(view, other); });
    EXPECT_EQ(to[0], 0) << message;
  };
  TensorView view = make_view(from, Dtype::f32, {4});
  view.dtype = static_cast<Dtype>(77);
  expect_copy_error("copy: no dtype has the number 77", view);
  view.dtype = static_cast<Dtype>(-1);
  expect_copy_error("copy: no dtype has the number -1", view);
  expect_copy_error("copy: every extent must be at least 0, got -4",
                    make_view(from, Dtype::f32, {-4}));
  view = make_view(from, Dtype::f32, {1, 1});
  view.shape = {std::int64_t{1} << 32, std::int64_t{1} << 32};
  expect_copy_error("copy: shape [4294967296, 4294967296] passes 2^63 elements", view);
  expect_copy_error(
      "copy: a tensor of 4611686018427387904 x 1 has more than 2^58 elements, the most that octet "
      "can address",
      make_view(from, Dtype::f32, {std::int64_t{1} << 62}));
}

TEST(MemoryBadInput, CopyOfAnEmptyTensorDoesNothing) {
  EXPECT_NO_THROW(copy(make_view(static_cast<void*>(nullptr), Dtype::f32, {0, 4}),
                       make_view(static_cast<void*>(nullptr), Dtype::f32, {0, 4})));
}

// Whichever allocation inside a C call fails, the caller gets a status and a message, never a plan.
TEST(MemoryBadInput, EveryAllocationOfACPlanMayFail) {
  Fp8LinearProblem problem;
  problem.m = problem.n = problem.k = 8;
  const octet_fp8_linear_problem c = to_c(problem);
  octet_plan* plan = nullptr;
  ASSERT_EQ(octet_make_fp8_linear_forward_plan(&c, nullptr, &plan), OCTET_OK);
  octet_destroy_plan(plan);
  int failures = 0;
  for (long n = 0; n < 10000; ++n) {
    allocations_left = n;
    const octet_status status = octet_make_fp8_linear_forward_plan(&c, nullptr, &plan);
    allocations_left = -1;
    if (status == OCTET_OK) break;
    ++failures;
    ASSERT_EQ(status, OCTET_OUT_OF_MEMORY) << octet_last_error();
    ASSERT_EQ(plan, nullptr);
    ASSERT_STRNE(octet_last_error(), "");
  }
  EXPECT_GT(failures, 10);
  ASSERT_NE(plan, nullptr);
  octet_destroy_plan(plan);
}

// The reference of attention allocates inside its tasks, from where no error may escape.
TEST(MemoryBadInput, EveryAllocationOfARunOfAttentionMayFail) {
  const AttentionProblem problem{
      .seq_q = 2, .seq_kv = 2, .heads_q = 2, .heads_kv = 1, .dim_qk = 4, .dtype = Dtype::f32};
  const Tensor q(Dtype::f32, {1, 2, 2, 4}), k(Dtype::f32, {1, 2, 1, 4}), lse(Dtype::f32, {1, 2, 2}),
      dq(Dtype::f32, {1, 2, 2, 4}), dk(Dtype::f32, {1, 2, 1, 4}), dv(Dtype::f32, {1, 2, 1, 4});
  const AttentionInputs inputs{q, k, k, {}, {}, {}};
  for (const char* backend : {"", "cpu_reference"}) {
    const auto plan = plan_attention_backward(problem, {.backend = backend, .threads = 1});
    const Buffer workspace(plan.workspace_bytes);
    int failures = 0;
    for (bool done = false; !done; ++failures) {
      allocations_left = failures;
      try {
        run(plan, {inputs, q, lse, q, {}, dq, dk, dv, {}}, {workspace.data(), workspace.bytes()});
        done = true;
      } catch (const std::bad_alloc&) {
      }
      allocations_left = -1;
      ASSERT_LT(failures, 10000);
    }
    EXPECT_GT(failures, 2) << plan.implementation;
  }
}

// Sanitizers have an allocator of their own, which ends the process where malloc returns null.
#ifndef OCTET_SANITIZED
// Takes all memory the process may have, down to the last small block.
void exhaust_memory() {
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = 1;  // nothing more is mapped
  setrlimit(RLIMIT_AS, &limit);
  for (std::size_t bytes = 1 << 20; bytes >= 8; bytes /= 2) {
    while (std::malloc(bytes) != nullptr) {
    }
  }
}

TEST(MemoryBadInput, TheFirstErrorOfAThreadNeedsNoMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that had no error before
  EXPECT_EXIT(
      {
        exhaust_memory();
        octet_plan* plan = nullptr;
        const octet_status status = octet_make_gemm_plan(nullptr, nullptr, &plan);
        const bool told = std::strstr(octet_last_error(), "out of memory") != nullptr;
        _exit(status == OCTET_OUT_OF_MEMORY && told ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace octet::bad_input
