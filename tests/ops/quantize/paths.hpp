// Every way this machine can quantise, and copies laid out as a foreign library might have them.
#pragma once

#include "core/checks.hpp"
#include "core/numeric.hpp"
#include "ops/quantize/cpu_simd.hpp"
#include "ops/quantize/problem.hpp"
#include "support/simd.hpp"

#include <octet/octet.hpp>

#include <random>
#include <string>
#include <vector>

namespace octet {

enum class Path { reference, avx2, avx512 };

inline std::string name(Path path) {
  return path == Path::reference ? "cpu_reference" : path == Path::avx2 ? "avx2" : "avx512";
}

inline std::vector<Path> simd_paths() {
  std::vector<Path> result;
  for (const InstructionSet instructions : instruction_sets()) {
    result.push_back(instructions == InstructionSet::avx512 ? Path::avx512 : Path::avx2);
  }
  return result;
}

inline std::vector<Path> all_paths() {
  std::vector<Path> result = simd_paths();
  result.push_back(Path::reference);
  return result;
}

// `make_plan` plans the operator; `run_simd` is its SIMD implementation.
template <class Problem, class Args, class MakePlan, class RunSimd>
void run_by(Path path, const Problem& problem, const Args& args, int threads,
            const MakePlan& make_plan, const RunSimd& run_simd) {
  if (path == Path::reference) {
    run(make_plan(problem, {"cpu_reference", threads}), args);
    return;
  }
  check(problem);
  check(problem, args, 0, {});
  run_simd(problem, args, {{}, threads},
           path == Path::avx512 ? InstructionSet::avx512 : InstructionSet::avx2);
}

inline void quantize_by(Path path, const QuantizeProblem& problem, const QuantizeArgs& args,
                        int threads = 2) {
  run_by(path, problem, args, threads, plan_quantize, quantize_cpu_simd);
}

// Values start 48 bytes into their memory and have a generous pitch; scales have gaps in both
// directions. All bytes, gaps included, start as 0xA5.
class ForeignCopy {
 public:
  ForeignCopy(std::int64_t rows, std::int64_t cols, Dtype dtype, BlockShape block)
      : pitch_(round_up(cols, 16) + 32),
        scale_rows_(ceil_div(rows, block.rows)),
        scale_cols_(ceil_div(cols, block.cols)),
        values_(static_cast<std::size_t>(48 + rows * pitch_ + 48), 0xA5),
        scales_(static_cast<std::size_t>(3 + scale_rows_ * (2 * scale_cols_ + 1)),
                f32_from_bits(0xA5A5A5A5u)) {
    view_ = QuantizedView(
        make_matrix(values_.data() + 48, dtype, rows, cols, pitch_),
        make_matrix(scales_.data() + 1, Dtype::f32, scale_rows_, scale_cols_, 2 * scale_cols_ + 1),
        block);
    view_.scales.strides[1] = 2;
  }
  ForeignCopy(const ForeignCopy&) = delete;
  ForeignCopy& operator=(const ForeignCopy&) = delete;

  const QuantizedView& view() const { return view_; }
  std::uint8_t code(std::int64_t row, std::int64_t col) const {
    return values_[static_cast<std::size_t>(48 + row * pitch_ + col)];
  }
  float scale(std::int64_t row, std::int64_t col) const {
    return scales_[static_cast<std::size_t>(1 + row * (2 * scale_cols_ + 1) + col * 2)];
  }
  const std::vector<std::uint8_t>& values() const { return values_; }
  std::vector<std::uint32_t> scale_bits() const {
    std::vector<std::uint32_t> bits;
    for (float scale : scales_) bits.push_back(bits_of(scale));
    return bits;
  }

 private:
  std::int64_t pitch_;
  std::int64_t scale_rows_;
  std::int64_t scale_cols_;
  std::vector<std::uint8_t> values_;
  std::vector<float> scales_;
  QuantizedView view_;
};

// The copies a problem asks for; the others are placeholders that nothing touches.
struct ForeignCopies {
  ForeignCopy out;
  ForeignCopy transposed;

  explicit ForeignCopies(const QuantizeProblem& problem)
      : out(problem.rows, problem.cols, problem.format, problem.block.value_or(kBlock128x128)),
        transposed(problem.cols, problem.rows, problem.format,
                   problem.transposed_block.value_or(kBlock128x128)) {}

  QuantizeArgs args(const TensorView& input) const {
    return {input, out.view(), transposed.view()};
  }
};

// A matrix of any float dtype with `gap` elements between its rows, which starts one element into
// its memory.
class Input {
 public:
  Input(std::int64_t rows, std::int64_t cols, Dtype dtype, std::int64_t gap = 0)
      : memory_(static_cast<std::size_t>((rows * (cols + gap) + 1) * size_bytes(dtype))) {
    view_ = make_matrix(memory_.data() + size_bytes(dtype), dtype, rows, cols, cols + gap);
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  const TensorView& view() const { return view_; }
  void set(std::int64_t row, std::int64_t col, float value) {
    store_f32(view_.data, row * view_.strides[0] + col, view_.dtype, value);
  }
  float at(std::int64_t row, std::int64_t col) const {
    return load_f32(view_.data, row * view_.strides[0] + col, view_.dtype);
  }

 private:
  std::vector<std::uint8_t> memory_;
  TensorView view_;
};

}  // namespace octet
