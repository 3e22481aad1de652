#include "check/judge/written_groups.hpp"

#include "check/judge/compare_outputs.hpp"
#include "check/reference/on_host.hpp"
#include "core/checks.hpp"
#include "core/views.hpp"

#include <algorithm>
#include <numeric>

namespace octet {
namespace {

QuantizedView view_of(const std::optional<CopyWrittenTwice>& copy, int call) {
  return copy ? (call == 0 ? copy->first : copy->second).view() : QuantizedView();
}

Part whole(const TensorView& matrix) { return {0, matrix.rows(), 0, matrix.cols()}; }

// Between a matrix on any device and the oracle's cast of `input`, whatever its device.
std::int64_t differences_of_matrix(const QuantizedView& given, const TensorView& input,
                                   const OracleRules& rules, int threads) {
  const PartOnHost x(input, whole(input));
  const PartOnHost values(given.values, whole(given.values));
  const PartOnHost scales(given.scales, whole(given.scales));
  const OracleTensor wanted = quantize_oracle(x.view(), rules, threads);
  return count_differences({values.view(), scales.view(), rules.block}, wanted.view());
}

// Matrix by matrix, or as a whole.
std::int64_t differences_between(const QuantizedView& first, const QuantizedView& second) {
  if (first.values.rank == 2) return count_differences(first, second);
  std::int64_t differences = 0;
  for (std::int64_t i = 0; i < first.values.shape[0]; ++i) {
    differences += count_differences(matrix_of(first, i), matrix_of(second, i));
  }
  return differences;
}

// Elements that do not have these bits. `lines`: the elements of a matrix with contiguous columns.
std::int64_t count_other(const TensorView& lines, std::uint32_t bits) {
  return lines.rows() * lines.cols() -
         count_equal(elements_of(lines), bits, static_cast<int>(size_bytes(lines.dtype)));
}

}  // namespace

void CopyWrittenTwice::report(const std::string& tensor, std::int64_t differences,
                              std::int64_t written, GateReport& report) const {
  report.results.push_back(judge_differences("Q", tensor, differences));
  report.results.push_back(
      judge_differences("G5", tensor, differences_between(first.view(), second.view())));
  report.results.push_back(judge_g6(tensor, first.inspect(written), second.inspect(written)));
}

Fp8BatchWrittenTwice::Fp8BatchWrittenTwice(const Fp8Output& fp8, std::int64_t batch,
                                           std::int64_t rows, std::int64_t cols, Device device) {
  const auto layout = [&](std::int64_t r, std::int64_t c, BlockShape block) {
    return QuantizedBatchLayout(batch, r, c, fp8.format, block);
  };
  if (fp8.block) out_.emplace(fp8, *fp8.block, layout(rows, cols, *fp8.block), device);
  if (fp8.transposed_block) {
    transposed_.emplace(fp8, *fp8.transposed_block, layout(cols, rows, *fp8.transposed_block),
                        device);
  }
}

Fp8Copies Fp8BatchWrittenTwice::copies(int call) const {
  return {view_of(out_, call), view_of(transposed_, call)};
}

void Fp8BatchWrittenTwice::judge(const TensorView& input, const JudgeOptions& options,
                                 GateReport& report) const {
  const std::int64_t batch = input.shape[0];
  const auto judge_copy = [&](const CopyWrittenTwice& copy, const char* tensor,
                              bool is_transposed) {
    std::int64_t differences = 0;
    for (std::int64_t i = 0; i < batch; ++i) {
      const TensorView matrix = matrix_of(input, i);
      differences += differences_of_matrix(matrix_of(copy.first.view(), i),
                                           is_transposed ? transposed(matrix) : matrix, copy.rules,
                                           options.threads);
    }
    copy.report(tensor, differences, batch, report);
  };
  if (out_) judge_copy(*out_, "out", false);
  if (transposed_) judge_copy(*transposed_, "transposed", true);
}

Fp8GroupsWrittenTwice::Fp8GroupsWrittenTwice(const Fp8Output& fp8,
                                             const std::vector<std::int64_t>& sizes,
                                             std::int64_t rows, std::int64_t cols, GroupTail tail,
                                             Device device)
    : sizes_(sizes), rows_(rows), tail_(tail) {
  if (fp8.block) {
    out_.emplace(fp8, *fp8.block, QuantizedLayout(rows, cols, fp8.format, *fp8.block), device);
  }
  if (fp8.transposed_block) {
    const std::int64_t blocks = max_token_blocks(static_cast<std::int64_t>(sizes.size()), rows);
    transposed_.emplace(
        fp8, *fp8.transposed_block,
        QuantizedBatchLayout::token_blocks(blocks, cols, fp8.format, *fp8.transposed_block),
        device);
  }
}

Fp8Copies Fp8GroupsWrittenTwice::copies(int call) const {
  return {view_of(out_, call), view_of(transposed_, call)};
}

std::int64_t Fp8GroupsWrittenTwice::grouped_rows() const {
  return std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0});
}

