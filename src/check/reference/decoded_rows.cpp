#include "check/reference/decoded_rows.hpp"

#include "check/reference/decode.hpp"
#include "check/judge/row_errors.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace octet {

DecodedRows::DecodedRows(const TensorView& matrix, const std::vector<std::int64_t>& rows)
    : rows_(rows), host_(matrix, rows) {}

void DecodedRows::read(std::int64_t row, std::span<double> values) const {
  const auto index = std::lower_bound(rows_.begin(), rows_.end(), row) - rows_.begin();
  const std::int64_t where = host_.find(index, row);
  decode_panel(host_.view(), &where, 1, 1, 0, static_cast<int>(values.size()), values.data());
}

TensorView as_row(const TensorView& vector) {
  TensorView view = vector;
  view.rank = 2;
  view.shape = {1, vector.shape[0]};
  view.strides = {vector.shape[0], 1};
  return view;
}

TensorView as_column(const TensorView& vector) {
  TensorView view = vector;
  view.rank = 2;
  view.shape = {vector.shape[0], 1};
  view.strides = {1, 1};
  return view;
}

std::vector<double> decoded(const TensorView& vector) {
  std::vector<double> values(static_cast<std::size_t>(vector.shape[0]));
  DecodedRows(as_row(vector), {0}).read(0, values);
  return values;
}

double rounded(double value, Dtype dtype) {
  const FloatFormat format = float_format(dtype);
  if (!std::isfinite(value)) return value;
  if (std::fabs(value) >= format.overflow)
    return std::copysign(std::numeric_limits<double>::infinity(), value);
  // Adding 1.5 * 2^52 steps leaves no bit below the step, rounded to nearest even.
  const double power_of_two = std::bit_cast<double>(
      std::bit_cast<std::uint64_t>(std::max(std::fabs(value), format.smallest_normal)) &
      0x7FF0000000000000u);
  const double anchor = std::ldexp(1.5, 53) * format.half_ulp_of_one * power_of_two;
  return (value + anchor) - anchor;
}

}  // namespace octet
