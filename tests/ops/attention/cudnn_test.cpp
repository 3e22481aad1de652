// Attention through cuDNN: its refusals and, if there is a GPU, its results through the gates.
#include "check/gates.hpp"
#include "ops/attention/attention_case.hpp"
#include "support/gates.hpp"
#include "support/on_cuda.hpp"
#include "support/refusal.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace octet::testing {
namespace {

constexpr int kVersion = 91900;

Machine hopper(int (*cudnn_version)() = [] { return kVersion; }) {
  Machine machine;
  machine.sm_major = 9;
  machine.multiprocessors = 132;
  machine.cudnn_version = cudnn_version;
  return machine;
}

AttentionProblem small_problem() {
  AttentionProblem problem;
  problem.batch = 2;
  problem.seq_q = problem.seq_kv = 256;
  problem.heads_q = 4;
  problem.heads_kv = 2;
  problem.dim_qk = 64;
  problem.mask = kCausalMask;
  problem.device = OnCuda::kDevice;
  return problem;
}

template <class Implementations>
const auto& implementation(const Implementations& list, std::string_view name) {
  for (const auto& entry : list) {
    if (entry.name == name) return entry;
  }
  throw Error(ErrorCode::internal, "no such implementation");
}

std::string reason(const AttentionProblem& problem, const Machine& machine = hopper()) {
  return implementation(attention_forward_implementations(), "cudnn")
      .refuse(completed(problem), machine);
}
std::string backward_reason(const AttentionProblem& problem) {
  return implementation(attention_backward_implementations(), "cudnn")
      .refuse(completed(problem), hopper());
}

// The refusal of a problem that differs from the small one.
template <class Change>
std::string changed(const Change& change) {
  AttentionProblem problem = small_problem();
  change(problem);
  return reason(problem);
}

TEST(AttentionCudnn, StandsBeforeTheCpu) {
  std::vector<std::string> names;
  for (const auto& entry : attention_backward_implementations()) names.emplace_back(entry.name);
  const auto at = [&](const char* name) {
    return std::find(names.begin(), names.end(), name) - names.begin();
  };
  EXPECT_LT(at("cudnn"), at("cudnn_nondeterministic"));
  EXPECT_LT(at("cudnn_nondeterministic"), at("cpu_simd"));
}

TEST(AttentionCudnn, TakesWhatItSays) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    for (const std::int64_t dim : {8, 64, 96, 128, 192, 256}) {
      AttentionProblem problem = small_problem();
      problem.dtype = dtype;
      problem.dim_qk = dim;
      problem.dim_v = std::min<std::int64_t>(dim, 128);
      EXPECT_EQ(reason(problem), "") << describe(problem);
      EXPECT_EQ(backward_reason(problem), "") << describe(problem);
    }
  }
  AttentionProblem problem = small_problem();
  problem.seq_q = 100;
  EXPECT_EQ(reason(problem), "") << "more keys than queries";
  problem.mask.left = 40;
  EXPECT_EQ(reason(problem), "") << "a window";
  problem.mask = {.align = MaskAlignment::top_left};
  problem.seq_q = 1000;
  EXPECT_EQ(reason(problem), "") << "more queries than keys";
}

TEST(AttentionCudnn, SaysWhyItRefusesAMachine) {
  AttentionProblem problem = small_problem();
  Machine ampere = hopper();
  ampere.sm_major = 8;
  EXPECT_EQ(reason(problem, ampere), "needs compute capability 9.0 (Hopper), the device has 8.0");
  EXPECT_EQ(reason(problem, hopper([] { return 0; })),
            "libcudnn.so.9 was not found (OCTET_CUDNN_DIR names its folder)");
  EXPECT_EQ(reason(problem, hopper([] { return cuda::kBuiltWithoutCudnn; })),
            "this build of octet has no cuDNN (CMake did not find cudnn_frontend.h and cudnn.h)");
  EXPECT_EQ(reason(problem, hopper([] { return 91001; })),
            "needs cuDNN 9.10.2 or newer, found 9.10.1");
  problem.device = kCpu;
  EXPECT_EQ(reason(problem), "the problem is on cpu");
}

