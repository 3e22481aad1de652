// The Hopper backward on forward results of the CPU: exact data, random data against the CPU, and equal bits
// whatever runs, workspace and batch.
#include "ops/attention/attention_case.hpp"
#include "ops/attention/sm90/backward/plan.hpp"
#include "support/on_cuda.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace octet::testing {
namespace {

AttentionProblem heads_of(std::int64_t dim_qk, std::int64_t dim_v, std::int64_t seq_q,
                          std::int64_t seq_kv, AttentionMask mask = {}) {
  return {.batch = 2,
          .seq_q = seq_q,
          .seq_kv = seq_kv,
          .heads_q = 4,
          .heads_kv = 2,
          .dim_qk = dim_qk,
          .dim_v = dim_v,
          .dtype = Dtype::bf16,
          .mask = mask};
}

constexpr std::pair<std::int64_t, std::int64_t> kHeads[] = {{64, 64}, {128, 128}, {192, 128}};

double small_integer(std::int64_t index) { return static_cast<double>(index * 7 % 13 - 6); }

// A tensor without elements, which nobody reads.
TensorView on_cuda(TensorView view) {
  view.device = OnCuda::kDevice;
  return view;
}

// The backward pass of `call` on the device, with forward's results as they are there. The workspace begins as
// `workspace_byte`.
void run_backward_on_cuda(const AttentionCall& call, std::size_t limit = std::size_t{1} << 30,
                          unsigned char workspace_byte = 0xFF, bool with_dlse = true) {
  AttentionProblem problem = call.problem;
  problem.device = OnCuda::kDevice;
  problem.workspace_limit = limit;
  OnCuda device;
  const AttentionBackwardArgs host = call.backward();
  AttentionBackwardArgs args = host;
  for (TensorView* view : {&args.inputs.q, &args.inputs.k, &args.inputs.v, &args.inputs.sink,
                           &args.inputs.offsets_q, &args.inputs.offsets_kv, &args.out, &args.lse,
                           &args.dout, &args.dlse, &args.dq, &args.dk, &args.dv, &args.dsink}) {
    *view = elements(*view) > 0 ? device.copy_in(*view) : on_cuda(*view);
  }
  if (!with_dlse) args.dlse = {};
  const AttentionBackwardPlan plan = plan_attention_backward(problem, {"cuda_sm90_wgmma"});
  const std::vector<unsigned char> poison(plan.workspace_bytes, workspace_byte);
  const Buffer workspace(plan.workspace_bytes, OnCuda::kDevice);
  cuda::copy(workspace.data(), poison.data(), poison.size(), 0);
  run(plan, args, {workspace.data(), workspace.bytes()});
  cuda::synchronize(0);
  for (const auto& [there, here] :
       {std::pair{args.dq, host.dq}, {args.dk, host.dk}, {args.dv, host.dv}}) {
    if (elements(here) > 0) OnCuda::copy_out(there, here);
  }
  if (problem.sink) OnCuda::copy_out(args.dsink, host.dsink);
}

// Forward on the CPU, whose result both backwards read.
void run_forward_on_cpu(const AttentionCall& call) {
  run_with_workspace(plan_attention_forward(call.problem, {"cpu_simd", 2}), call.forward());
}

void expect_same_gradients(const AttentionCall& a, const AttentionCall& b) {
  EXPECT_TRUE(same_bits(a.dq, b.dq));
  EXPECT_TRUE(same_bits(a.dk, b.dk));
  EXPECT_TRUE(same_bits(a.dv, b.dv));
  if (a.problem.sink) {
    EXPECT_TRUE(same_bits(a.dsink, b.dsink));
  }
}

TEST(AttentionCudaBackward, AKeyFarAboveAllOthersIsReadAlone) {
  OCTET_NEEDS_HOPPER();
  // The score of query i is 200 at key 37 i + 11 (mod keys), and 0 at all other keys.
  for (const auto& [dim_qk, dim_v] : kHeads) {
    const std::int64_t seq = dim_qk;  // one feature for each key
    AttentionProblem problem = heads_of(dim_qk, dim_v, seq, seq);
    problem.scale = 1;
    const AttentionCall call(problem);
    const AttentionProblem& p = call.problem;
    std::memset(call.q.data(), 0, call.q.bytes());
    std::memset(call.k.data(), 0, call.k.bytes());
    const auto at = [](std::int64_t b, std::int64_t i, std::int64_t h, std::int64_t c,
                       std::int64_t rows, std::int64_t heads,
                       std::int64_t dim) { return ((b * rows + i) * heads + h) * dim + c; };
    for (std::int64_t n = 0; n < elements(call.v); ++n) set(call.v, n, small_integer(n));
    for (std::int64_t n = 0; n < elements(call.dout); ++n) set(call.dout, n, small_integer(n + 5));
    std::vector<double> dv(static_cast<std::size_t>(elements(call.dv)));
    for (std::int64_t b = 0; b < p.batch; ++b) {
      for (std::int64_t i = 0; i < seq; ++i) {
        const std::int64_t wanted = (37 * i + 11) % seq;
        for (std::int64_t h = 0; h < p.heads_q; ++h) {
          set(call.q, at(b, i, h, wanted, seq, p.heads_q, dim_qk), 20);
          for (std::int64_t c = 0; c < dim_v; ++c) {
            dv[static_cast<std::size_t>(at(b, wanted, h / 2, c, seq, p.heads_kv, dim_v))] +=
                element(call.dout, at(b, i, h, c, seq, p.heads_q, dim_v));
          }
        }
        for (std::int64_t h = 0; h < p.heads_kv; ++h) {
          set(call.k, at(b, i, h, i, seq, p.heads_kv, dim_qk), 10);
        }
      }
    }
    run_forward_on_cpu(call);
    run_backward_on_cuda(call, std::size_t{1} << 30, 0xFF, false);
    for (std::int64_t n = 0; n < elements(call.dv); ++n) {
      ASSERT_EQ(element(call.dv, n), dv[static_cast<std::size_t>(n)]) << dim_qk << " at " << n;
    }
    for (std::int64_t n = 0; n < elements(call.dq); ++n) ASSERT_EQ(element(call.dq, n), 0) << n;
    for (std::int64_t n = 0; n < elements(call.dk); ++n) ASSERT_EQ(element(call.dk, n), 0) << n;
  }
}

TEST(AttentionCudaBackward, EqualScoresOfAPowerOfTwoOfKeysAreExact) {
  OCTET_NEEDS_HOPPER();
  // q is 0, and query i sees keys i to i + 15: p is 1/16. One feature of v and dout has values, so that dS is a
  // multiple of 1/16 that bf16 has exactly, and so are the sums.
  constexpr std::int64_t kFeature = 3, kSeen = 16, kGroup = 2;
  for (const auto& [dim_qk, dim_v] : kHeads) {
    AttentionProblem problem = heads_of(dim_qk, dim_v, 500, 500 + kSeen - 1, {kSeen - 1, 0});
    problem.scale = 1;
    const AttentionCall call(problem);
    const AttentionProblem& p = call.problem;
    const auto v_at = [&](std::int64_t b, std::int64_t j, std::int64_t h) {
      return 16.0 * static_cast<double>((b * 31 + j * 7 + h) % 3 - 1);
    };
    const auto dout_at = [&](std::int64_t b, std::int64_t i, std::int64_t h) {
      return static_cast<double>((b * 17 + i * 5 + h) % 3 - 1);
    };
    const auto k_at = [&](std::int64_t b, std::int64_t j, std::int64_t h, std::int64_t c) {
      const std::int64_t n = ((b * p.seq_kv + j) * p.heads_kv + h) * p.dim_qk + c;
      return n / 3 % 4 == 0 ? static_cast<double>(n % 2 * 2 - 1) : 0.0;
    };
    const auto out_at = [&](std::int64_t b, std::int64_t i, std::int64_t h) {
      double sum = 0;
      for (std::int64_t j = i; j < i + kSeen; ++j) sum += v_at(b, j, h / kGroup);
      return sum / kSeen;
    };
    for (const HostTensor* tensor :
         {&call.q, &call.k, &call.v, &call.out, &call.dout, &call.dlse}) {
      std::memset(tensor->data(), 0, tensor->bytes());
    }
    for (std::int64_t b = 0; b < p.batch; ++b) {
      for (std::int64_t j = 0; j < p.seq_kv; ++j) {
        for (std::int64_t h = 0; h < p.heads_kv; ++h) {
          const std::int64_t row = (b * p.seq_kv + j) * p.heads_kv + h;
          set(call.v, row * dim_v + kFeature, v_at(b, j, h));
          for (std::int64_t c = 0; c < dim_qk; ++c) set(call.k, row * dim_qk + c, k_at(b, j, h, c));
        }
      }
      for (std::int64_t i = 0; i < p.seq_q; ++i) {
        for (std::int64_t h = 0; h < p.heads_q; ++h) {
          const std::int64_t at = ((b * p.seq_q + i) * p.heads_q + h) * dim_v + kFeature;
          set(call.out, at, out_at(b, i, h));
          set(call.dout, at, dout_at(b, i, h));
          set(call.lse, (b * p.heads_q + h) * p.seq_q + i, std::log(double{kSeen}));
        }
      }
    }
    run_backward_on_cuda(call);
    for (std::int64_t b = 0; b < p.batch; ++b) {
      for (std::int64_t i = 0; i < p.seq_q; ++i) {
        for (std::int64_t h = 0; h < p.heads_q; ++h) {
          for (std::int64_t c = 0; c < dim_qk; ++c) {
            double wanted = 0;
            for (std::int64_t j = i; j < i + kSeen; ++j) {
              wanted += dout_at(b, i, h) * (v_at(b, j, h / kGroup) - out_at(b, i, h)) / kSeen *
                        k_at(b, j, h / kGroup, c);
            }
            // Results are multiples of 1/16.
            ASSERT_NEAR(element(call.dq, ((b * p.seq_q + i) * p.heads_q + h) * dim_qk + c), wanted,
                        1e-6)
                << dim_qk << ", query " << i << ", head " << h;
          }
        }
      }
      for (std::int64_t j = 0; j < p.seq_kv; ++j) {
        for (std::int64_t h = 0; h < p.heads_kv; ++h) {
          double wanted = 0;
          for (std::int64_t reader = h * kGroup; reader < (h + 1) * kGroup; ++reader) {
            for (std::int64_t i = std::max<std::int64_t>(0, j - kSeen + 1);
                 i <= std::min(j, p.seq_q - 1); ++i) {
              wanted += dout_at(b, i, reader) / kSeen;
            }
          }
          const std::int64_t row = (b * p.seq_kv + j) * p.heads_kv + h;
          ASSERT_NEAR(element(call.dv, row * dim_v + kFeature), wanted, 1e-6)
              << dim_qk << ", key " << j << ", head " << h;
        }
      }
    }
    for (std::int64_t n = 0; n < elements(call.dk); ++n) ASSERT_EQ(element(call.dk, n), 0) << n;
  }
}

void expect_near_the_cpu(const AttentionProblem& problem) {
  const AttentionCall cuda(problem), cpu(problem);
  for (const AttentionCall* call : {&cuda, &cpu}) {
    call->fill(7);
    run_forward_on_cpu(*call);
  }
  run_with_workspace(plan_attention_backward(cpu.problem, {"cpu_simd", 2}), cpu.backward());
  run_backward_on_cuda(cuda);
  const double wanted = problem.dtype == Dtype::bf16 ? 46 : 58;
  const std::string where = describe(cuda.problem);
  EXPECT_GT(snr_db(cuda.dq, cpu.dq), wanted) << where;
  EXPECT_GT(snr_db(cuda.dk, cpu.dk), wanted) << where;
  EXPECT_GT(snr_db(cuda.dv, cpu.dv), wanted) << where;
  if (problem.sink) {
    EXPECT_GT(snr_db(cuda.dsink, cpu.dsink), 80) << where;
  }
}

TEST(AttentionCudaBackward, MatchesTheCpuForEveryMaskAndLength) {
  OCTET_NEEDS_HOPPER();
  const AttentionMask masks[] = {{},
                                 kCausalMask,
                                 {.right = 0, .align = MaskAlignment::top_left},
                                 {.left = 100, .right = 0},
                                 {.left = 37, .right = 60}};
  for (const auto& [dim_qk, dim_v] : kHeads) {
    for (const AttentionMask& mask : masks) {
      for (const auto& [queries, keys] : {std::pair<std::int64_t, std::int64_t>(1, 1),
                                          {65, 64},
                                          {129, 191},
                                          {193, 127},
                                          {300, 300},
                                          {257, 0},
                                          {0, 130}}) {
        for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
          AttentionProblem problem = heads_of(dim_qk, dim_v, queries, keys, mask);
          problem.dtype = dtype;
          problem.sink = queries == 193;
          expect_near_the_cpu(problem);
        }
      }
    }
  }
}

