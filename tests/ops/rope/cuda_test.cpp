// rope on a CUDA device: the bits of the CPU in every byte of the outputs' memory, and the gates.
#include "ops/rope/rope_case.hpp"
#include "support/device_image.hpp"
#include "support/gates.hpp"
#include "support/on_cuda.hpp"

#include <gtest/gtest.h>

namespace octet::testing {
namespace {

// Heads and the bytes around them, on the device.
struct OnDevice {
  DeviceImage image;
  TensorView view;

  explicit OnDevice(const HeadsMemory& heads)
      : image(heads.memory().data(), heads.memory().bytes()), view(image.at(heads.view())) {}

  void expect_bytes_of(const HeadsMemory& wanted, const std::string& what) const {
    const std::vector<std::uint8_t> bytes = image.download();
    EXPECT_EQ(std::memcmp(bytes.data(), wanted.memory().data(), bytes.size()), 0) << what;
  }
};

RopeProblem on_cuda(RopeProblem problem) {
  problem.device = DeviceImage::kDevice;
  return problem;
}

void run_on_cuda(const RopeProblem& problem, const TensorView& q, const TensorView& k,
                 const TensorView& q_out, const TensorView& k_out, const RotationArgs& rotation,
                 bool inverse = false) {
  OnCuda device;
  const RotationArgs copies{device.copy_in(rotation.cos), device.copy_in(rotation.sin),
                            device.copy_in(rotation.positions)};
  run_rope(on_cuda(problem), {q, k, q_out, k_out, copies, inverse});
  cuda::synchronize(0);
}

TEST(RopeCuda, EqualsTheReferenceInEveryByteOnRandomProblems) {
  OCTET_NEEDS_HOPPER();
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const RandomRope call(seed);
    const RopeProblem& problem = call.problem;
    const RopeHeads& heads = call.heads;
    const bool in_place = call.in_place;
    const OnDevice q(heads.q), k(heads.k), q_out(heads.q_out), k_out(heads.k_out);
    run_on_cuda(problem, in_place ? q_out.view : q.view, in_place ? k_out.view : k.view, q_out.view,
                k_out.view, call.rotation.args(), call.inverse);
    rope_by("cpu_reference", problem, call.args());
    const std::string repeat = "seed " + std::to_string(seed) + ": " + describe(on_cuda(problem));
    q_out.expect_bytes_of(heads.q_out, "q, " + repeat);
    k_out.expect_bytes_of(heads.k_out, "k, " + repeat);
    if (HasFailure()) return;
  }
}

TEST(RopeCuda, PassesItsGates) {
  OCTET_NEEDS_HOPPER();
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    Random random(seed);
    const RopeProblem problem = on_cuda(random_rope(random));
    expect_pass(check_rope(problem, {}), describe(problem));
  }
}

TEST(RopeCuda, MakesNanOfATokenWhosePositionIsOutOfRange) {
  OCTET_NEEDS_HOPPER();
  RopeProblem problem{.batch = 2, .seq = 4, .q_heads = 3, .k_heads = 1, .head_dim = 64};
  for (const Dtype dtype : {Dtype::i32, Dtype::i64}) {
    for (const std::int64_t position : {std::int64_t{9}, std::int64_t{-1}, std::int64_t{1} << 30}) {
      problem.rotation = {RopeStyle::rotate_half, 32, 9, false, Dtype::f32, dtype};
      Random random(1);
      const RotationData rotation(problem, random);
      const RopeHeads heads(problem, HeadsLayout::dense, HeadsLayout::dense);
      fill_normal(heads.q.view(), random);
      fill_normal(heads.k.view(), random);
      rope_by("cpu_reference", problem, heads.args(rotation, false));
      rotation.set_position(6, position);
      const OnDevice q(heads.q), k(heads.k), q_out(heads.q_out), k_out(heads.k_out);
      run_on_cuda(problem, q.view, k.view, q_out.view, k_out.view, rotation.args());
      const RopeHeads given(problem, HeadsLayout::dense, HeadsLayout::dense);
      OnCuda::copy_out(q_out.view, given.q_out.view());
      const TensorView& wanted = heads.q_out.view();
      for_elements(wanted, [&](std::int64_t i) {
        const float value = load_f32(given.q_out.view().data, i, wanted.dtype);
        const bool rotated_of_token = i / (3 * 64) == 6 && i % 64 < 32;
        if (rotated_of_token) {
          EXPECT_TRUE(std::isnan(value)) << i;
        } else {
          EXPECT_EQ(value, load_f32(wanted.data, i, wanted.dtype)) << i;
        }
      });
    }
  }
}

}  // namespace
}  // namespace octet::testing
