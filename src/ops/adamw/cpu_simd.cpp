// Runs of 512 elements: each tensor is decoded to f32 on the stack, where the step is made, and
// encoded again. So the kernels do not multiply with the dtypes; the runs stay in the L1 cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/adamw/cpu_simd.cpp"
#include "cpu/instruction_set.hpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/adamw/problem.hpp"

#ifndef OCTET_OPS_ADAMW_CPU_SIMD
#define OCTET_OPS_ADAMW_CPU_SIMD
namespace octet {

inline constexpr std::int64_t kAdamWRun = 512;

// The f32 values of a run.
struct AdamWRun {
  alignas(64) float w[kAdamWRun];
  alignas(64) float g[kAdamWRun];
  alignas(64) float m[kAdamWRun];
  alignas(64) float v[kAdamWRun];
};

// The kernels of one instruction set, over whole runs. Codecs by dtype: f32, f16, bf16.
struct AdamWKernels {
  void (*decode[3])(const void* from, float* to);
  void (*encode[3])(const float* from, void* to);
  void (*update)(const AdamWFactors& factors, float grad_scale, AdamWRun& run);
};

}  // namespace octet
#endif

#if OCTET_SIMD_TARGET
#include "cpu/encode_simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace octet::HWY_NAMESPACE {

template <class Codec>
void decode_run(const void* from, float* to) {
  const auto* elements = static_cast<const typename Codec::Storage*>(from);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(F32()));
  for (std::int64_t i = 0; i < kAdamWRun; i += 2 * lanes) {
    hn::Vec<F32> low;
    hn::Vec<F32> high;
    Codec::load(elements + i, low, high);
    hn::Store(low, F32(), to + i);
    hn::Store(high, F32(), to + i + lanes);
  }
}

template <class Codec>
void encode_run(const float* from, void* to) {
  auto* elements = static_cast<typename Codec::Storage*>(to);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(F32()));
  for (std::int64_t i = 0; i < kAdamWRun; i += lanes) {
    Codec::store(hn::Load(F32(), from + i), elements + i);
  }
}

void update_run(const AdamWFactors& f, float grad_scale, AdamWRun& run) {
  const F32 d;
  const auto scale = hn::Set(d, grad_scale);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < kAdamWRun; i += lanes) {
    const auto g = hn::Mul(hn::Load(d, run.g + i), scale);
    const auto m =
        hn::MulAdd(hn::Set(d, f.beta1), hn::Load(d, run.m + i), hn::Mul(hn::Set(d, f.rest1), g));
    const auto v = hn::MulAdd(hn::Set(d, f.beta2), hn::Load(d, run.v + i),
                              hn::Mul(hn::Mul(hn::Set(d, f.rest2), g), g));
    const auto root = hn::MulAdd(hn::Sqrt(v), hn::Set(d, f.root_factor), hn::Set(d, f.eps));
    const auto decayed = hn::Mul(hn::Load(d, run.w + i), hn::Set(d, f.decay));
    hn::Store(hn::MulAdd(hn::Set(d, -f.step_size), hn::Div(m, root), decayed), d, run.w + i);
    hn::Store(m, d, run.m + i);
    hn::Store(v, d, run.v + i);
  }
}

extern const AdamWKernels kAdamWKernels;
const AdamWKernels kAdamWKernels{
    {decode_run<EncodeF32>, decode_run<EncodeF16>, decode_run<EncodeBf16>},
    {encode_run<EncodeF32>, encode_run<EncodeF16>, encode_run<EncodeBf16>},
    update_run};

}  // namespace octet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
#include "core/checks.hpp"
#include "cpu/threads.hpp"

#include <algorithm>
#include <cstring>

namespace octet {
namespace {

constexpr std::int64_t kTaskRuns = 64;  // enough that handing out tasks costs little

// One run of a contiguous tensor. The last one may be shorter than kAdamWRun and passes through
// memory that has its full length, zero-filled.
class RunOfTensor {
 public:
  RunOfTensor(const AdamWKernels& kernels, const TensorView& tensor, std::int64_t first,
              std::int64_t count)
      : kernels_(kernels),
        index_(kernel_index(tensor.dtype)),
        data_(static_cast<char*>(tensor.data) + first * size_bytes(tensor.dtype)),
        bytes_(static_cast<std::size_t>(count * size_bytes(tensor.dtype))),
        whole_(count == kAdamWRun) {}

  void decode(float* to) const {
    if (whole_) return kernels_.decode[index_](data_, to);
    alignas(64) char padded[kAdamWRun * sizeof(float)] = {};
    std::memcpy(padded, data_, bytes_);
    kernels_.decode[index_](padded, to);
  }
  void encode(const float* from) const {
    if (whole_) return kernels_.encode[index_](from, data_);
    alignas(64) char padded[kAdamWRun * sizeof(float)];
    kernels_.encode[index_](from, padded);
    std::memcpy(data_, padded, bytes_);
  }

 private:
  const AdamWKernels& kernels_;
  int index_;
  char* data_;
  std::size_t bytes_;
  bool whole_;
};

}  // namespace

void adamw_cpu_simd(const AdamWProblem& problem, const AdamWArgs& args, const RunContext& context,
                    InstructionSet instructions) {
  const AdamWKernels& kernels =
      instructions == InstructionSet::avx512 ? N_AVX3::kAdamWKernels : N_AVX2::kAdamWKernels;
  const AdamWFactors factors = factors_of(args);
  const float scale = problem.grad_scale ? *static_cast<const float*>(args.grad_scale.data) : 1.0f;
  const TensorView& weight = problem.master ? args.master : args.w;
  const auto update = [&](std::int64_t first) {
    const std::int64_t count = std::min(kAdamWRun, problem.count - first);
    const auto part = [&](const TensorView& tensor) {
      return RunOfTensor(kernels, tensor, first, count);
    };
    AdamWRun run;
    part(weight).decode(run.w);
    part(args.g).decode(run.g);
    part(args.m).decode(run.m);
    part(args.v).decode(run.v);
    kernels.update(factors, scale, run);
    part(args.m).encode(run.m);
    part(args.v).encode(run.v);
    if (problem.master) part(args.master).encode(run.w);
    part(args.w).encode(run.w);
  };
  const std::int64_t runs = ceil_div(problem.count, kAdamWRun);
  parallel_for(context.threads, ceil_div(runs, kTaskRuns), [&](std::int64_t task) {
    const std::int64_t end = std::min((task + 1) * kTaskRuns, runs);
    for (std::int64_t run = task * kTaskRuns; run < end; ++run) update(run * kAdamWRun);
  });
}

constinit const AdamWImplementation kAdamWCpuSimd{
    "cpu_simd",
    [](const AdamWProblem& problem, const Machine& machine) {
      const std::string refusal = refuse_off_simd(problem.device, machine);
      return refusal.empty() && problem.fp8 ? kAdamWNoFp8 : refusal;
    },
    [](const AdamWProblem& problem, const Machine& machine) {
      return planned_simd<AdamWArgs>(problem, machine, 0, adamw_cpu_simd);
    }};

}  // namespace octet
#endif
