// Refusals and their messages, the description of a problem, and calls with nothing to do.
#include "ops/rope/rope_case.hpp"
#include "support/refusal.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace octet::testing {
namespace {

RopeProblem small() {
  RopeProblem problem{.batch = 2, .seq = 4, .q_heads = 3, .k_heads = 1, .head_dim = 8};
  return problem;
}

std::string plan_refusal(const std::function<void(RopeProblem&)>& change) {
  RopeProblem problem = small();
  change(problem);
  return refusal([&] { plan_rope_forward(problem); });
}

TEST(Rope, RefusesProblemsThatCannotBeMeant) {
  EXPECT_EQ(plan_refusal([](auto& p) { p.head_dim = 127; }),
            "rope: head_dim must be even, got 127");
  EXPECT_EQ(plan_refusal([](auto& p) { p.head_dim = 0; }),
            "rope: head_dim must be at least 1, got 0");
  EXPECT_EQ(plan_refusal([](auto& p) { p.rotation.rotary_dim = 3; }),
            "rope: rotary_dim must be even and at most head_dim = 8, got 3");
  EXPECT_EQ(plan_refusal([](auto& p) { p.rotation.rotary_dim = 10; }),
            "rope: rotary_dim must be even and at most head_dim = 8, got 10");
  EXPECT_EQ(plan_refusal([](auto& p) { p.rotation.rotary_dim = -2; }),
            "rope: rotary_dim must be even and at most head_dim = 8, got -2");
  EXPECT_EQ(plan_refusal([](auto& p) { p.rotation.cache_rows = 3; }),
            "rope: cache_rows must be at least seq = 4 where no positions are given, got 3");
  EXPECT_EQ(plan_refusal([](auto& p) { p.rotation.cache_rows = -1; }),
            "rope: cache_rows must be at least 0, got -1");
  EXPECT_EQ(plan_refusal([](auto& p) { p.rotation.positions_dtype = Dtype::f32; }),
            "rope: positions_dtype must be i32 or i64, got f32");
  EXPECT_EQ(plan_refusal([](auto& p) { p.rotation.cache_dtype = Dtype::e4m3; }),
            "rope: cache_dtype must be f32, f16 or bf16, got e4m3");
  EXPECT_EQ(plan_refusal([](auto& p) { p.rotation.style = static_cast<RopeStyle>(7); }),
            "rope: style must be rotate_half or interleaved, got 7");
  EXPECT_EQ(plan_refusal([](auto& p) { p.dtype = Dtype::i32; }),
            "rope: dtype must be f32, f16 or bf16, got i32");
  EXPECT_EQ(plan_refusal([](auto& p) { p.q_heads = 0; }),
            "rope: q_heads must be at least 1, got 0");
  EXPECT_EQ(plan_refusal([](auto& p) { p.k_heads = -1; }),
            "rope: k_heads must be at least 0, got -1");
  EXPECT_EQ(plan_refusal([](auto& p) { p.batch = -1; }), "rope: batch must be at least 0, got -1");
  EXPECT_EQ(plan_refusal([](auto& p) {
              p.batch = std::int64_t{1} << 40;
              p.seq = 1 << 30;
            }),
            "rope: a tensor of 1099511627776 x 1073741824 has more than 2^57 elements, the most "
            "that octet can address");
}

// A valid call that a test breaks.
struct Call {
  RopeProblem problem;
  Random random{1};
  RotationData rotation;
  RopeHeads heads;
  RotateArgs args;

  explicit Call(const RopeProblem& given)
      : problem(given),
        rotation(given, random),
        heads(given, HeadsLayout::dense, HeadsLayout::dense),
        args(heads.args(rotation, false)) {}

