#include "check/data/random.hpp"

#include "check/cuda_gates.hpp"
#include "core/checks.hpp"
#include "core/message.hpp"
#include "cpu/instruction_set.hpp"
#include "cpu/threads.hpp"

#include <algorithm>
#include <cmath>

namespace octet {
namespace {

constexpr int kCounters = 16;  // per group
constexpr std::uint64_t kGroup = 4 * kCounters;
constexpr std::int64_t kRun = 32 * kGroup;  // numbers made at a time: 8 KiB, within the L1 cache
constexpr std::int64_t kTask = 64 * kRun;   // numbers of one task of a thread

// Makes the numbers of one group, lane by lane so that the compiler can use whole vectors.
inline __attribute__((always_inline)) void make_group(RandomStream stream, std::uint64_t group,
                                                      float* out) {
  std::uint32_t words[4][kCounters];
  for (int lane = 0; lane < kCounters; ++lane) {
    const PhiloxBlock block = random_words(stream, RandomUse::value, group * kCounters + lane);
    for (int w = 0; w < 4; ++w) words[w][lane] = block.word[w];
  }
  for (int w = 0; w < 4; ++w) {
    for (int lane = 0; lane < kCounters; ++lane) {
      out[w * kCounters + lane] = normal_from_bits(words[w][lane]);
    }
  }
}

OCTET_CPU_CLONES void make_groups(RandomStream stream, std::uint64_t first, std::int64_t count,
                                  float* out) {
  for (std::int64_t g = 0; g < count; ++g) {
    make_group(stream, first + static_cast<std::uint64_t>(g), out + g * kGroup);
  }
}

OCTET_CPU_CLONES void store_f32s(const float* from, std::int64_t count, float factor, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i] * factor;
}
OCTET_CPU_CLONES void store_bf16s(const float* from, std::int64_t count, float factor,
                                  std::uint16_t* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = bf16_from_f32(from[i] * factor);
}
OCTET_CPU_CLONES void store_f16s(const float* from, std::int64_t count, float factor,
                                 std::uint16_t* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = f16_from_f32(from[i] * factor);
}

void store(const TensorView& matrix, std::int64_t index, const float* from, std::int64_t count,
           float factor) {
  if (matrix.dtype == Dtype::f32) {
    store_f32s(from, count, factor, static_cast<float*>(matrix.data) + index);
  } else if (matrix.dtype == Dtype::bf16) {
    store_bf16s(from, count, factor, static_cast<std::uint16_t*>(matrix.data) + index);
  } else {
    store_f16s(from, count, factor, static_cast<std::uint16_t*>(matrix.data) + index);
  }
}

// Stores numbers [begin, end) of a matrix, made from their N(0, 1) values in `from`.
void place(const TensorView& matrix, Distribution distribution, RandomStream stream,
           std::int64_t begin, std::int64_t end, const float* from) {
  const std::int64_t cols = matrix.cols();
  const auto blocks_per_row = static_cast<std::uint64_t>(ceil_div(cols, 128));
  for (std::int64_t i = begin; i < end;) {
    const std::int64_t row = i / cols;
    const std::int64_t col = i % cols;
    std::int64_t count = std::min(cols - col, end - i);
    float factor = 1;
    if (distribution == Distribution::skewed) {
      count = std::min(count, 128 - col % 128);
      factor = skew(stream, static_cast<std::uint64_t>(row / 128) * blocks_per_row +
                                static_cast<std::uint64_t>(col / 128));
    }
    store(matrix, row * matrix.strides[0] + col, from + (i - begin), count, factor);
    i += count;
  }
}

// The numbers of a run that begins at `first`, a multiple of kOutlierRun.
void enlarge_outliers(RandomStream stream, std::int64_t first, float (&numbers)[kRun]) {
  for (std::uint64_t at = 0; at < kRun; at += kOutlierRun) {
    const std::uint64_t run = (static_cast<std::uint64_t>(first) + at) / kOutlierRun;
    numbers[at + random_below(stream, RandomUse::outlier, run, std::uint32_t{kOutlierRun})] *= 100;
  }
}

void fill_task(const TensorView& matrix, Distribution distribution, RandomStream stream,
               std::int64_t begin, std::int64_t end) {
  alignas(64) float numbers[kRun];
  for (std::int64_t i = begin; i < end; i += kRun) {
    const std::int64_t run_end = std::min(i + kRun, end);
    make_groups(stream, static_cast<std::uint64_t>(i) / kGroup, ceil_div(run_end - i, kGroup),
                numbers);
    if (distribution == Distribution::one_signed) {
      for (float& number : numbers) number = std::fabs(number);
    }
    if (distribution == Distribution::outliers) enlarge_outliers(stream, i, numbers);
    place(matrix, distribution, stream, i, run_end, numbers);
  }
}

}  // namespace

float random_normal(RandomStream stream, std::uint64_t index) {
  const std::uint64_t counter = index / kGroup * kCounters + index % kCounters;
  const PhiloxBlock block = random_words(stream, RandomUse::value, counter);
  return normal_from_bits(block.word[index / kCounters % 4]);
}

void fill_random(const TensorView& matrix, Distribution distribution, RandomStream stream,
                 int threads) {
  constexpr std::string_view kOp = "fill_random";
  check_float({kOp, "matrix"}, matrix.dtype);
  if (matrix.rank != 2 || matrix.data == nullptr) {
    refuse_argument(kOp, ": matrix must be a matrix with data, got ", describe(matrix));
  }
  check_view({kOp, "matrix"}, matrix,
             MatrixForm{matrix.dtype, matrix.rows(), matrix.cols(), "[rows, cols]"}, matrix.device);
  if (matrix.device.type == DeviceType::cuda) {
    check_device(kOp, matrix.device);
    return cuda::fill_random(matrix, distribution, stream);
  }
  const std::int64_t total = matrix.rows() * matrix.cols();
  parallel_for(threads != 0 ? threads : default_threads(), ceil_div(total, kTask),
               [&](std::int64_t task) {
                 const std::int64_t begin = task * kTask;
                 fill_task(matrix, distribution, stream, begin, std::min(begin + kTask, total));
               });
}

}  // namespace octet