TEST(AttentionCudaBackward, HeadSizesInBetweenAreFilledWithZeros) {
  OCTET_NEEDS_HOPPER();
  for (const auto& [dim_qk, dim_v] : {std::pair<std::int64_t, std::int64_t>(8, 8),
                                      {40, 24},
                                      {96, 96},
                                      {64, 128},
                                      {128, 72},
                                      {160, 40}}) {
    const AttentionProblem problem = heads_of(dim_qk, dim_v, 193, 300, kCausalMask);
    expect_near_the_cpu(problem);
    const AttentionCall at_once(problem), in_parts(problem);
    for (const AttentionCall* call : {&at_once, &in_parts}) {
      call->fill(7);
      run_forward_on_cpu(*call);
    }
    run_backward_on_cuda(at_once);
    run_backward_on_cuda(in_parts, attention::plan_backward(in_parts.problem, 0, 132).pieces.bytes);
    expect_same_gradients(at_once, in_parts);
  }
}

TEST(AttentionCudaBackward, TenRunsAndEveryWorkspaceLimitGiveTheSameBits) {
  OCTET_NEEDS_HOPPER();
  for (const auto& [dim_qk, dim_v] : kHeads) {
    AttentionProblem problem = heads_of(dim_qk, dim_v, 1000, 1000, kCausalMask);
    problem.sink = true;
    const AttentionCall first(problem), again(problem);
    first.fill(3);
    again.fill(3);
    run_forward_on_cpu(first);
    run_forward_on_cpu(again);
    run_backward_on_cuda(first);
    for (int i = 0; i < 10; ++i) {
      run_backward_on_cuda(again, std::size_t{1} << 30, static_cast<unsigned char>(i));
      expect_same_gradients(first, again);
    }
    const std::size_t least = attention::plan_backward(first.problem, 0, 132).pieces.bytes;
    for (const std::size_t limit : {least, 2 * least, 3 * least}) {
      run_backward_on_cuda(again, limit);
      expect_same_gradients(first, again);
    }
  }
}