  std::string refused() {
    return refusal([&] { run_rope(problem, args); });
  }
};

std::string run_refusal(const std::function<void(Call&)>& spoil) {
  Call call(small());
  spoil(call);
  return call.refused();
}

TEST(Rope, RefusesTensorsThatDoNotFit) {
  EXPECT_EQ(run_refusal([](Call& c) { c.args.q.shape[2] = 2; }),
            "rope: q must be [batch, seq, q_heads, head_dim] = [2, 4, 3, 8], got [2, 4, 2, 8]");
  EXPECT_EQ(run_refusal([](Call& c) { c.args.k_out.rank = 3; }),
            "rope: k_out must have rank 4, [batch, seq, k_heads, head_dim], got rank 3");
  EXPECT_EQ(run_refusal([](Call& c) { c.args.k = {}; }),
            "rope: k must have rank 4, [batch, seq, k_heads, head_dim], got rank 0");
  EXPECT_EQ(run_refusal([](Call& c) { c.args.k.dtype = Dtype::f16; }),
            "rope: k must be bf16, got f16");
  EXPECT_EQ(run_refusal([](Call& c) { c.args.q.data = nullptr; }), "rope: q has a null pointer");
  EXPECT_EQ(run_refusal([](Call& c) { c.args.q.strides[3] = 2; }),
            "rope: q must have a contiguous last dimension (stride 1), got "
            "bf16[2, 4, 3, 8] strides [96, 24, 8, 2]");
  EXPECT_EQ(run_refusal([](Call& c) { c.args.q_out.strides[1] = 8; }),
            "rope: elements of q_out share memory: bf16[2, 4, 3, 8] strides [96, 8, 8, 1]");
  EXPECT_EQ(run_refusal([](Call& c) { c.args.rotation.cos.shape[0] = 3; }),
            "rope: cos must be [cache_rows, rotary_dim / 2] = [4, 4], got [3, 4]");
  EXPECT_EQ(run_refusal([](Call& c) { c.args.rotation.sin.shape[1] = 8; }),
            "rope: sin must be [cache_rows, rotary_dim / 2] = [4, 4], got [4, 8]");
  EXPECT_EQ(run_refusal([](Call& c) { c.problem.rotation.full_cache = true; }),
            "rope: cos must be [cache_rows, rotary_dim] = [4, 8], got [4, 4]");
  EXPECT_EQ(run_refusal([](Call& c) { c.args.rotation.sin.dtype = Dtype::f16; }),
            "rope: sin must be f32, got f16");
  EXPECT_EQ(run_refusal([](Call& c) { c.problem.rotation.positions_dtype = Dtype::i32; }),
            "rope: positions must have rank 2, [batch, seq], got rank 0");
}

TEST(Rope, RefusesOutputsThatOverlap) {
  EXPECT_EQ(run_refusal([](Call& c) { c.args.q_out.data = c.args.k.data; }),
            "rope: output q_out overlaps k: their memory must be apart");
  EXPECT_EQ(run_refusal([](Call& c) { c.args.k_out.data = c.args.q_out.data; }),
            "rope: output k_out overlaps q_out: their memory must be apart");
  EXPECT_EQ(run_refusal([](Call& c) {
              c.args.q_out.data = static_cast<std::uint16_t*>(c.args.q.data) + 8;
            }),
            "rope: output q_out overlaps q: their memory must be apart");
  EXPECT_EQ(run_refusal([](Call& c) { c.args.k_out.data = c.args.rotation.cos.data; }),
            "rope: output k_out overlaps cos: their memory must be apart");
}

TEST(Rope, RefusesAPositionOutOfRangeBeforeItWritesAnything) {
  for (const Dtype dtype : {Dtype::i32, Dtype::i64}) {
    for (const std::int64_t position : {std::int64_t{2048}, std::int64_t{4096}, std::int64_t{-1}}) {
      RopeProblem problem = small();
      problem.rotation.positions_dtype = dtype;
      problem.rotation.cache_rows = 2048;
      Call call(problem);
      const RopeHeads before(problem, HeadsLayout::dense, HeadsLayout::dense);
      call.rotation.set_position(1 * problem.seq + 3, position);
      EXPECT_EQ(call.refused(), "rope: positions[1, 3] is " + std::to_string(position) +
                                    ", cos and sin have 2048 rows");
      EXPECT_TRUE(call.heads.q_out == before.q_out && call.heads.k_out == before.k_out);
    }
  }
}

TEST(Rope, TakesOneRowOfPositionsForAllBatches) {
  RopeProblem problem = small();
  problem.rotation.positions_dtype = Dtype::i64;
  problem.rotation.cache_rows = 9;
  Call each(problem);
  Call shared(problem);
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t s = 0; s < problem.seq; ++s) {
      each.rotation.set_position(b * problem.seq + s, 2 * s + 1);
      shared.rotation.set_position(s, 2 * s + 1);
    }
  }
  shared.args.rotation.positions.strides[0] = 0;
  fill_normal(each.heads.q.view(), each.random);
  shared.heads.q.copy_from(each.heads.q);
  run_rope(problem, each.args);
  run_rope(problem, shared.args);
  EXPECT_TRUE(each.heads.q_out == shared.heads.q_out);
}

TEST(Rope, IgnoresKWhereThereIsNone) {
  RopeProblem problem = small();
  problem.k_heads = 0;
  Call call(problem);
  const HeadsMemory none(problem.dtype, {2, 5, 1, 8}, HeadsLayout::packed);  // of another shape
  const HeadsMemory untouched(problem.dtype, {2, 5, 1, 8}, HeadsLayout::packed);
  call.args.k = call.args.k_out = none.view();
  run_rope(problem, call.args);
  EXPECT_TRUE(none == untouched);
}

TEST(Rope, HasNothingToDoWithoutTokens) {
  for (const auto& [batch, seq] : {std::pair<std::int64_t, std::int64_t>{0, 4}, {2, 0}}) {
    RopeProblem problem = small();
    problem.batch = batch;
    problem.seq = seq;
    void* nothing = nullptr;
    const TensorView q = make_view(nothing, problem.dtype, {batch, seq, 3, 8});
    const TensorView k = make_view(nothing, problem.dtype, {batch, seq, 1, 8});
    const Tensor cache(Dtype::f32, {4, 4});
    TensorView angles = cache;
    angles.shape[0] = seq;
    run_rope(problem, {q, k, q, k, {angles, angles, {}}});
  }
}

TEST(Rope, DescribesItselfAsACommandLine) {
  RopeProblem problem{.batch = 8, .seq = 2048, .q_heads = 32, .head_dim = 128};
  EXPECT_EQ(describe(problem), "rope --shape 8x2048x4096 --head-dim 128 --dtype bf16 --device cpu");
  problem.k_heads = 8;
  problem.rotation = {RopeStyle::interleaved, 64, 4096, true, Dtype::bf16, Dtype::i64};
  EXPECT_EQ(describe(problem),
            "rope --shape 8x2048x4096 --head-dim 128 --kv-heads 8 --dtype bf16 --style interleaved "
            "--rotary-dim 64 --cache-rows 4096 --full-cache --cache bf16 --positions i64 "
            "--device cpu");
}

}  // namespace
}  // namespace octet::testing
