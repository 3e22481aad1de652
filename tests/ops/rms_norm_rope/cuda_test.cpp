// rms_norm_rope on a CUDA device: its gates on random problems, forward and backward, and positions
// outside the caches.
#include "ops/rms_norm_rope/norm_rope_case.hpp"
#include "support/gates.hpp"
#include "support/on_cuda.hpp"

#include <gtest/gtest.h>

namespace octet::testing {
namespace {

// A few tokens, and as many as take every block through its ring several times.
TEST(RmsNormRopeCuda, PassesItsGatesOnRandomProblems) {
  OCTET_NEEDS_HOPPER();
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    Random random(seed);
    RmsNormRopeProblem problem = random_norm_rope(random, seed <= 60 ? 9 : 6000);
    problem.device = OnCuda::kDevice;
    expect_pass(check_rms_norm_rope(problem, {}), describe(problem));
    if (HasFailure()) return;
  }
}

TEST(RmsNormRopeCuda, PassesItsGatesOnManyTokens) {
  OCTET_NEEDS_HOPPER();
  for (const NormScope norm : {NormScope::row, NormScope::head}) {
    RmsNormRopeProblem problem{.batch = 2,
                               .seq = 1000,
                               .q_heads = 32,
                               .k_heads = 8,
                               .head_dim = 128,
                               .norm = norm,
                               .device = OnCuda::kDevice};
    expect_pass(check_rms_norm_rope(problem, {}), describe(problem));
  }
}

// Heads before tokens and in place, against the CPU: the same sums in another order.
TEST(RmsNormRopeCuda, WorksInPlaceInAnyLayout) {
  OCTET_NEEDS_HOPPER();
  for (const HeadsLayout layout :
       {HeadsLayout::dense, HeadsLayout::packed, HeadsLayout::heads_first}) {
    RmsNormRopeProblem problem{
        .seq = 9, .q_heads = 4, .head_dim = 64, .norm = NormScope::head, .dtype = Dtype::f32};
    Random random(4);
    const RotationData rotation(problem, random);
    const NormRopeCall call(problem, layout, layout);
    call.q.fill(random);
    norm_rope_by("cpu_reference", problem, call, rotation.args());

    OnCuda device;
    const RotationArgs angles{
        device.copy_in(rotation.args().cos), device.copy_in(rotation.args().sin), {}};
    const TensorView q = device.copy_in(call.q.x.view());
    RmsNormRopeForwardArgs args;
    args.q = args.q_out = q;
    args.g_q = device.copy_in(call.q.g);
    args.rstd_q = device.copy_in(call.q.rstd);
    args.rotation = angles;
    problem.device = OnCuda::kDevice;
    const auto plan = plan_rms_norm_rope_forward(problem);
    const Buffer workspace(plan.workspace_bytes, OnCuda::kDevice);
    run(plan, args, {workspace.data(), workspace.bytes()});
    cuda::synchronize(0);
    const NormRopeCall given(problem, layout, layout);
    OnCuda::copy_out(q, given.q.out.view());
    const auto* wanted = static_cast<const float*>(call.q.out.view().data);
    const auto* got = static_cast<const float*>(given.q.out.view().data);
    for_elements(call.q.out.view(), [&](std::int64_t i) {
      EXPECT_NEAR(got[i], wanted[i], 1e-5 * (1 + std::fabs(wanted[i]))) << i;
    });
  }
}

TEST(RmsNormRopeCuda, MakesNanOfATokenWhosePositionIsOutOfRange) {
  OCTET_NEEDS_HOPPER();
  RmsNormRopeProblem problem{.seq = 4, .q_heads = 2, .head_dim = 64};
  problem.rotation = {RopeStyle::rotate_half, 32, 9, false, Dtype::f32, Dtype::i32};
  problem.device = OnCuda::kDevice;
  Random random(1);
  const RotationData rotation(problem, random);
  rotation.set_position(2, 9);
  const NormRopeCall call(problem, HeadsLayout::dense, HeadsLayout::dense);
  call.q.fill(random);
  OnCuda device;
  RmsNormRopeForwardArgs args;
  args.q = device.copy_in(call.q.x.view());
  args.q_out = device.copy_in(call.q.out.view());
  args.g_q = device.copy_in(call.q.g);
  args.rstd_q = device.copy_in(call.q.rstd);
  args.rotation = {device.copy_in(rotation.args().cos), device.copy_in(rotation.args().sin),
                   device.copy_in(rotation.args().positions)};
  const auto plan = plan_rms_norm_rope_forward(problem);
  const Buffer workspace(plan.workspace_bytes, OnCuda::kDevice);
  run(plan, args, {workspace.data(), workspace.bytes()});
  cuda::synchronize(0);
  OnCuda::copy_out(args.q_out, call.q.out.view());
  const TensorView& out = call.q.out.view();
  for_elements(out, [&](std::int64_t i) {
    const bool rotated_of_token = i / 128 == 2 && i % 64 < 32;
    EXPECT_EQ(std::isnan(load_f32(out.data, i, out.dtype)), rotated_of_token) << i;
  });
}

}  // namespace
}  // namespace octet::testing
