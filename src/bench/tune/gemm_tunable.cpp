// What octet tune runs of gemm and grouped_gemm: products of random operands.
#include "bench/tune/operator_tunable.hpp"
#include "bench/workloads/tensors.hpp"
#include "check/data/group_sizes.hpp"
#include "core/views.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/group_table/problem.hpp"
#include "ops/grouped_gemm/problem.hpp"

#include <array>

namespace octet::bench {
namespace {

std::size_t operand_bytes(const GemmOperand& operand, std::int64_t rows, std::int64_t cols) {
  return is_fp8(operand.dtype) ? quantized_bytes(operand.dtype, rows, cols, operand.block)
                               : tensor_bytes(operand.dtype, {rows, cols});
}

// [rows, cols] of N(0, 1); with `transposed_rows` the columns are contiguous.
Tensor random_tensor(Dtype dtype, std::int64_t rows, std::int64_t cols, bool transposed_rows,
                     const DataOptions& options, std::uint32_t stream, Device device) {
  Tensor tensor(dtype, {transposed_rows ? cols : rows, transposed_rows ? rows : cols}, device);
  fill_input(tensor, options, stream);
  return tensor;
}

// Runs a cast and waits for it: its input may be released then.
void cast(const QuantizeProblem& problem, const QuantizeArgs& args, const DataOptions& options) {
  const QuantizePlan plan = plan_quantize(problem, {.threads = options.threads});
  const Buffer scratch(plan.workspace_bytes, problem.device);
  run(plan, args, {scratch.data(), scratch.bytes()});
  if (problem.device.type == DeviceType::cuda) cuda::synchronize(problem.device.index);
}

// An operand of random numbers: cast to FP8, or as it is.
struct Operand {
  QuantizedTensor fp8;
  Tensor plain;
  QuantizedView view;
};

// [rows, k]
Operand random_operand(const GemmOperand& form, std::int64_t rows, std::int64_t k,
                       const DataOptions& options, std::uint32_t stream, Device device) {
  Operand result;
  const bool turned = form.major == Major::mn;
  Tensor input = random_tensor(is_fp8(form.dtype) ? Dtype::bf16 : form.dtype, rows, k, turned,
                               options, stream, device);
  if (is_fp8(form.dtype)) {
    QuantizeProblem problem{.rows = rows, .cols = k, .format = form.dtype, .block = form.block};
    problem.device = device;
    result.fp8 = QuantizedTensor(rows, k, form.dtype, form.block, device);
    cast(problem, {input, result.fp8, {}}, options);
    result.view = result.fp8;
  } else {
    result.plain = std::move(input);
    result.view = turned ? transposed(result.plain) : result.plain.view();
  }
  return result;
}

class GemmData {
 public:
  GemmData(const GemmProblem& problem, const DataOptions& options)
      : problem_(problem), options_(options) {}

  std::size_t bytes() const {
    return operand_bytes(problem_.a, problem_.m, problem_.k) +
           operand_bytes(problem_.b, problem_.n, problem_.k);
  }

  std::size_t output_bytes() const {
    return tensor_bytes(problem_.out_dtype, {problem_.m, problem_.n});
  }

  void make(std::int64_t sets) {
    const auto& [m, n, k, device] = std::tie(problem_.m, problem_.n, problem_.k, problem_.device);
    for (Tensor& output : outputs_) output = Tensor(problem_.out_dtype, {m, n}, device);
    if (problem_.bias_dtype) {
      bias_ = Tensor(*problem_.bias_dtype, {n}, device);
      fill_input(as_row(bias_), options_, 2);
    }
    for (std::int64_t i = 0; i < sets; ++i) {
      sets_.push_back({random_operand(problem_.a, m, k, options_, 0, device),
                       random_operand(problem_.b, n, k, options_, 1, device)});
    }
  }

  std::vector<TensorView> outputs(int which) const {
    return {outputs_[static_cast<std::size_t>(which)]};
  }
  GemmArgs args(std::int64_t set, int outputs) const {
    const auto& [a, b] = sets_[static_cast<std::size_t>(set)];
    return {a.view, b.view, outputs_[static_cast<std::size_t>(outputs)], bias_};
  }

 private:
  struct Set {
    Operand a, b;
  };

  GemmProblem problem_;
  DataOptions options_;
  std::array<Tensor, 2> outputs_;
  Tensor bias_;
  std::vector<Set> sets_;
};

class GroupedGemmData {
 public:
  GroupedGemmData(const GroupedGemmProblem& problem, const DataOptions& options)
      : problem_(problem), options_(options) {}

  // Weights are what every call reads most of; over the contraction, the rows are.
  std::size_t bytes() const {
    const auto& [groups, rows, n, k] =
        std::tie(problem_.groups, problem_.rows, problem_.n, problem_.k);
    return over_rows()
               ? operand_bytes(problem_.a, rows, k) + operand_bytes(problem_.b, groups * n, k)
               : operand_bytes(problem_.a, rows, n) + operand_bytes(problem_.b, rows, k);
  }

  std::size_t output_bytes() const {
    return tensor_bytes(problem_.out_dtype, {output_rows(), output_cols()});
  }

