#include "check/judge/trial.hpp"

#include "check/cuda_gates.hpp"
#include "core/numeric.hpp"
#include "cpu/threads.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace octet {
namespace {

// Calls visit(offset in x, offset in y) for every element of two matrices of one shape, in squares,
// because the two may differ in which dimension is contiguous.
template <class Visit>
void visit_both(const TensorView& x, const TensorView& y, std::int64_t first_row,
                std::int64_t end_row, const Visit& visit) {
  constexpr std::int64_t kSquare = 64;
  for (std::int64_t row = first_row; row < end_row; row += kSquare) {
    for (std::int64_t col = 0; col < x.cols(); col += kSquare) {
      for (std::int64_t r = row; r < std::min(row + kSquare, end_row); ++r) {
        for (std::int64_t c = col; c < std::min(col + kSquare, x.cols()); ++c) {
          visit(r * x.strides[0] + c * x.strides[1], r * y.strides[0] + c * y.strides[1]);
        }
      }
    }
  }
}

template <class T>
void copy_matrix(const TensorView& from, const TensorView& to) {
  const auto* x = static_cast<const T*>(from.data);
  auto* y = static_cast<T*>(to.data);
  constexpr std::int64_t kParts = 64;
  parallel_for(default_threads(), kParts, [&](std::int64_t part) {
    visit_both(from, to, from.rows() * part / kParts, from.rows() * (part + 1) / kParts,
               [=](std::int64_t i, std::int64_t j) { y[j] = x[i]; });
  });
}

template <class T>
void copy_wherever(const TensorView& from, const TensorView& to) {
  if (from.device.type == DeviceType::cuda) return cuda::copy_matrix(from, to);
  copy_matrix<T>(from, to);
}

}  // namespace

bool GateReport::pass() const {
  for (const GateResult& result : results) {
    if (!result.pass) return false;
  }
  return !results.empty();
}

double GateReport::snr_db(const std::string& gate, const std::string& tensor) const {
  for (const GateResult& result : results) {
    if (result.gate == gate && result.tensor == tensor) return result.snr_db;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

JudgeOptions judge_options(const DataOptions& options, Device device) {
  JudgeOptions result;
  result.zero_mean = options.distribution != Distribution::one_signed;
  result.device = device.type;
  if (device.type == DeviceType::cuda) result.sample_beyond = kSampleBeyondOnCuda;
  result.seed = options.seed;
  result.threads = options.threads;
  return result;
}

Tensor random_matrix(Dtype dtype, std::int64_t rows, std::int64_t cols, std::uint32_t stream,
                     const DataOptions& options, Device device) {
  Tensor matrix(dtype, {rows, cols}, device);
  fill_random(matrix, options.distribution, {options.seed, stream}, options.threads);
  return matrix;
}

Tensor random_weights(Dtype dtype, std::int64_t rows, std::int64_t cols, std::uint32_t stream,
                      const DataOptions& options, Device device) {
  Tensor weights = random_matrix(dtype, rows, cols, stream, options, kCpu);
  const auto factor =
      static_cast<float>(std::exp2(-std::round(std::log2(std::sqrt(static_cast<double>(cols))))));
  parallel_for(options.threads != 0 ? options.threads : default_threads(), rows,
               [&](std::int64_t row) {
                 for (std::int64_t i = row * cols; i < (row + 1) * cols; ++i) {
                   const float value = load_f32(weights.data(), i, dtype);
                   store_f32(weights.data(), i, dtype, value * factor);
                 }
               });
  if (device.type == DeviceType::cpu) return weights;
  Tensor copy(dtype, {rows, cols}, device);
  cuda::copy(copy.data(), weights.data(), copy.bytes(), device.index);
  return copy;
}

QuantizedOperand::QuantizedOperand(const std::string& tensor, const TensorView& input,
                                   Transpose transpose, const OracleRules& rules,
                                   const DataOptions& options, GateReport& report) {
  const TensorView matrix = transpose == Transpose::yes ? transposed(input) : input;
  if (input.device.type == DeviceType::cpu) {
    oracle_ = quantize_oracle(matrix, rules, options.threads);
    view_ = oracle_.view();
    return;
  }
  write_on_cuda(input, transpose, rules, options);
  report.results.push_back(
      judge_quantizer(tensor, view_, matrix, rules, judge_options(options, input.device)));
}

void QuantizedOperand::write_on_cuda(const TensorView& input, Transpose transpose,
                                     const OracleRules& rules, const DataOptions& options) {
  const bool is_transposed = transpose == Transpose::yes;
  QuantizeProblem problem;
  problem.rows = input.rows();
  problem.cols = input.cols();
  problem.input_dtype = input.dtype;
  problem.format = rules.format;
  problem.amax_floor = rules.amax_floor;
  problem.pow2_scales = rules.pow2_scales;
  problem.fold_mx = rules.fold_mx;
  problem.mx_scale = rules.mx_scale;
  problem.device = input.device;
  problem.block.reset();
  (is_transposed ? problem.transposed_block : problem.block) = rules.block;
  written_ = QuantizedTensor(is_transposed ? input.cols() : input.rows(),
                             is_transposed ? input.rows() : input.cols(), rules.format, rules.block,
                             input.device);
  view_ = written_.view();
  QuantizeArgs args{input, {}, {}};
  (is_transposed ? args.transposed : args.out) = view_;
  run_once(plan_quantize(problem, {options.quantize_backend, options.threads}), args, input.device);
}

void copy_elements(const QuantizedView& from, const QuantizedView& to) {
  copy_wherever<std::uint8_t>(from.values, to.values);
  if (from.scales.dtype == Dtype::ue8m0) {
    copy_wherever<std::uint8_t>(from.scales, to.scales);
  } else {
    copy_wherever<float>(from.scales, to.scales);
  }
}

QuantizedTensor in_our_layout(const QuantizedView& view) {
  QuantizedTensor result(view.values.rows(), view.values.cols(), view.values.dtype, view.block,
                         view.values.device);
  copy_elements(view, result.view());
  return result;
}

void add(GateReport& report, std::vector<GateResult> results) {
  for (GateResult& result : results) report.results.push_back(std::move(result));
}

}  // namespace octet
