// A grouped product and the dense products it must equal, for the tests of grouped_gemm. Operands
// are made per group and copied to their places among NaNs: rows behind the last group and token
// blocks that no group has are poisoned. Tokens behind the end of a group are zeros, as quantize
// writes them, or poisoned too, which the CPU does not notice.
#pragma once

#include "check/data/guarded.hpp"
#include "core/views.hpp"
#include "ops/gemm/product_case.hpp"
#include "ops/grouped_gemm/problem.hpp"

#include <algorithm>
#include <cmath>

namespace octet::testing {

using Sizes = std::vector<std::int64_t>;

// One group's operand as gemm takes it, [lines, k].
struct DenseOperand {
  QuantizedTensor fp8;
  Tensor plain;

  DenseOperand(std::int64_t lines, std::int64_t k, const GemmOperand& kind) {
    if (is_fp8(kind.dtype)) {
      fp8 = QuantizedTensor(lines, k, kind.dtype, kind.block);
    } else {
      plain = Tensor(kind.dtype, {lines, k});
    }
  }
  QuantizedView view() const {
    return plain.data() != nullptr ? QuantizedView(plain.view()) : fp8.view();
  }
  // The numbers that the product sees.
  double number(std::int64_t line, std::int64_t k) const {
    const QuantizedView operand = view();
    const TensorView& values = operand.values;
    const double value =
        load_f32(values.data, line * values.strides[0] + k * values.strides[1], values.dtype);
    if (operand.scales.data == nullptr) return value;
    return value * scale_at(operand, line / operand.block.rows, k / operand.block.cols);
  }
};

enum class Numbers { integers, random };

// Integers in [-2, 2] with scales of 1 to 8, or anything finite.
inline void fill(const DenseOperand& operand, Numbers numbers, std::mt19937_64& random) {
  const QuantizedView view = operand.view();
  const TensorView& values = view.values;
  std::normal_distribution<float> normal;
  std::uint8_t codes[5] = {};  // of -2 to 2
  for (int i = 0; is_fp8(values.dtype) && i < 5; ++i) {
    codes[i] = code_of(static_cast<float>(i - 2), values.dtype);
  }
  for (std::int64_t r = 0; r < values.rows(); ++r) {
    for (std::int64_t c = 0; c < values.cols(); ++c) {
      const int choice = static_cast<int>(random() % 5);
      if (!is_fp8(values.dtype)) {
        store_f32(values.data, r * values.strides[0] + c, values.dtype,
                  numbers == Numbers::integers ? static_cast<float>(choice - 2) : normal(random));
      } else if (numbers == Numbers::integers) {
        value_at(view, r, c) = codes[choice];
      } else {
        const auto code = static_cast<std::uint8_t>(random());
        const bool finite = (code & 0x7F) < (values.dtype == Dtype::e4m3 ? 0x7F : 0x7C);
        value_at(view, r, c) = finite ? code : 0x80;
      }
    }
  }
  if (view.scales.data == nullptr) return;
  std::uniform_real_distribution<float> uniform(0.5f, 2.0f);
  for (std::int64_t r = 0; r < view.scales.rows(); ++r) {
    for (std::int64_t c = 0; c < view.scales.cols(); ++c) {
      scale_at(view, r, c) =
          numbers == Numbers::integers ? static_cast<float>(1 << random() % 4) : uniform(random);
    }
  }
}

// Copies element by element, so that strides may differ.
inline void copy_elements(const TensorView& from, const TensorView& to) {
  ASSERT_EQ(from.dtype, to.dtype);
  const std::int64_t bytes = size_bytes(from.dtype);
  for (std::int64_t r = 0; r < from.rows(); ++r) {
    for (std::int64_t c = 0; c < from.cols(); ++c) {
      std::memcpy(
          static_cast<char*>(to.data) + (r * to.strides[0] + c * to.strides[1]) * bytes,
          static_cast<char*>(from.data) + (r * from.strides[0] + c * from.strides[1]) * bytes,
          static_cast<std::size_t>(bytes));
    }
  }
}

inline TensorView part(TensorView matrix, std::int64_t row, std::int64_t col) {
  matrix.data = static_cast<char*>(matrix.data) +
                (row * matrix.strides[0] + col * matrix.strides[1]) * size_bytes(matrix.dtype);
  return matrix;
}

// The last two dimensions exchanged.
inline TensorView turned(TensorView view) {
  std::swap(view.shape[view.rank - 2], view.shape[view.rank - 1]);
  std::swap(view.strides[view.rank - 2], view.strides[view.rank - 1]);
  return view;
}

inline Tensor make_table(const Sizes& sizes, std::int64_t rows) {
  const auto groups = static_cast<std::int64_t>(sizes.size());
  Tensor given(Dtype::i64, {groups});
  std::copy(sizes.begin(), sizes.end(), static_cast<std::int64_t*>(given.data()));
  Tensor table(Dtype::i32, {group_table_words(groups, rows)});
  GroupTableProblem problem{.groups = groups, .rows = rows};
  problem.sizes_dtype = Dtype::i64;
  run(plan_group_table(problem), {given, table});
  return table;
}

// What becomes of sizes that do not fit.
inline Sizes clamped(const Sizes& sizes, std::int64_t rows) {
  Sizes result;
  for (const std::int64_t size : sizes) {
    result.push_back(std::clamp<std::int64_t>(size, 0, rows));
    rows -= result.back();
  }
  return result;
}

// Grouped operands in memory that is all NaN but for what groups own.
class GroupedMemory {
 public:
  QuantizedView quantized(const QuantizedBatchLayout& layout) {
    Buffer& buffer = buffers_.emplace_back(layout.bytes);
    std::memset(buffer.data(), 0xFF, layout.bytes);
    return layout.view(buffer.data());
  }
  QuantizedView quantized(const QuantizedLayout& layout) {
    Buffer& buffer = buffers_.emplace_back(layout.bytes);
    std::memset(buffer.data(), 0xFF, layout.bytes);
    return layout.view(buffer.data());
  }
  TensorView plain(Dtype dtype, std::initializer_list<std::int64_t> shape) {
    const Tensor& tensor = tensors_.emplace_back(dtype, shape);
    std::memset(tensor.data(), 0xFF, tensor.bytes());
    return tensor.view();
  }