TEST(AttentionCudnn, SaysWhyItRefusesAProblem) {
  using Problem = AttentionProblem;
  EXPECT_EQ(changed([](Problem& p) { p.dtype = Dtype::f32; }),
            "q, k and v are f32; bf16 and f16 are taken");
  EXPECT_EQ(changed([](Problem& p) { p.out_dtype = Dtype::f32; }),
            "out must be bf16 as q is, not f32");
  EXPECT_EQ(changed([](Problem& p) { p.dim_qk = 60; }),
            "heads must have a multiple of 8 features, at most 256, got 60");
  EXPECT_EQ(changed([](Problem& p) { p.dim_v = 264; }),
            "heads must have a multiple of 8 features, at most 256, got 264");
  EXPECT_EQ(changed([](Problem& p) { p.seq_kv = 0; }), "there are no queries or no keys");
  EXPECT_EQ(changed([](Problem& p) { p.seq_q = 257; }),
            "some queries see no key, which cuDNN does not define");
  EXPECT_EQ(changed([](Problem& p) {
              p.mask.left = 5, p.mask.align = MaskAlignment::top_left, p.seq_q = 258;
            }),
            "windows and bottom-right masks need at least as many keys as queries");
  EXPECT_EQ(changed([](Problem& p) { p.mask = {.left = 5}; }),
            "masks are causal, or windows with a limit on both sides");
  EXPECT_EQ(changed([](Problem& p) { p.mask = {.left = 1000, .right = 5}; }),
            "masks are causal, or windows with a limit on both sides");
  EXPECT_EQ(changed([](Problem& p) { p.mask = {.left = 1000, .right = 0}; }), "");
  EXPECT_EQ(changed([](Problem& p) { p.offsets_dtype = Dtype::i32, p.total_q = p.total_kv = 9; }),
            "sequences with offsets are not taken");
  AttentionProblem one = small_problem();
  one.seq_q = one.seq_kv = 1;
  EXPECT_EQ(reason(one), "");
  EXPECT_EQ(backward_reason(one), "one query and one key");
  AttentionProblem sink = small_problem();
  sink.sink = true;
  EXPECT_EQ(reason(sink), "");
  EXPECT_EQ(backward_reason(sink),
            "cuDNN adds up dsink in no fixed order, so that its bits change from run to run");
  EXPECT_EQ(reason(sink, hopper([] { return 91200; })),
            "sinks need cuDNN 9.13 or newer and more than one query");
}

TEST(AttentionCudnn, IsNeverChosenInItsNondeterministicForm) {
  const auto list = attention_backward_implementations();
  const AttentionProblem problem = completed(small_problem());
  auto all = candidates(list, problem, hopper());
  Request request{"attention", "other", describe(problem), "", ""};
  const auto refused = [&](std::string_view name) {
    for (Candidate& one : all) {
      if (one.name == name) one.refusal = "refused by the test";
    }
  };
  EXPECT_EQ(all[choose(request, all).index].name, "cuda_sm90_wgmma");
  refused("cuda_sm90_wgmma");
  EXPECT_EQ(all[choose(request, all).index].name, "cudnn");
  refused("cudnn");
  const std::string message = refusal([&] { choose(request, all); }, ErrorCode::unsupported);
  EXPECT_NE(message.find("cudnn_nondeterministic: is only run where it is forced by its name"),
            std::string::npos)
      << message;
  request.forced_argument = "cudnn_nondeterministic";
  EXPECT_EQ(all[choose(request, all).index].name, "cudnn_nondeterministic");
}

TEST(AttentionCudnn, NamesItsVersionAndItsBackwardInTheConfiguration) {
  const cuda::Pretend h200(cuda::kH200);
  const auto configuration = [](const char* backend) {
    return plan_attention_backward(small_problem(), {backend, 1}).configuration;
  };
  EXPECT_EQ(configuration("cudnn"), "version=9.19.0 deterministic");
  EXPECT_EQ(configuration("cudnn_nondeterministic"), "version=9.19.0 nondeterministic");
}

TEST(AttentionCudnn, FindsTheLibraryInTheNamedFolderOrWithTheLoader) {
  const int version = cuda::cudnn_version();
  EXPECT_TRUE(version == cuda::kBuiltWithoutCudnn || version == 0 || version >= 90000) << version;
  EXPECT_EQ(cuda::cudnn_library() != nullptr, version > 0);
}

bool has_cudnn() { return has_hopper() && cuda::cudnn_version() > 0; }
#define OCTET_NEEDS_CUDNN() \
  if (!has_cudnn()) GTEST_SKIP() << "no Hopper GPU or no cuDNN on this machine"

struct Plans {
  AttentionForwardPlan forward;
  AttentionBackwardPlan backward;

  Plans(AttentionProblem problem, const std::string& backend) {
    problem.device = OnCuda::kDevice;
    forward = plan_attention_forward(problem, {backend, 1});
    backward = plan_attention_backward(problem, {backend, 1});
  }
};