// As many chunks as a problem of this size has in practice: of parts of sequences, of whole ones, and few.
TEST(AttentionCudaBackward, LimitsOfMegabytesAndGibibytesGiveTheSameBits) {
  OCTET_NEEDS_HOPPER();
  for (const auto& [dim_qk, dim_v] : kHeads) {
    AttentionProblem problem = heads_of(dim_qk, dim_v, 4096, 4096, kCausalMask);
    problem.batch = 1;
    problem.heads_q = 16;
    problem.heads_kv = 8;
    const AttentionCall first(problem), again(problem);
    for (const AttentionCall* call : {&first, &again}) {
      call->fill(5);
      run_forward_on_cpu(*call);
    }
    run_backward_on_cuda(first);
    for (const std::size_t mebibytes : {64, 200, 1 << 20}) {
      run_backward_on_cuda(again, mebibytes << 20);
      expect_same_gradients(first, again);
    }
    problem.offsets_dtype = Dtype::i32;
    problem.total_q = problem.total_kv = 4096;
    const AttentionCall packed(problem);
    packed.fill(5);
    packed.set_offsets({0, 4096}, {0, 4096});
    run_forward_on_cpu(packed);
    for (const std::size_t mebibytes : {100, 1024}) {
      run_backward_on_cuda(packed, mebibytes << 20);
      expect_same_gradients(first, packed);
    }
  }
}