 private:
  std::vector<Buffer> buffers_;
  std::vector<Tensor> tensors_;
};

// One way to compute a grouped product, and the dense one of the same name.
struct GroupedRunner {
  std::function<void(const GroupedGemmProblem&, const GroupedGemmArgs&, int threads)> run;
  Runner dense;
};

inline std::vector<GroupedRunner> grouped_runners() {
  std::vector<GroupedRunner> runners;
  const auto add = [&](const GemmKernels& kernels) {
    const auto run = [&kernels](const GroupedGemmProblem& problem, const GroupedGemmArgs& args,
                                int threads) {
      const GemmChunks cut = gemm_chunks(product_bounds(problem), kernels);
      const Buffer workspace(cut.bytes());
      run_groups(problem, args, threads, [&](std::span<const CpuProduct> products) {
        run_products(products, cut, kernels, workspace.data(), threads);
      });
    };
    runners.push_back({run, with_kernels(kernels)});
  };
  for (const GemmKernels* kernels : kernels_of_this_cpu()) add(*kernels);
  const auto reference = [](const GroupedGemmProblem& problem, const GroupedGemmArgs& args,
                            int threads) {
    run(plan_grouped_gemm(problem, {"cpu_reference", threads}), args);
  };
  runners.push_back({reference, through_the_api("cpu_reference")});
  return runners;
}

enum class Padding { nan, zero };

struct GroupedCase {
  GroupedGemmProblem problem;
  Sizes sizes;  // as the table has them
  std::vector<DenseOperand> a;
  std::vector<DenseOperand> b;
  GroupedMemory memory;
  GroupedGemmArgs args;  // without d

  GroupedCase(const GroupedGemmProblem& given, const Sizes& given_sizes, Numbers numbers,
              std::uint64_t seed, Padding padding = Padding::nan)
      : problem(given), sizes(clamped(given_sizes, given.rows)), padding_(padding) {
    std::mt19937_64 random(seed);
    problem.groups = static_cast<std::int64_t>(sizes.size());
    table_ = make_table(given_sizes, problem.rows);
    args.table = table_.view();
    for (const std::int64_t size : sizes) {
      const std::int64_t m = over_rows() ? size : problem.n;
      const std::int64_t n = over_rows() ? problem.n : problem.k;
      const std::int64_t k = over_rows() ? problem.k : size;
      a.emplace_back(std::max<std::int64_t>(m, 1), std::max<std::int64_t>(k, 1), problem.a);
      b.emplace_back(n, std::max<std::int64_t>(k, 1), problem.b);
      fill(a.back(), numbers, random);
      fill(b.back(), numbers, random);
    }
    over_rows() ? place_over_rows() : place_over_contraction();
  }

