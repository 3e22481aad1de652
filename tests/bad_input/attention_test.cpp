// The problems that attention refuses, through C++ and C.
#include "bad_input/both_apis.hpp"
#include "core/message.hpp"

#include <limits>

namespace octet::bad_input {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::invalid_argument;
AttentionProblem good_problem() {
  AttentionProblem problem{
      .batch = 2, .seq_q = 3, .seq_kv = 5, .heads_q = 4, .heads_kv = 2, .dim_qk = 8, .dim_v = 6};
  return problem;
}

void refused(const std::string& message, const auto& change, ErrorCode code = kInvalid) {
  AttentionProblem problem = good_problem();
  change(problem);
  expect_plan_refused(code, message, AttentionForward{problem});
  expect_plan_refused(code, message, AttentionBackward{problem});
}

TEST(AttentionBadInput, RefusesBadHeads) {
  refused("attention: heads_q must be at least 1, got 0", [](auto& p) { p.heads_q = 0; });
  refused("attention: heads_kv must be at least 1, got -1", [](auto& p) { p.heads_kv = -1; });
  refused("attention: heads_q must be a multiple of heads_kv = 3, got 4",
          [](auto& p) { p.heads_kv = 3; });
  refused("attention: heads_q must be a multiple of heads_kv = 8, got 4",
          [](auto& p) { p.heads_kv = 8; });
  refused("attention: dim_qk must be 1 to 65536, got 0", [](auto& p) { p.dim_qk = 0; });
  refused("attention: dim_qk must be 1 to 65536, got -8", [](auto& p) { p.dim_qk = -8; });
  refused("attention: dim_qk must be 1 to 65536, got 65537", [](auto& p) { p.dim_qk = 65537; });
  refused("attention: dim_v must be 1 to 65536, got -1", [](auto& p) { p.dim_v = -1; });
  refused("attention: dim_v must be 1 to 65536, got 65537", [](auto& p) { p.dim_v = 65537; });
}

TEST(AttentionBadInput, RefusesBadSequences) {
  refused("attention: batch must be at least 0, got -1", [](auto& p) { p.batch = -1; });
  refused("attention: seq_q must be at least 0, got -3", [](auto& p) { p.seq_q = -3; });
  refused("attention: seq_kv must be at least 0, got -5", [](auto& p) { p.seq_kv = -5; });
  refused(
      "attention: total_q and total_kv are for sequences with offsets, got 6 and 0 without "
      "offsets_dtype",
      [](auto& p) { p.total_q = 6; });
  refused(
      "attention: total_q and total_kv are for sequences with offsets, got 0 and -8 without "
      "offsets_dtype",
      [](auto& p) { p.total_kv = -8; });
  refused("attention: offsets_dtype must be i32 or i64, got f32",
          [](auto& p) { p.offsets_dtype = Dtype::f32; });
  refused("attention: total_q must be at least 0, got -1", [](auto& p) {
    p.offsets_dtype = Dtype::i32;
    p.total_q = -1;
  });
  refused("attention: total_kv must be at least 0, got -1", [](auto& p) {
    p.offsets_dtype = Dtype::i32;
    p.total_kv = -1;
  });
}

TEST(AttentionBadInput, RefusesBadMasks) {
  refused("attention: mask.left must be -1 (no limit) or 0 to 2^40 keys, got -2",
          [](auto& p) { p.mask.left = -2; });
  refused("attention: mask.left must be -1 (no limit) or 0 to 2^40 keys, got 1099511627777",
          [](auto& p) { p.mask.left = (std::int64_t{1} << 40) + 1; });
  refused("attention: mask.right must be -1 (no limit) or 0 to 2^40 keys, got -2147483648",
          [](auto& p) { p.mask.right = std::numeric_limits<std::int32_t>::min(); });
  refused("attention: mask.align must be bottom_right or top_left, got 0",
          [](auto& p) { p.mask.align = static_cast<MaskAlignment>(0); });
  refused("attention: mask.align must be bottom_right or top_left, got 3",
          [](auto& p) { p.mask.align = static_cast<MaskAlignment>(3); });
}

TEST(AttentionBadInput, RefusesBadDtypesScalesAndDevices) {
  refused("attention: dtype must be f32, f16 or bf16, got e4m3",
          [](auto& p) { p.dtype = Dtype::e4m3; });
  refused("attention: out_dtype must be bf16 (that of q) or f32, got f16",
          [](auto& p) { p.out_dtype = Dtype::f16; });
  refused("attention: scale must be finite, got nan",
          [](auto& p) { p.scale = std::numeric_limits<float>::quiet_NaN(); });
  refused("attention: scale must be finite, got -inf",
          [](auto& p) { p.scale = -std::numeric_limits<float>::infinity(); });
  refused("attention: the CPU is cpu:0, got cpu:1", [](auto& p) { p.device.index = 1; });
  refused(
      text("attention: device cuda:", cuda_device_count(), " is not on this machine, which has ",
           cuda_device_count(), " CUDA devices; device cpu is always there"),
      [](auto& p) {
        p.device = {DeviceType::cuda, cuda_device_count()};
      },
      ErrorCode::no_device);
}

// Where a product of extents would leave 64 bits, or an address would.
TEST(AttentionBadInput, RefusesTensorsBeyondAllAddresses) {
  constexpr auto kHuge = std::int64_t{1} << 40;
  refused(
      "attention: a tensor of 1099511627776 x 1099511627776 has more than 2^58 elements, the most "
      "that octet can address",
      [](auto& p) { p.batch = p.seq_q = kHuge; });
  refused(
      "attention: a tensor of 2 x 9223372036854775807 has more than 2^58 elements, the most that "
      "octet can address",
      [](auto& p) { p.seq_kv = std::numeric_limits<std::int64_t>::max(); });
  refused(
      "attention: a tensor of 2199023255552 x 262144 has more than 2^58 elements, the most that "
      "octet can address",
      [](auto& p) {
        p.seq_q = kHuge;
        p.dim_v = 65536;
      });
  refused(
      "attention: a tensor of 1152921504606846976 x 8 has more than 2^58 elements, the most that "
      "octet can address",
      [](auto& p) { p.heads_q = p.heads_kv = kHuge << 20; });
  refused(
      "attention: a tensor of 1152921504606846976 x 32 has more than 2^58 elements, the most that "
      "octet can address",
      [](auto& p) {
        p.offsets_dtype = Dtype::i32;
        p.total_q = kHuge << 20;
      });
}

// Backward asks for no more than the limit: fewer threads, or else the reference, which needs none.
TEST(AttentionBadInput, AsksForNoMoreWorkspaceThanTheLimit) {
  AttentionProblem problem = good_problem();
  for (const std::size_t limit : {std::size_t{0}, std::size_t{1}, std::size_t{100'000},
                                  std::size_t{10'000'000}, std::size_t{1} << 30}) {
    problem.workspace_limit = limit;
    const auto plan = plan_attention_backward(problem, {.threads = 1024});
    EXPECT_LE(plan.workspace_bytes, limit) << plan.implementation;
    EXPECT_TRUE(limit > 1 || plan.implementation == "cpu_reference") << plan.implementation;
  }
  const std::size_t needed = plan_attention_backward(problem, {.threads = 1}).workspace_bytes;
  if (needed == 0) GTEST_SKIP() << "this CPU has no AVX2";
  problem.workspace_limit = needed - 1;
  expect_error(ErrorCode::unsupported,
               text("attention: cpu_simd, forced by argument, does not take this problem: needs ",
                    needed, " bytes of workspace, workspace_limit is ", needed - 1,
                    "\n  problem: ", describe(problem)),
               [&] { plan_attention_backward(problem, {"cpu_simd"}); });
}

}  // namespace
}  // namespace octet::bad_input