// Both passes on the device, in tensors that are copied there.
void run_on_cuda(const AttentionCall& call, const Plans& plans, bool with_dlse = false) {
  OnCuda device;
  AttentionBackwardArgs args = call.backward();
  for (TensorView* view :
       {&args.inputs.q, &args.inputs.k, &args.inputs.v, &args.inputs.sink, &args.out, &args.lse,
        &args.dout, &args.dlse, &args.dq, &args.dk, &args.dv, &args.dsink}) {
    *view = device.copy_in(*view);
  }
  if (!with_dlse) args.dlse = {};
  const auto run_plan = [](const auto& plan, const auto& given) {
    const Buffer workspace(plan.workspace_bytes, OnCuda::kDevice);
    run(plan, given, {workspace.data(), workspace.bytes()});
    cuda::synchronize(0);
  };
  run_plan(plans.forward, AttentionForwardArgs{args.inputs, args.out, args.lse});
  run_plan(plans.backward, args);
  for (const auto& [from, to] : {std::pair<TensorView, TensorView>(args.out, call.out),
                                 {args.lse, call.lse},
                                 {args.dq, call.dq},
                                 {args.dk, call.dk},
                                 {args.dv, call.dv},
                                 {args.dsink, call.dsink}}) {
    OnCuda::copy_out(from, to);
  }
}

struct GateCase {
  const char* name;
  std::int64_t seq_q, seq_kv, heads_q, heads_kv, dim_qk, dim_v;
  AttentionMask mask = {};
  HeadLayout layout = HeadLayout::bshd;
  Dtype dtype = Dtype::bf16;
};

class AttentionCudnnGates : public ::testing::TestWithParam<GateCase> {};

TEST_P(AttentionCudnnGates, PassesAll) {
  OCTET_NEEDS_CUDNN();
  const GateCase& one = GetParam();
  AttentionProblem problem;
  problem.batch = 2;
  problem.seq_q = one.seq_q;
  problem.seq_kv = one.seq_kv;
  problem.heads_q = one.heads_q;
  problem.heads_kv = one.heads_kv;
  problem.dim_qk = one.dim_qk;
  problem.dim_v = one.dim_v;
  problem.mask = one.mask;
  problem.dtype = one.dtype;
  problem.device = OnCuda::kDevice;
  DataOptions options;
  options.backend = "cudnn";
  options.head_layout = one.layout;
  expect_pass(check_attention(problem, options), describe(problem));
}

constexpr AttentionMask kTopLeft{.right = 0, .align = MaskAlignment::top_left};

INSTANTIATE_TEST_SUITE_P(
    Cases, AttentionCudnnGates,
    ::testing::Values(GateCase{"full_64", 256, 256, 4, 4, 64, 64},
                      GateCase{"causal_128", 512, 512, 8, 1, 128, 128, kCausalMask},
                      GateCase{"causal_192_128", 384, 384, 4, 4, 192, 128, kCausalMask},
                      GateCase{"bottom_right", 200, 512, 4, 2, 128, 128, kCausalMask},
                      GateCase{"top_left", 200, 512, 4, 2, 128, 128, kTopLeft},
                      GateCase{"full_tails", 300, 201, 4, 2, 128, 128},
                      GateCase{"window", 200, 330, 2, 1, 128, 128, {50, 30}},
                      GateCase{"f16", 256, 256, 4, 2, 128, 128, kCausalMask, HeadLayout::bshd,
                               Dtype::f16},
                      GateCase{"packed", 256, 256, 4, 2, 128, 128, kCausalMask, HeadLayout::packed},
                      GateCase{"heads_of_40_24", 130, 130, 2, 1, 40, 24, kCausalMask}),
    [](const auto& test) { return std::string(test.param.name); });

AttentionProblem host_problem() {
  AttentionProblem problem = small_problem();
  problem.device = kCpu;
  return problem;
}