  bool over_rows() const { return problem.over == GroupedOver::rows; }

  GemmProblem dense(std::size_t group) const {
    GemmProblem result;
    result.m = over_rows() ? sizes[group] : problem.n;
    result.n = over_rows() ? problem.n : problem.k;
    result.k = over_rows() ? problem.k : sizes[group];
    result.a = {problem.a.dtype, problem.a.block};
    result.b = {problem.b.dtype, problem.b.block};
    result.out_dtype = problem.out_dtype;
    result.accumulate = problem.accumulate;
    return result;
  }

  // d in guarded memory: [T, N] or [groups * N, K].
  GuardedMatrix output(std::int64_t gap) const {
    return over_rows()
               ? GuardedMatrix(problem.out_dtype, problem.rows, problem.n, gap)
               : GuardedMatrix(problem.out_dtype, problem.groups * problem.n, problem.k, gap);
  }
  GroupedGemmArgs with_output(const GuardedMatrix& output) const {
    GroupedGemmArgs result = args;
    result.d = output.view();
    if (!over_rows()) {
      result.d.rank = 3;
      result.d.shape = {problem.groups, problem.n, problem.k};
      const std::int64_t pitch = output.view().strides[0];
      result.d.strides = {problem.n * pitch, pitch, 1};
    }
    return result;
  }
  // The rows of output() that a group writes, or the tail for `group` == groups.
  TensorView part_of(const GuardedMatrix& output, std::size_t group) const {
    TensorView view = output.view();
    const auto first = static_cast<std::int64_t>(group) * problem.n;
    std::int64_t row = over_rows() ? 0 : first;
    for (std::size_t i = 0; over_rows() && i < group; ++i) row += sizes[i];
    view.data = static_cast<char*>(view.data) + row * view.strides[0] * size_bytes(view.dtype);
    view.shape[0] = !over_rows()           ? problem.n
                    : group < sizes.size() ? sizes[group]
                                           : problem.rows - row;
    return view;
  }

  std::string command() const {
    std::string list;
    for (const std::int64_t size : sizes) list += (list.empty() ? "" : ",") + std::to_string(size);
    return "octet check " + describe(problem) + " --group-sizes " + list;
  }

 private:
  void place_over_rows() {
    const auto& [rows, n, k] = std::tie(problem.rows, problem.n, problem.k);
    if (is_fp8(problem.a.dtype)) {
      args.a = memory.quantized(QuantizedLayout(rows, k, problem.a.dtype, problem.a.block));
      args.b = memory.quantized(
          QuantizedBatchLayout(problem.groups, n, k, problem.b.dtype, problem.b.block));
    } else {
      args.a = problem.a.major == Major::k ? memory.plain(problem.a.dtype, {rows, k})
                                           : turned(memory.plain(problem.a.dtype, {k, rows}));
      args.b = problem.b.major == Major::k
                   ? memory.plain(problem.b.dtype, {problem.groups, n, k})
                   : turned(memory.plain(problem.b.dtype, {problem.groups, k, n}));
    }
    std::int64_t row = 0;
    for (std::size_t group = 0; group < sizes.size(); ++group) {
      if (sizes[group] > 0) {
        copy_elements(a[group].view().values, part(args.a.values, row, 0));
        if (is_fp8(problem.a.dtype)) {
          copy_elements(a[group].view().scales, part(args.a.scales, row, 0));
        }
      }
      const QuantizedView matrix = matrix_of(args.b, static_cast<std::int64_t>(group));
      copy_elements(b[group].view().values, matrix.values);
      if (is_fp8(problem.b.dtype)) copy_elements(b[group].view().scales, matrix.scales);
      row += sizes[group];
    }
  }

  void place_over_contraction() {
    args.a = tokens(problem.a, a, problem.n);
    args.b = tokens(problem.b, b, problem.k);
  }

