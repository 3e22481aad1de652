// Copies element by element in the coordinates of the tensor; rows that are contiguous in both
// layouts are copied with memcpy, so SIMD would add nothing.
#include "core/checks.hpp"
#include "cpu/outputs.hpp"
#include "cpu/threads.hpp"
#include "ops/repack/problem.hpp"

#include <algorithm>
#include <cstring>

namespace octet {
namespace {

void copy_rows(const TensorView& from, const TensorView& to, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    std::memcpy(static_cast<std::uint8_t*>(to.data) + r * to.strides[0],
                static_cast<const std::uint8_t*>(from.data) + r * from.strides[0],
                static_cast<std::size_t>(from.cols()));
  }
}

// 128 columns at a time, so that a transposed input is read from the cache.
void gather_rows(const TensorView& from, const TensorView& to, std::int64_t begin,
                 std::int64_t end) {
  const auto* input = static_cast<const std::uint8_t*>(from.data);
  auto* out = static_cast<std::uint8_t*>(to.data);
  for (std::int64_t col = 0; col < from.cols(); col += kBlock) {
    const std::int64_t col_end = std::min(col + kBlock, from.cols());
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t c = col; c < col_end; ++c) {
        out[r * to.strides[0] + c] = input[r * from.strides[0] + c * from.strides[1]];
      }
    }
  }
}

template <class Scale>
void copy_scales(const TensorView& from, const TensorView& to) {
  const auto* input = static_cast<const Scale*>(from.data);
  auto* out = static_cast<Scale*>(to.data);
  for (std::int64_t r = 0; r < from.rows(); ++r) {
    for (std::int64_t c = 0; c < from.cols(); ++c) {
      out[r * to.strides[0] + c * to.strides[1]] = input[r * from.strides[0] + c * from.strides[1]];
    }
  }
}

void run_reference(const RepackProblem& problem, const RepackArgs& args,
                   const RunContext& context) {
  const TensorView& from = args.input.values;
  const TensorView& to = args.out.values;
  const bool contiguous = from.strides[1] == 1 || from.cols() == 1;
  parallel_for(context.threads, ceil_div(problem.rows, kBlock), [&](std::int64_t band) {
    const std::int64_t end = std::min((band + 1) * kBlock, problem.rows);
    if (contiguous) {
      copy_rows(from, to, band * kBlock, end);
    } else {
      gather_rows(from, to, band * kBlock, end);
    }
  });
  if (scale_dtype(problem.block) == Dtype::ue8m0) {
    copy_scales<std::uint8_t>(args.input.scales, args.out.scales);
  } else {
    copy_scales<std::uint32_t>(args.input.scales, args.out.scales);
  }
  clear_padding(args.out);
}

}  // namespace

const RepackImplementation kRepackCpuReference{
    "cpu_reference",
    [](const RepackProblem& problem, const Machine&) { return refuse_off_cpu(problem.device); },
    [](const RepackProblem& problem, const Machine& machine) {
      return planned<RepackArgs>(problem, text("threads=", machine.threads), 0, run_reference);
    },
};

}  // namespace octet