TEST(AttentionCudnn, ThreadsShareAPlanAndGetTheSameBits) {
  OCTET_NEEDS_CUDNN();
  const Plans plans(host_problem(), "cudnn");
  const AttentionCall wanted(host_problem());
  wanted.fill(1);
  run_on_cuda(wanted, plans);
  std::vector<std::unique_ptr<AttentionCall>> given;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    given.push_back(std::make_unique<AttentionCall>(host_problem()));
    given.back()->fill(1);
    threads.emplace_back([&, &call = *given.back()] {
      for (int repeat = 0; repeat < 5; ++repeat) run_on_cuda(call, plans);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& call : given) {
    for (std::size_t i = 0; i < call->outputs().size(); ++i) {
      EXPECT_TRUE(same_bits(*call->outputs()[i], *wanted.outputs()[i])) << kOutputNames[i];
    }
  }
}

TEST(AttentionCudnn, TheNondeterministicFormIsAsGoodAndTakesSinks) {
  OCTET_NEEDS_CUDNN();
  AttentionProblem problem = host_problem();
  problem.sink = true;
  const AttentionCall wanted(problem), given(problem);
  for (const AttentionCall* call : {&wanted, &given}) call->fill(2);
  for (std::int64_t i = 0; i < elements(wanted.dlse); ++i) set(wanted.dlse, i, 0);
  run_both("cpu_reference", wanted);
  run_on_cuda(given, {problem, "cudnn_nondeterministic"});
  for (std::size_t i = 0; i < given.outputs().size(); ++i) {
    EXPECT_GT(snr_db(*given.outputs()[i], *wanted.outputs()[i]), 46) << kOutputNames[i];
  }
}

// All scores are near -150, so that exp(0 - lse) overflows for a key that is not there.
TEST(AttentionCudnn, KeysBehindTheLastDoNotShowWhereScoresAreVeryNegative) {
  OCTET_NEEDS_CUDNN();
  for (const std::int64_t dim : {64, 128, 192}) {
    AttentionProblem problem = host_problem();
    problem.mask = {};
    problem.seq_kv = 200;
    problem.dim_qk = dim;
    problem.dim_v = std::min<std::int64_t>(dim, 128);
    problem.scale = 1;
    const AttentionCall call(problem);
    call.fill(3);
    for (std::int64_t i = 0; i < elements(call.q); ++i) set(call.q, i, i % dim == 0 ? 15 : 0);
    for (std::int64_t i = 0; i < elements(call.k); ++i) set(call.k, i, i % dim == 0 ? -10 : 0);
    run_on_cuda(call, {problem, "cudnn"});
    EXPECT_LT(element(call.lse, 0), -140);
    for (const HostTensor* gradient : {&call.dq, &call.dk, &call.dv}) {
      std::int64_t bad = 0;
      for (std::int64_t i = 0; i < elements(*gradient); ++i) {
        bad += std::isfinite(element(*gradient, i)) ? 0 : 1;
      }
      EXPECT_EQ(bad, 0) << "heads of " << dim;
    }
  }
}

TEST(AttentionCudnn, RefusesLayoutsAndGradientsThatItCannotRead) {
  OCTET_NEEDS_CUDNN();
  const AttentionCall call(host_problem());
  call.fill(4);
  const Plans plans(host_problem(), "cudnn");
  EXPECT_NE(refusal([&] { run_on_cuda(call, plans, true); }, ErrorCode::unsupported)
                .find("cudnn takes no dlse"),
            std::string::npos);
  const AttentionProblem problem = small_problem();
  const AttentionForwardPlan plan = plan_attention_forward(problem, {"cudnn", 1});
  const Tensor memory(Dtype::bf16, {2, 256, 4 * 64 + 8}, OnCuda::kDevice);
  const Tensor out(Dtype::bf16, {2, 256, 4, 64}, OnCuda::kDevice);
  const Buffer workspace(plan.workspace_bytes, OnCuda::kDevice);
  TensorView q = out;
  q.data = static_cast<char*>(memory.data()) + 2;
  TensorView kv = memory;
  kv.rank = 4;
  kv.shape = {2, 256, 2, 64};
  kv.strides = {256 * 264, 264, 64, 1};
  AttentionForwardArgs args;
  args.inputs.q = q;
  args.inputs.k = args.inputs.v = kv;
  args.out = out;
  const std::string message = refusal(
      [&] {
        run(plan, args, {workspace.data(), workspace.bytes()});
      },
      ErrorCode::unsupported);
  EXPECT_NE(message.find("cudnn wants q with rows on 16-byte boundaries"), std::string::npos)
      << message;
}

TEST(AttentionCudnn, KeepsItsWorkspaceWithinTheLimit) {
  OCTET_NEEDS_CUDNN();
  AttentionProblem problem = small_problem();
  problem.workspace_limit = 1000;
  EXPECT_NE(refusal(
                [&] {
                  plan_attention_backward(problem, {"cudnn", 1});
                },
                ErrorCode::unsupported)
                .find("more than workspace_limit = 1000"),
            std::string::npos);
}

}  // namespace
}  // namespace octet::testing