TEST(AttentionCudaBackward, PackedSequencesHaveTheBitsTheyHaveAlone) {
  OCTET_NEEDS_HOPPER();
  const std::vector<std::int64_t> lengths_q{300, 0, 65, 128, 257}, lengths_kv{300, 17, 64, 0, 270};
  for (const auto& [dim_qk, dim_v] : kHeads) {
    AttentionProblem problem = heads_of(dim_qk, dim_v, 300, 300, {.left = 90, .right = 0});
    problem.batch = 5;
    problem.offsets_dtype = dim_qk == 64 ? Dtype::i32 : Dtype::i64;
    problem.total_q = 300 + 65 + 128 + 257 + 9;  // nine rows behind the last sequence
    problem.total_kv = 300 + 17 + 64 + 270 + 140;
    const AttentionCall all(problem);
    all.fill(11);
    std::vector<std::int64_t> at_q{0}, at_kv{0};
    for (std::size_t i = 0; i < 5; ++i) {
      at_q.push_back(at_q.back() + lengths_q[i]);
      at_kv.push_back(at_kv.back() + lengths_kv[i]);
    }
    all.set_offsets(at_q, at_kv);
    run_forward_on_cpu(all);
    run_backward_on_cuda(all);
    const AttentionCall again(problem);
    again.fill(11);
    again.set_offsets(at_q, at_kv);
    run_forward_on_cpu(again);
    const std::size_t least = attention::plan_backward(again.problem, 0, 132).pieces.bytes;
    for (const std::size_t limit : {least, least + (least >> 2)}) {
      run_backward_on_cuda(again, limit);
      expect_same_gradients(all, again);
    }
    const auto same_rows = [](const TensorView& packed, std::int64_t first,
                              const HostTensor& alone) {
      const std::int64_t row = packed.shape[1] * packed.shape[2] * size_bytes(packed.dtype);
      return std::memcmp(static_cast<const char*>(packed.data) + first * row, alone.data(),
                         alone.bytes()) == 0;
    };
    for (std::size_t i = 0; i < 5; ++i) {
      AttentionProblem one = problem;
      one.batch = 1;
      one.total_q = lengths_q[i];
      one.total_kv = lengths_kv[i];
      const AttentionCall alone(one);
      alone.set_offsets({0, lengths_q[i]}, {0, lengths_kv[i]});
      const auto copy_rows = [](const TensorView& packed, std::int64_t first,
                                const HostTensor& to) {
        const std::int64_t row = packed.shape[1] * packed.shape[2] * size_bytes(packed.dtype);
        std::memcpy(to.data(), static_cast<const char*>(packed.data) + first * row, to.bytes());
      };
      copy_rows(all.q, at_q[i], alone.q);
      copy_rows(all.out, at_q[i], alone.out);
      copy_rows(all.dout, at_q[i], alone.dout);
      copy_rows(all.k, at_kv[i], alone.k);
      copy_rows(all.v, at_kv[i], alone.v);
      for (std::int64_t h = 0; h < 4; ++h) {
        for (std::int64_t q = 0; q < lengths_q[i]; ++q) {
          set(alone.lse, h * lengths_q[i] + q, element(all.lse, h * problem.total_q + at_q[i] + q));
          set(alone.dlse, h * lengths_q[i] + q,
              element(all.dlse, h * problem.total_q + at_q[i] + q));
        }
      }
      run_backward_on_cuda(alone);
      EXPECT_TRUE(same_rows(all.dq, at_q[i], alone.dq)) << dim_qk << " sequence " << i;
      EXPECT_TRUE(same_rows(all.dk, at_kv[i], alone.dk)) << dim_qk << " sequence " << i;
      EXPECT_TRUE(same_rows(all.dv, at_kv[i], alone.dv)) << dim_qk << " sequence " << i;
    }
    // Rows behind the last sequence are zeros.
    const std::int64_t cols_q = 4 * dim_qk, cols_k = 2 * dim_qk, cols_v = 2 * dim_v;
    for (std::int64_t n = at_q[5] * cols_q; n < elements(all.dq); ++n)
      ASSERT_EQ(element(all.dq, n), 0);
    for (std::int64_t n = at_kv[5] * cols_k; n < elements(all.dk); ++n)
      ASSERT_EQ(element(all.dk, n), 0);
    for (std::int64_t n = at_kv[5] * cols_v; n < elements(all.dv); ++n)
      ASSERT_EQ(element(all.dv, n), 0);
  }
}

