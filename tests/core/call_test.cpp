// The list of a call's tensors: what holds for all operators. tests/bad_input asserts the exact
// message of every refusal.
#include "core/call.hpp"

#include "ops/gemm/problem.hpp"
#include "ops/rms_norm/problem.hpp"
#include "support/refusal.hpp"

#include <octet/octet.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

namespace {

thread_local long allocations = 0;

}  // namespace

// Not inlined: GCC would warn that malloc() and free() are a mismatched pair.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace octet {
namespace {

template <class Work>
long allocations_of(const Work& work) {
  const long before = allocations;
  work();
  return allocations - before;
}

TEST(Call, OfARightGemmAllocatesNothing) {
  GemmProblem problem;
  problem.m = problem.n = problem.k = 128;
  problem.a = {Dtype::e4m3, kBlock1x128};
  problem.b = {Dtype::e4m3, kBlock128x128};
  QuantizedTensor a(128, 128, Dtype::e4m3, kBlock1x128);
  QuantizedTensor b(128, 128, Dtype::e4m3, kBlock128x128);
  Tensor d(problem.out_dtype, {128, 128});
  Buffer scratch(256);
  const GemmArgs args{a, b, d};
  EXPECT_EQ(allocations_of([&] { check(problem, args, 256, {scratch.data(), 256}); }), 0);
}

// There is no padding of scales to find; the sanitizers watch the search.
TEST(Call, TakesAnOperandWithoutScalesThatOwnsItsPadding) {
  GemmProblem problem{.m = 4, .n = 4, .k = 4};
  problem.a = problem.b = {Dtype::bf16, {}, Major::k};
  Tensor a(Dtype::bf16, {4, 4}), b(Dtype::bf16, {4, 4}), d(problem.out_dtype, {4, 4});
  GemmArgs args{a.view(), b.view(), d};
  args.a.owns_padding = true;
  EXPECT_NO_THROW(check(problem, args, 0, {}));
}

TEST(Call, OfARightNormWithFp8CopiesAllocatesNothing) {
  RmsNormProblem problem;
  problem.rows = 128;
  problem.cols = 256;
  problem.residual = true;
  problem.fp8 = Fp8Output{};
  Tensor x(problem.dtype, {128, 256}), residual(problem.dtype, {128, 256});
  Tensor g(problem.weight_dtype, {256}), sum(problem.dtype, {128, 256}), rstd(Dtype::f32, {128});
  QuantizedTensor out(128, 256, Dtype::e4m3, kBlock1x128);
  QuantizedTensor transposed(256, 128, Dtype::e4m3, kBlock1x128);
  RmsNormForwardArgs args;
  args.x = x;
  args.residual = residual;
  args.g = g;
  args.sum = sum;
  args.rstd = rstd;
  args.fp8 = {out, transposed};
  EXPECT_EQ(allocations_of([&] { (void)check(problem, args, 0, {}); }), 0);
}

TEST(Call, ClearsWhatTheProblemDoesNotUse) {
  Tensor x(Dtype::f32, {4});
  TensorView used = x;
  TensorView unused = x;
  Call call("op", kCpu);
  call.reads_if(true, "used", used, TensorForm(Dtype::f32, {4}, "[n]"));
  call.writes_if(false, "unused", unused, TensorForm(Dtype::f32, {4}, "[n]"));
  call.check_apart(0, {});  // they would overlap
  EXPECT_EQ(used.data, x.data());
  EXPECT_EQ(unused.data, nullptr);
  EXPECT_EQ(unused.rank, 0);
}

TEST(Call, AllowsOnlyTheSameViewInPlace) {
  const TensorForm form(Dtype::f32, {4}, "[n]");
  Tensor memory(Dtype::f32, {8});
  const TensorView x = make_view(memory.data(), Dtype::f32, {4});
  const TensorView shifted = make_view(static_cast<float*>(memory.data()) + 1, Dtype::f32, {4});
  const auto run_into = [&](const TensorView& out, std::string_view replaced_by) {
    Call call("op", kCpu);
    call.reads("x", x, form, replaced_by);
    call.writes("out", out, form);
    call.check_apart(0, {});
  };
  EXPECT_NO_THROW(run_into(x, "out"));
  EXPECT_EQ(refusal([&] { run_into(x, "other"); }),
            "op: output out overlaps x: their memory must be apart");
  EXPECT_EQ(refusal([&] { run_into(shifted, "out"); }),
            "op: output out overlaps x: their memory must be apart");
}

TEST(Call, ChecksOutputsAsTheyAreListed) {
  const TensorForm form(Dtype::f32, {4}, "[n]");
  Tensor x(Dtype::f32, {4}), y(Dtype::f32, {4});
  const TensorView in = x;
  const TensorView good = y;
  Call call("op", kCpu);
  call.reads("x", in, form);
  call.writes("y", good, form);
  EXPECT_NO_THROW(call.check_apart());
  call.writes("z", good, form);
  EXPECT_EQ(refusal([&] { call.check_apart(); }),
            "op: output z overlaps y: their memory must be apart");
}

TEST(Call, HasRoomForSixteenInputs) {
  const TensorForm form(Dtype::f32, {4}, "[n]");
  Tensor x(Dtype::f32, {4});
  const TensorView in = x;
  Call call("op", kCpu);
  for (int i = 0; i < 16; ++i) call.reads("x", in, form);
  EXPECT_EQ(refusal([&] { call.reads("y", in, form); }, ErrorCode::internal),
            "op: y is one more than the 16 inputs or outputs that a Call has room for");
}

}  // namespace
}  // namespace octet
