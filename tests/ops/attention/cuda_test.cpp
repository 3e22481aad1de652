// The Hopper forward: exact results first, then against the CPU, over masks, head sizes, layouts and ragged
// sequences. Outputs and workspaces are poisoned, and rows behind the last sequence are NaN.
#include "ops/attention/attention_case.hpp"
#include "ops/attention/sm90/forward/forward.hpp"
#include "support/on_cuda.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace octet::testing {
namespace {

struct Lengths {
  std::int64_t queries, keys;
};
constexpr Lengths kLengths[] = {{1, 1},     {63, 65},   {65, 63},   {128, 128},
                                {127, 129}, {193, 191}, {200, 700}, {700, 200}};
constexpr Lengths kHeads[] = {{64, 64}, {128, 128}, {192, 128}, {40, 64}, {96, 72}, {136, 128}};
constexpr AttentionMask kMasks[] = {{},       kCausalMask, {kNoWindow, 0, MaskAlignment::top_left},
                                    {100, 0}, {30, 70},    {0, kNoWindow, MaskAlignment::top_left}};

AttentionProblem problem_of(Lengths lengths, Lengths dims, const AttentionMask& mask = {},
                            Dtype dtype = Dtype::bf16) {
  return {.batch = 2,
          .seq_q = lengths.queries,
          .seq_kv = lengths.keys,
          .heads_q = 4,
          .heads_kv = 2,
          .dim_qk = dims.queries,
          .dim_v = dims.keys,
          .dtype = dtype,
          .mask = mask};
}

// The configurations that are compiled for a problem.
std::vector<std::string> configurations(const AttentionProblem& problem) {
  std::vector<std::string> names;
  for (const Sm90AttentionForwardConfig& config : sm90_attention_forward_configs()) {
    if (sm90_attention_forward_fits(completed(problem), config)) names.push_back(name(config));
  }
  return names;
}

// Runs a forward on device copies of these views; out and lse come back.
void run_on_cuda(AttentionProblem problem, const AttentionForwardArgs& host,
                 const std::string& configuration = "") {
  problem.device = OnCuda::kDevice;
  OnCuda cuda;
  AttentionForwardArgs args;
  args.inputs = {cuda.copy_in(host.inputs.q),         cuda.copy_in(host.inputs.k),
                 cuda.copy_in(host.inputs.v),         cuda.copy_in(host.inputs.sink),
                 cuda.copy_in(host.inputs.offsets_q), cuda.copy_in(host.inputs.offsets_kv)};
  args.out = cuda.copy_in(host.out);
  args.lse = cuda.copy_in(host.lse);
  const AttentionForwardPlan plan =
      plan_attention_forward(problem, {"cuda_sm90_wgmma", 0, configuration});
  const std::vector<std::uint8_t> poison(plan.workspace_bytes, 0xFF);
  const Buffer workspace(plan.workspace_bytes, OnCuda::kDevice);
  cuda::copy(workspace.data(), poison.data(), poison.size(), 0);
  run(plan, args, {workspace.data(), workspace.bytes()});
  cuda::synchronize(0);
  OnCuda::copy_out(args.out, host.out);
  OnCuda::copy_out(args.lse, host.lse);
}

// What a forward on the GPU leaves in `call`, against the CPU's `wanted`.
void expect_near(const AttentionCall& call, const AttentionCall& wanted, const std::string& way) {
  const std::string what = describe(call.problem) + " " + way;
  const double more = call.problem.dtype == Dtype::f16 ? 12 : 0;
  ASSERT_GT(snr_db(call.out, wanted.out), 49.5 + more) << what;
  for (std::int64_t i = 0; i < elements(wanted.lse); ++i) {
    const double w = element(wanted.lse, i), g = element(call.lse, i);
    ASSERT_TRUE(w == g || std::abs(g - w) <= 2e-5 * std::max(1.0, std::abs(w)))
        << what << ": lse " << i << " is " << g << ", wanted " << w;
  }
  // An element is a mean of values whose weights are rounded, by half an ulp, and is rounded itself.
  double largest = 0;
  for (std::int64_t i = 0; i < elements(call.v); ++i) {
    const double value = std::abs(element(call.v, i));
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  const double unit = call.problem.dtype == Dtype::f16 ? 1.0 / 1024 : 1.0 / 128;
  for (std::int64_t i = 0; i < elements(wanted.out); ++i) {
    ASSERT_NEAR(element(call.out, i), element(wanted.out, i), unit * largest) << what << ": " << i;
  }
}

// Every configuration against the CPU.
void expect_near_cpu(const AttentionCall& call) {
  const AttentionCall wanted(call.problem);
  AttentionForwardArgs args = call.forward();
  args.out = wanted.out;
  args.lse = wanted.lse;
  run_with_workspace(plan_attention_forward(call.problem, {"cpu_simd"}), args);
  for (const std::string& configuration : configurations(call.problem)) {
    poison(call.out);
    poison(call.lse);
    run_on_cuda(call.problem, call.forward(), configuration);
    expect_near(call, wanted, configuration);
  }
}

void expect_pass(const AttentionProblem& problem, std::uint64_t seed = 1) {
  const AttentionCall call(problem);
  call.fill(seed);
  expect_near_cpu(call);
}

TEST(AttentionForwardCuda, AKeyFarAboveAllOthersIsReadAlone) {
  OCTET_NEEDS_HOPPER();
  // Key j is the code of j in +-1, and a query has 64 times that of the key it wants: one more equal bit is
  // 256 more, so that all other keys vanish. Queries want a permutation of the keys they see.
  constexpr int kBits = 10;
  for (const Lengths dims : kHeads) {
    for (const Lengths lengths : kLengths) {
      for (const AttentionMask& mask : kMasks) {
        AttentionProblem problem = problem_of(lengths, dims, mask);
        problem.scale = 2;
        const AttentionCall call(problem);
        for (const HostTensor* input : {&call.q, &call.k}) {
          std::memset(input->data(), 0, input->bytes());
        }
        const auto place = [](const HostTensor& tensor, std::int64_t b, std::int64_t i,
                              std::int64_t h) {
          const TensorView& view = tensor.view();
          return b * view.strides[0] + i * view.strides[1] + h * view.strides[2];
        };
        const auto bit = [](std::int64_t j, int n) { return (j >> n & 1) != 0 ? 1 : -1; };
        const SequenceMask sees(mask, lengths.queries, lengths.keys);
        const auto wanted_key = [&](std::int64_t b, std::int64_t i, std::int64_t h) {
          const IndexRange keys = sees.keys_of(i);
          if (keys.empty()) return std::int64_t{-1};
          return keys.begin + (i * 37 + b * 11 + h * 5) % (keys.end - keys.begin);
        };
        for (std::int64_t n = 0; n < elements(call.v); ++n) {
          set(call.v, n, static_cast<double>(n * 37 % 251 - 125));
        }
        for (std::int64_t b = 0; b < 2; ++b) {
          for (std::int64_t j = 0; j < lengths.keys; ++j) {
            for (std::int64_t h = 0; h < 2; ++h) {
              for (int n = 0; n < kBits; ++n) set(call.k, place(call.k, b, j, h) + n, bit(j, n));
            }
          }
          for (std::int64_t i = 0; i < lengths.queries; ++i) {
            for (std::int64_t h = 0; h < 4; ++h) {
              const std::int64_t j = std::max<std::int64_t>(0, wanted_key(b, i, h));
              for (int n = 0; n < kBits; ++n) {
                set(call.q, place(call.q, b, i, h) + n, 64 * bit(j, n));
              }
            }
          }
        }
        for (const std::string& configuration : configurations(problem)) {
          run_on_cuda(problem, call.forward(), configuration);
          for (std::int64_t b = 0; b < 2; ++b) {
            for (std::int64_t i = 0; i < lengths.queries; ++i) {
              for (std::int64_t h = 0; h < 4; ++h) {
                const std::int64_t j = wanted_key(b, i, h);
                const double lse = element(call.lse, (b * 4 + h) * lengths.queries + i);
                if (j < 0) {
                  ASSERT_EQ(lse, -INFINITY) << describe(problem) << " " << configuration;
                } else {
                  ASSERT_NEAR(lse, 2 * 64 * kBits, 1e-3)
                      << describe(problem) << " " << configuration;
                }
                for (std::int64_t c = 0; c < problem.dim_v; ++c) {
                  const double wanted = j < 0 ? 0 : element(call.v, place(call.v, b, j, h / 2) + c);
                  ASSERT_EQ(element(call.out, place(call.out, b, i, h) + c), wanted)
                      << describe(problem) << " " << configuration << ": query " << i << ", key "
                      << j;
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST(AttentionForwardCuda, EqualScoresOfAPowerOfTwoOfKeysShareTheProbability) {
  OCTET_NEEDS_HOPPER();
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    for (const std::int64_t keys : {16, 128, 256}) {
      // q is 0, and query i sees keys i to i + keys - 1.
      AttentionProblem problem = problem_of({300, 299 + keys}, {128, 128}, {keys - 1, 0}, dtype);
      problem.out_dtype = Dtype::f32;
      const AttentionCall call(problem);
      std::memset(call.q.data(), 0, call.q.bytes());
      Random random(1);
      fill_normal(call.k, random);
      for (std::int64_t n = 0; n < elements(call.v); ++n) {
        set(call.v, n, static_cast<double>(n * 7 % 13 - 6));
      }
      run_on_cuda(problem, call.forward());
      const std::int64_t stride = problem.heads_kv * problem.dim_v;
      for (std::int64_t b = 0; b < 2; ++b) {
        for (std::int64_t h = 0; h < 4; ++h) {
          for (std::int64_t c = 0; c < problem.dim_v; ++c) {
            const std::int64_t first = b * problem.seq_kv * stride + h / 2 * problem.dim_v + c;
            double sum = 0;
            for (std::int64_t j = 0; j < keys; ++j) sum += element(call.v, first + j * stride);
            for (std::int64_t i = 0; i < problem.seq_q; ++i) {
              ASSERT_EQ(element(call.out, ((b * 300 + i) * 4 + h) * problem.dim_v + c),
                        sum / static_cast<double>(keys))
                  << "query " << i;
              if (i + 1 == problem.seq_q) break;
              sum += element(call.v, first + (i + keys) * stride) -
                     element(call.v, first + i * stride);
            }
          }
        }
      }
    }
  }
}

TEST(AttentionForwardCuda, IsNearTheCpu) {
  OCTET_NEEDS_HOPPER();
  std::uint64_t seed = 0;
  for (const Lengths dims : kHeads) {
    for (const Lengths lengths : kLengths) {
      for (const AttentionMask& mask : kMasks) {
        AttentionProblem problem = problem_of(lengths, dims, mask);
        ++seed;
        if (seed % 2 == 0) problem.dtype = Dtype::f16;
        if (seed % 3 == 0) problem.sink = true;
        if (seed % 5 == 0) problem.scale = -0.2f;
        if (seed % 7 == 0) problem.out_dtype = Dtype::f32;
        expect_pass(problem, seed);
      }
    }
  }
}

TEST(AttentionForwardCuda, IsNearTheCpuWithManyTilesAndHeads) {
  OCTET_NEEDS_HOPPER();
  for (const Lengths dims : {Lengths{64, 64}, {128, 128}, {192, 128}}) {
    AttentionProblem problem = problem_of({1100, 1300}, dims, kCausalMask);
    problem.batch = 3;
    problem.heads_q = 12;
    problem.heads_kv = 1;
    expect_pass(problem);
    problem.mask = {};
    problem.heads_q = problem.heads_kv = 9;
    expect_pass(problem);
  }
}

TEST(AttentionForwardCuda, ScoresFarFromZeroOverflowNowhere) {
  OCTET_NEEDS_HOPPER();
  const AttentionProblem problem = problem_of({300, 300}, {128, 128}, kCausalMask);
  const AttentionCall call(problem);
  call.fill(5);
  // Scores near -120 and, for one key, near 1e4.
  for (std::int64_t n = 0; n < elements(call.q); ++n) set(call.q, n, n % 128 == 0 ? 32 : 0.1);
  for (std::int64_t n = 0; n < elements(call.k); ++n) {
    if (n % 128 == 0) set(call.k, n, n / 256 % 300 == 77 ? 4000 : -42);
  }
  expect_near_cpu(call);
}

// Sequences with offsets, some empty on either side, and rows behind the last.
TEST(AttentionForwardCuda, SequencesOfAnyLengthLieOneBehindTheOther) {
  OCTET_NEEDS_HOPPER();
  const std::vector<std::int64_t> q_at{0, 0, 1, 130, 130, 400, 463, 1500};
  const std::vector<std::int64_t> kv_at{0, 70, 71, 71, 200, 470, 900, 1900};
  std::uint64_t seed = 0;
  for (const Lengths dims : kHeads) {
    for (const AttentionMask& mask : kMasks) {
      AttentionProblem problem = problem_of({1100, 1100}, dims, mask);
      ++seed;
      problem.batch = static_cast<std::int64_t>(q_at.size()) - 1;
      problem.offsets_dtype = seed % 2 == 0 ? Dtype::i32 : Dtype::i64;
      problem.total_q = seed % 3 == 0 ? 1500 : 1777;
      problem.total_kv = seed % 3 == 0 ? 1900 : 2000;
      problem.sink = seed % 4 == 1;
      if (seed % 5 == 0) problem.out_dtype = Dtype::f32;
      const AttentionCall call(problem);
      call.fill(seed);
      call.set_offsets(q_at, kv_at);
      const auto poison_from = [](const HostTensor& tensor, std::int64_t row) {
        const TensorView& view = tensor.view();
        for (std::int64_t i = row * view.strides[0]; i < elements(view); ++i) set(view, i, NAN);
      };
      poison_from(call.q, q_at.back());
      poison_from(call.k, kv_at.back());
      poison_from(call.v, kv_at.back());
      expect_near_cpu(call);
    }
  }
}

// A NaN stays in its sequence: the copy engine does not read over its end.
TEST(AttentionForwardCuda, ASequenceOfNaNLeavesItsNeighboursAlone) {
  OCTET_NEEDS_HOPPER();
  AttentionProblem problem = problem_of({300, 300}, {128, 128});
  problem.batch = 3;
  problem.offsets_dtype = Dtype::i32;
  problem.total_q = problem.total_kv = 500;
  const std::vector<std::int64_t> at{0, 150, 333, 500};
  const AttentionCall clean(problem), call(problem);
  for (const AttentionCall* each : {&clean, &call}) {
    each->fill(3);
    each->set_offsets(at, at);
  }
  for (const HostTensor* tensor : {&call.q, &call.k, &call.v}) {
    const std::int64_t stride = tensor->view().strides[0];
    for (std::int64_t i = 150 * stride; i < 333 * stride; ++i) set(*tensor, i, NAN);
  }
  run_on_cuda(problem, clean.forward());
  run_on_cuda(problem, call.forward());
  const std::int64_t stride = call.out.view().strides[0];
  for (std::int64_t i = 0; i < elements(call.out); ++i) {
    const bool inside = i / stride >= 150 && i / stride < 333;
    if (inside) {
      ASSERT_TRUE(std::isnan(element(call.out, i)));
    } else {
      ASSERT_EQ(element(call.out, i), element(clean.out, i)) << i / stride;
    }
  }
}

TEST(AttentionForwardCuda, WithoutKeysResultsAreZero) {
  OCTET_NEEDS_HOPPER();
  for (const bool sink : {false, true}) {
    AttentionProblem problem = problem_of({70, 0}, {128, 128}, kCausalMask);
    problem.sink = sink;
    const AttentionCall call(problem);
    call.fill(1);
    run_on_cuda(problem, call.forward());
    for (std::int64_t i = 0; i < elements(call.out); ++i) ASSERT_EQ(element(call.out, i), 0);
    for (std::int64_t i = 0; i < elements(call.lse); ++i) {
      ASSERT_EQ(element(call.lse, i), sink ? element(call.sink, i / 70 % 4) : -INFINITY);
    }
  }
  const AttentionCall none(problem_of({0, 70}, {128, 128}));
  run_on_cuda(none.problem, none.forward());
}

// q, k and v are slices of one tensor, and out has its heads before its tokens.
TEST(AttentionForwardCuda, ReadsPackedTensorsAndWritesAnyOrder) {
  OCTET_NEEDS_HOPPER();
  const AttentionProblem problem = problem_of({150, 150}, {64, 64}, kCausalMask);
  const AttentionCall call(problem), packed(problem);
  call.fill(9);
  const HostTensor qkv(Dtype::bf16, {2, 150, 8, 64}), out(Dtype::bf16, {2, 4, 150, 64});
  const auto slice = [](const HostTensor& of, std::int64_t first, std::int64_t heads) {
    TensorView view = of.view();
    view.data = static_cast<char*>(view.data) + first * 64 * 2;
    view.shape[2] = heads;
    return view;
  };
  const auto fill_slice = [&](std::int64_t first, const HostTensor& from) {
    const std::int64_t heads = from.view().shape[2];
    for (std::int64_t n = 0; n < elements(from); ++n) {
      set(qkv, (n / (heads * 64) * 8 + first) * 64 + n % (heads * 64), element(from, n));
    }
  };
  fill_slice(0, call.q);
  fill_slice(4, call.k);
  fill_slice(6, call.v);
  run_on_cuda(problem, call.forward());
  // Device views of the packed tensor, made by hand: its slices share memory.
  OnCuda cuda;
  const TensorView device = cuda.copy_in(qkv.view());
  AttentionForwardArgs args;
  const auto device_slice = [&](std::int64_t first, std::int64_t heads) {
    TensorView view = slice(qkv, first, heads);
    view.data = static_cast<char*>(device.data) + first * 64 * 2;
    view.device = OnCuda::kDevice;
    return view;
  };
  args.inputs.q = device_slice(0, 4);
  args.inputs.k = device_slice(4, 2);
  args.inputs.v = device_slice(6, 2);
  TensorView heads_first = cuda.copy_in(out.view());
  args.out = heads_first;
  std::swap(args.out.shape[1], args.out.shape[2]);
  std::swap(args.out.strides[1], args.out.strides[2]);
  AttentionProblem on_cuda = problem;
  on_cuda.device = OnCuda::kDevice;
  const AttentionForwardPlan plan = plan_attention_forward(on_cuda);
  const Buffer workspace(plan.workspace_bytes, OnCuda::kDevice);
  run(plan, args, {workspace.data(), workspace.bytes()});
  cuda::synchronize(0);
  OnCuda::copy_out(heads_first, out);
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t h = 0; h < 4; ++h) {
      for (std::int64_t n = 0; n < 150 * 64; ++n) {
        ASSERT_EQ(element(out, (b * 4 + h) * 150 * 64 + n),
                  element(call.out, ((b * 150 + n / 64) * 4 + h) * 64 + n % 64));
      }
    }
  }
  // A slice that begins in the middle of 16 bytes.
  args.inputs.q.data = static_cast<char*>(args.inputs.q.data) + 2;
  EXPECT_THROW(run(plan, args, {workspace.data(), workspace.bytes()}), Error);
}

TEST(AttentionForwardCuda, HundredRunsGiveTheSameBits) {
  OCTET_NEEDS_HOPPER();
  const AttentionProblem problem = problem_of({700, 700}, {128, 128}, kCausalMask);
  const AttentionCall first(problem), again(problem);
  first.fill(2);
  again.fill(2);
  run_on_cuda(problem, first.forward());
  for (int i = 0; i < 100; ++i) {
    run_on_cuda(problem, again.forward());
    ASSERT_TRUE(same_bits(first.out, again.out) && same_bits(first.lse, again.lse)) << i;
  }
}

// More than 2^31 elements: the last rows against a call of their own.
TEST(AttentionForwardCuda, OffsetsDoNotOverflow) {
  OCTET_NEEDS_HOPPER();
  constexpr std::int64_t kRows = (std::int64_t{1} << 18) + 200, kHeadCount = 64, kDim = 128;
  constexpr std::int64_t kLast = 300;
  AttentionProblem problem{.batch = 1,
                           .seq_q = kRows,
                           .seq_kv = 100,
                           .heads_q = kHeadCount,
                           .heads_kv = 1,
                           .dim_qk = kDim,
                           .device = OnCuda::kDevice};
  constexpr std::size_t kBytes = kRows * kHeadCount * kDim * 2;
  const Buffer q(kBytes, OnCuda::kDevice), out(kBytes, OnCuda::kDevice);
  AttentionProblem tail = problem;
  tail.seq_q = kLast;
  AttentionProblem on_host = tail;
  on_host.device = kCpu;
  const AttentionCall call(on_host), wanted(on_host);
  call.fill(4);
  OnCuda cuda;
  const std::size_t tail_bytes = call.q.bytes();
  cuda::copy(static_cast<char*>(q.data()) + kBytes - tail_bytes, call.q.data(), tail_bytes, 0);
  AttentionForwardArgs args;
  args.inputs.q = make_view(q.data(), Dtype::bf16, {1, kRows, kHeadCount, kDim}, OnCuda::kDevice);
  args.inputs.k = cuda.copy_in(call.k.view());
  args.inputs.v = cuda.copy_in(call.v.view());
  args.out = make_view(out.data(), Dtype::bf16, {1, kRows, kHeadCount, kDim}, OnCuda::kDevice);
  const AttentionForwardPlan plan = plan_attention_forward(problem);
  const Buffer workspace(plan.workspace_bytes, OnCuda::kDevice);
  run(plan, args, {workspace.data(), workspace.bytes()});
  cuda::synchronize(0);
  cuda::copy(call.out.data(), static_cast<char*>(out.data()) + kBytes - tail_bytes, tail_bytes, 0);
  AttentionForwardArgs tail_args = call.forward();
  tail_args.out = wanted.out;
  run_on_cuda(on_host, tail_args);
  EXPECT_TRUE(same_bits(call.out, wanted.out));
}

}  // namespace
}  // namespace octet::testing