  void make(std::int64_t sets) {
    const Device device = problem_.device;
    for (Tensor& output : outputs_)
      output = Tensor(problem_.out_dtype, {output_rows(), output_cols()}, device);
    const std::int64_t filled = problem_.expected_rows > 0 ? problem_.expected_rows : problem_.rows;
    table_ =
        make_group_table(group_sizes(options_.group_spread, problem_.groups, filled, options_.seed),
                         problem_.rows, device);
    for (std::int64_t i = 0; i < sets; ++i) {
      sets_.push_back(
          over_rows() ? Set{tokens(problem_.a, problem_.k, 0), weights()}
                      : Set{tokens(problem_.a, problem_.n, 0), tokens(problem_.b, problem_.k, 1)});
    }
  }

  std::vector<TensorView> outputs(int which) const {
    return {outputs_[static_cast<std::size_t>(which)]};
  }
  GroupedGemmArgs args(std::int64_t set, int outputs) const {
    const auto& [a, b] = sets_[static_cast<std::size_t>(set)];
    TensorView d = outputs_[static_cast<std::size_t>(outputs)];
    if (!over_rows()) {
      d = make_view(d.data, d.dtype, {problem_.groups, problem_.n, problem_.k}, d.device);
    }
    return {a.view, b.view, d, table_};
  }

 private:
  struct Set {
    Operand a, b;
  };
  bool over_rows() const { return problem_.over == GroupedOver::rows; }
  std::int64_t output_rows() const {
    return over_rows() ? problem_.rows : problem_.groups * problem_.n;
  }
  std::int64_t output_cols() const { return over_rows() ? problem_.n : problem_.k; }

  // Rows of groups: [T, features], or in FP8 over the contraction their token blocks.
  Operand tokens(const GemmOperand& form, std::int64_t features, std::uint32_t stream) const {
    Operand result;
    const Device device = problem_.device;
    const Dtype dtype = is_fp8(form.dtype) ? Dtype::bf16 : form.dtype;
    Tensor input = random_tensor(dtype, problem_.rows, features, false, options_, stream, device);
    if (!is_fp8(form.dtype)) {
      result.plain = std::move(input);
      result.view = result.plain.view();
      return result;
    }
    QuantizeProblem problem{.rows = problem_.rows, .cols = features, .format = form.dtype};
    problem.groups = problem_.groups;
    problem.device = device;
    if (over_rows()) {
      problem.block = form.block;
      result.fp8 = QuantizedTensor(problem_.rows, features, form.dtype, form.block, device);
      cast(problem, {input, result.fp8, {}, table_}, options_);
    } else {
      problem.block.reset();
      problem.transposed_block = form.block;
      result.fp8 = QuantizedTensor(
          QuantizedBatchLayout::token_blocks(max_token_blocks(problem_.groups, problem_.rows),
                                             features, form.dtype, form.block),
          device);
      cast(problem, {input, {}, result.fp8, table_}, options_);
    }
    result.view = result.fp8;
    return result;
  }

  // [groups, N, K]
  Operand weights() const {
    Operand result;
    const auto& [groups, n, k, device] =
        std::tie(problem_.groups, problem_.n, problem_.k, problem_.device);
    const GemmOperand& form = problem_.b;
    const bool turned = form.major == Major::mn;
    const std::int64_t rows = turned ? k : n, cols = turned ? n : k;
    Tensor input(is_fp8(form.dtype) ? Dtype::bf16 : form.dtype, {groups, rows, cols}, device);
    fill_input(make_matrix(input.data(), input.view().dtype, groups * rows, cols, cols, device),
               options_, 1);
    if (!is_fp8(form.dtype)) {
      result.plain = std::move(input);
      TensorView view = result.plain;
      if (turned) {
        std::swap(view.shape[1], view.shape[2]);
        std::swap(view.strides[1], view.strides[2]);
      }
      result.view = view;
      return result;
    }
    QuantizeProblem problem{.rows = n, .cols = k, .format = form.dtype, .block = form.block};
    problem.batch = groups;
    problem.device = device;
    result.fp8 =
        QuantizedTensor(QuantizedBatchLayout(groups, n, k, form.dtype, form.block), device);
    cast(problem, {input, result.fp8, {}}, options_);
    result.view = result.fp8;
    return result;
  }

  GroupedGemmProblem problem_;
  DataOptions options_;
  std::array<Tensor, 2> outputs_;
  Tensor table_;
  std::vector<Set> sets_;
};

}  // namespace

std::unique_ptr<Tunable> make_tunable(const GemmProblem& problem, const DataOptions& options) {
  check(problem);
  return std::make_unique<OperatorTunable<GemmProblem, ForwardPass, GemmData>>(
      "gemm", gemm_implementations(), problem, problem, plan_gemm, check_gemm, options);
}

std::unique_ptr<Tunable> make_tunable(const GroupedGemmProblem& problem,
                                      const DataOptions& options) {
  check(problem);
  return std::make_unique<OperatorTunable<GroupedGemmProblem, ForwardPass, GroupedGemmData>>(
      "grouped_gemm", grouped_gemm_implementations(), problem, problem, plan_grouped_gemm,
      check_grouped_gemm, options);
}

}  // namespace octet::bench