  QuantizedView tokens(const GemmOperand& kind, const std::vector<DenseOperand>& operands,
                       std::int64_t features) {
    const std::int64_t blocks = max_token_blocks(problem.groups, problem.rows);
    const QuantizedView all =
        is_fp8(kind.dtype) ? memory.quantized(QuantizedBatchLayout::token_blocks(
                                 blocks, features, kind.dtype, kind.block))
                           : QuantizedView(memory.plain(kind.dtype, {problem.rows, features}));
    std::int64_t row = 0;
    std::int64_t block = 0;
    for (std::size_t group = 0; group < sizes.size(); ++group) {
      if (sizes[group] == 0) continue;
      const QuantizedView operand = operands[group].view();  // [features, size]
      if (!is_fp8(kind.dtype)) {
        copy_elements(operand.values, turned(part(all.values, row, 0)));
      }
      for (std::int64_t first = 0; is_fp8(kind.dtype) && first < sizes[group]; first += kBlock) {
        TensorView slice = part(operand.values, 0, first);
        slice.shape[1] = std::min(kBlock, sizes[group] - first);
        TensorView scales = part(operand.scales, 0, first / kBlock);
        scales.shape[1] = 1;
        const QuantizedView to = matrix_of(all, block++);
        for (std::int64_t r = 0; padding_ == Padding::zero && r < features; ++r) {
          std::memset(&value_at(to, r, 0), 0, kBlock);
        }
        copy_elements(slice, to.values);
        copy_elements(scales, to.scales);
      }
      row += sizes[group];
    }
    return all;
  }

  Tensor table_;
  Padding padding_;
};

// The formats of a and b, and what groups run over.
struct GroupedPairing {
  const char* name;
  GroupedOver over;
  GemmOperand a;
  GemmOperand b;

  GroupedGemmProblem problem(std::int64_t rows, std::int64_t n, std::int64_t k) const {
    GroupedGemmProblem result;
    result.over = over;
    result.rows = rows;
    result.n = n;
    result.k = k;
    result.a = a;
    result.b = b;
    return result;
  }
};

inline const std::vector<GroupedPairing>& grouped_pairings() {
  constexpr auto kRows = GroupedOver::rows;
  constexpr auto kContraction = GroupedOver::contraction;
  static const std::vector<GroupedPairing> all{
      {"rows_1d2d", kRows, {Dtype::e4m3, kBlock1x128}, {Dtype::e4m3, kBlock128x128}},
      {"rows_1d1d", kRows, {Dtype::e4m3, kBlock1x128}, {Dtype::e4m3, kBlock1x128}},
      {"rows_1d2d_e5m2_e4m3", kRows, {Dtype::e5m2, kBlock1x128}, {Dtype::e4m3, kBlock128x128}},
      {"rows_1d1d_e5m2_e5m2", kRows, {Dtype::e5m2, kBlock1x128}, {Dtype::e5m2, kBlock1x128}},
      {"rows_1d2d_e4m3_e5m2", kRows, {Dtype::e4m3, kBlock1x128}, {Dtype::e5m2, kBlock128x128}},
      {"rows_bf16", kRows, {Dtype::bf16, {}}, {Dtype::bf16, {}}},
      {"rows_f16_b_mn", kRows, {Dtype::f16, {}}, {Dtype::f16, {}, Major::mn}},
      {"rows_f32_both_mn", kRows, {Dtype::f32, {}, Major::mn}, {Dtype::f32, {}, Major::mn}},
      {"sum_1d2d", kContraction, {Dtype::e4m3, kBlock1x128}, {Dtype::e4m3, kBlock128x128}},
      {"sum_1d1d", kContraction, {Dtype::e4m3, kBlock1x128}, {Dtype::e4m3, kBlock1x128}},
      {"sum_2d1d", kContraction, {Dtype::e4m3, kBlock128x128}, {Dtype::e4m3, kBlock1x128}},
      {"sum_1d2d_e5m2_e4m3",
       kContraction,
       {Dtype::e5m2, kBlock1x128},
       {Dtype::e4m3, kBlock128x128}},
      {"sum_1d1d_e5m2_e5m2", kContraction, {Dtype::e5m2, kBlock1x128}, {Dtype::e5m2, kBlock1x128}},
      {"sum_bf16", kContraction, {Dtype::bf16, {}, Major::mn}, {Dtype::bf16, {}, Major::mn}},
      {"sum_f16", kContraction, {Dtype::f16, {}, Major::mn}, {Dtype::f16, {}, Major::mn}},
      {"sum_f32", kContraction, {Dtype::f32, {}, Major::mn}, {Dtype::f32, {}, Major::mn}},
  };
  return all;
}

inline std::string pairing_name(const ::testing::TestParamInfo<GroupedPairing>& info) {
  return info.param.name;
}

}  // namespace octet::testing