std::int64_t Fp8GroupsWrittenTwice::token_blocks() const {
  std::int64_t blocks = 0;
  for (const std::int64_t size : sizes_) blocks += ceil_div(size, kBlock);
  return blocks;
}

std::int64_t Fp8GroupsWrittenTwice::differences_of_rows(const TensorView& input,
                                                        const JudgeOptions& options) const {
  const QuantizedView& given = out_->first.view();
  std::int64_t differences = 0;
  std::int64_t row = 0;
  for (const std::int64_t size : sizes_) {
    if (size > 0) {
      differences += differences_of_matrix(
          {rows_of(given.values, row, size), rows_of(given.scales, row, size), given.block},
          rows_of(input, row, size), out_->rules, options.threads);
    }
    row += size;
  }
  return differences + (tail_ == GroupTail::zero ? differences_of_tail() : 0);
}

// Values of 0 and scales of 1.
std::int64_t Fp8GroupsWrittenTwice::differences_of_tail() const {
  const std::int64_t first = grouped_rows();
  const QuantizedView& given = out_->first.view();
  if (first == rows_) return 0;
  const TensorView values = rows_of(given.values, first, rows_ - first);
  const TensorView scales = rows_of(given.scales, first, rows_ - first);
  // Our layout has the scales of a column of blocks side by side.
  return count_other(values, 0) + count_other(transposed(scales), bits_of(1.0f));
}

std::int64_t Fp8GroupsWrittenTwice::differences_of_group(const TensorView& group_rows,
                                                         std::int64_t first_block,
                                                         const JudgeOptions& options) const {
  const std::int64_t rows = group_rows.rows();
  const PartOnHost x(group_rows, whole(group_rows));
  const OracleTensor oracle =
      quantize_oracle(transposed(x.view()), transposed_->rules, options.threads);
  const QuantizedView wanted = oracle.view();
  std::int64_t differences = 0;
  for (std::int64_t row = 0; row < rows; row += kBlock) {
    const std::int64_t block = row / kBlock;
    const std::int64_t count = std::min(kBlock, rows - row);
    const QuantizedView given = matrix_of(transposed_->first.view(), first_block + block);
    const PartOnHost values(given.values, whole(given.values));
    const PartOnHost scales(given.scales, whole(given.scales));
    differences += count_differences(
        {columns(values.view(), 0, count), scales.view(), given.block},
        {columns(wanted.values, row, count), columns(wanted.scales, block, 1), given.block});
    if (count < kBlock)
      differences += count_other(columns(values.view(), count, kBlock - count), 0);
  }
  return differences;
}

void Fp8GroupsWrittenTwice::judge(const std::string& prefix, const TensorView& input,
                                  const JudgeOptions& options, GateReport& report) const {
  if (out_) {
    out_->report(prefix + "out", differences_of_rows(input, options),
                 tail_ == GroupTail::zero ? rows_ : grouped_rows(), report);
  }
  if (!transposed_) return;
  std::int64_t differences = 0;
  std::int64_t row = 0;
  std::int64_t block = 0;
  for (const std::int64_t size : sizes_) {
    if (size > 0) differences += differences_of_group(rows_of(input, row, size), block, options);
    row += size;
    block += ceil_div(size, kBlock);
  }
  transposed_->report(prefix + "transposed", differences, token_blocks(), report);
}

}  // namespace octet
