#include "check/ops/grouped_product.hpp"

#include "check/judge/compare_outputs.hpp"
#include "core/views.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace octet {
namespace {

// Elements of a matrix that are not exactly `bits`.
std::int64_t count_others(const TensorView& matrix, std::uint32_t bits) {
  if (matrix.rows() == 0) return 0;
  const auto element_bytes = static_cast<int>(size_bytes(matrix.dtype));
  return matrix.rows() * matrix.cols() - count_equal(elements_of(matrix), bits, element_bytes);
}

std::uint32_t poison_bits(Dtype dtype) { return size_bytes(dtype) == 4 ? 0xFFFFFFFFu : 0xFFFFu; }

}  // namespace

GroupedRows::GroupedRows(std::int64_t groups, std::int64_t rows, const DataOptions& options,
                         Device device)
    : rows_(rows),
      device_(device),
      sizes_(group_sizes(options.group_spread, groups, rows, options.seed)),
      begin_{0},
      table_(make_group_table(sizes_, rows, device)) {
  for (const std::int64_t size : sizes_) begin_.push_back(begin_.back() + size);
}

TensorView GroupedRows::of(const TensorView& matrix, std::int64_t group) const {
  return octet::rows_of(matrix, begin(group), size(group));
}

Tensor GroupedRows::random_rows(Dtype dtype, std::int64_t cols, std::uint32_t stream,
                                const DataOptions& options) const {
  Tensor matrix = random_matrix(dtype, rows_, cols, stream, options, device_);
  const TensorView tail = octet::rows_of(matrix.view(), end(), rows_ - end());
  if (tail.rows() > 0) fill(elements_of(tail), 0xFF);
  return matrix;
}

Tensor GroupedRows::random_columns(Dtype dtype, std::int64_t rows, std::uint32_t stream,
                                   const DataOptions& options) const {
  Tensor matrix = random_matrix(dtype, rows, rows_, stream, options, device_);
  const std::int64_t bytes = size_bytes(dtype);
  if (end() < rows_) fill(columns(elements_of(matrix), end() * bytes, rows_ * bytes), 0xFF);
  return matrix;
}

Tensor random_batch(Dtype dtype, std::int64_t groups, std::int64_t rows, std::int64_t cols,
                    std::uint32_t stream, const DataOptions& options, Device device) {
  return random_matrix(dtype, groups * rows, cols, stream, options, device);
}

TensorView as_batch(const TensorView& matrix, std::int64_t groups) {
  TensorView batch = matrix;
  const std::int64_t rows = matrix.rows() / groups;
  batch.rank = 3;
  batch.shape = {groups, rows, matrix.cols()};
  batch.strides = {rows * matrix.strides[0], matrix.strides[0], matrix.strides[1]};
  return batch;
}

GroupedOutput::GroupedOutput(const GroupedRows& rows, GroupTail tail, Dtype dtype,
                             std::int64_t cols, const DataOptions& options)
    : rows_(rows),
      over_rows_(true),
      tail_(tail),
      dtype_(dtype),
      first_(dtype, rows.rows(), cols, 0, rows.device()),
      second_(dtype, rows.rows(), cols, options.row_gap, rows.device()) {}

GroupedOutput::GroupedOutput(const GroupedRows& rows, Dtype dtype, std::int64_t n, std::int64_t k,
                             const TensorView& old, const DataOptions& options)
    : rows_(rows),
      over_rows_(false),
      dtype_(dtype),
      old_(old),
      first_(dtype, rows.groups() * n, k, 0, rows.device()),
      second_(dtype, rows.groups() * n, k, options.row_gap, rows.device()) {
  if (old.data == nullptr) return;
  first_.fill_from(old);
  second_.fill_from(old);
}

TensorView GroupedOutput::view(int call) const {
  const TensorView& matrix = call == 0 ? first_.view() : second_.view();
  return over_rows_ ? matrix : as_batch(matrix, rows_.groups());
}

TensorView GroupedOutput::of(std::int64_t group) const {
  return over_rows_ ? rows_.of(view(0), group) : matrix_of(view(0), group);
}

TensorView GroupedOutput::old(std::int64_t group) const {
  return old_.data == nullptr ? TensorView() : matrix_of(as_batch(old_, rows_.groups()), group);
}

std::int64_t GroupedOutput::unwritten_parts_that_differ() const {
  if (over_rows_) {
    const TensorView tail = octet::rows_of(view(0), rows_.end(), rows_.rows() - rows_.end());
    return count_others(tail, tail_ == GroupTail::zero ? 0 : poison_bits(dtype_));
  }
  std::int64_t different = 0;
  for (std::int64_t group = 0; group < rows_.groups(); ++group) {
    if (rows_.size(group) > 0) continue;
    different += old_.data == nullptr ? count_others(of(group), 0)
                                      : compare_whole_outputs(of(group), old(group)).different;
  }
  return different;
}

void GroupedOutput::judge_memory(const std::string& tensor, GateReport& report) const {
  const bool untouched = over_rows_ && tail_ == GroupTail::untouched;
  const char* what = over_rows_ ? "behind the last group" : "of empty groups";
  const std::int64_t different = unwritten_parts_that_differ();
  report.results.push_back({"G6", text(tensor, " ", what), different == 0,
                            text(different, " elements differ"),
                            untouched || old_.data != nullptr ? "untouched" : "all zero",
                            std::numeric_limits<double>::quiet_NaN()});
  GuardFindings first = first_.inspect();
  GuardFindings second = second_.inspect();
  if (untouched) {
    // Rows that must keep the poison are no error.
    const std::int64_t kept = (rows_.rows() - rows_.end()) * first_.view().cols();
    first.unwritten -= std::min(kept, first.unwritten);
    second.unwritten -= std::min(kept, second.unwritten);
  }
  report.results.push_back(judge_g5(tensor, first_.view(), second_.view()));
  report.results.push_back(judge_g6(tensor, first, second));
}

void WorstOfGroups::add(std::int64_t group, std::vector<GateResult> results) {
  for (GateResult& result : results) {
    result.value = text("group ", group, ": ", result.value);
    auto worst = std::find_if(worst_.begin(), worst_.end(),
                              [&](const GateResult& other) { return other.gate == result.gate; });
    if (worst == worst_.end()) {
      worst_.push_back(std::move(result));
    } else if (worst->pass && (!result.pass || result.snr_db < worst->snr_db ||
                               (std::isnan(worst->snr_db) && !std::isnan(result.snr_db)))) {
      *worst = std::move(result);
    }
  }
}

void WorstOfGroups::move_to(GateReport& report) {
  octet::add(report, std::move(worst_));
  worst_.clear();
}

}  // namespace octet