// Nobody can check offsets on the device: those that overlap give some gradients, and the call ends.
TEST(AttentionCudaBackward, OffsetsThatOverlapEnd) {
  OCTET_NEEDS_HOPPER();
  AttentionProblem problem = heads_of(64, 64, 600, 600, kCausalMask);
  problem.batch = 20;
  problem.offsets_dtype = Dtype::i32;
  problem.total_q = problem.total_kv = 600;
  const AttentionCall call(problem);
  call.fill(1);
  std::vector<std::int64_t> offsets;
  for (int i = 0; i <= 20; ++i) offsets.push_back(i % 2 * 600);
  call.set_offsets(offsets, offsets);
  for (std::int64_t n = 0; n < elements(call.lse); ++n) set(call.lse, n, 0);
  for (std::int64_t n = 0; n < elements(call.out); ++n) set(call.out, n, 0);
  run_backward_on_cuda(call);
  run_backward_on_cuda(call, attention::plan_backward(call.problem, 0, 132).pieces.bytes);
}

TEST(AttentionCudaBackward, RefusesStridesThatTheCopyEngineCannotRead) {
  OCTET_NEEDS_HOPPER();
  const AttentionCall call(heads_of(64, 64, 64, 64));
  call.fill(1);
  run_forward_on_cpu(call);
  AttentionProblem problem = call.problem;
  problem.device = OnCuda::kDevice;
  OnCuda device;
  AttentionBackwardArgs args = call.backward();
  for (TensorView* view : {&args.inputs.q, &args.inputs.k, &args.inputs.v, &args.out, &args.lse,
                           &args.dout, &args.dlse, &args.dq, &args.dk, &args.dv}) {
    *view = device.copy_in(*view);
  }
  args.inputs.q.data = static_cast<char*>(args.inputs.q.data) + 2;
  args.inputs.q.shape[0] = 1;
  const AttentionBackwardPlan plan = plan_attention_backward(problem, {"cuda_sm90_wgmma"});
  const Buffer workspace(plan.workspace_bytes, OnCuda::kDevice);
  EXPECT_THROW(run(plan, args, {workspace.data(), workspace.bytes()}), Error);
}

}  // namespace
}  // namespace octet::testing
