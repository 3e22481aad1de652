// What moe_permute and moe_unpermute share, each being the other's gradient: the maps, the forms of
// their tensors, and the three steps that their passes are made of.
#pragma once

#include "core/checks.hpp"
#include "core/message.hpp"
#include "ops/group_table/problem.hpp"
#include "ops/moe_maps/problem.hpp"

#include <string>

namespace octet {

// The maps between slots and rows. Numbers out of range, and a source that row_of contradicts, are
// -1: no address is ever computed from them.
class SlotMaps {
 public:
  template <class Problem>
  SlotMaps(const Problem& problem, const TensorView& row_of, const TensorView& source = {})
      : tokens_(problem.tokens),
        top_k_(problem.top_k),
        rows_(problem.rows),
        row_of_(static_cast<const std::int32_t*>(row_of.data)),
        pitch_(row_of.strides[0]),
        source_(static_cast<const std::int32_t*>(source.data)) {}

  std::int64_t tokens() const { return tokens_; }
  std::int64_t top_k() const { return top_k_; }
  std::int64_t rows() const { return rows_; }
  // The row of choice k of a token, or -1.
  std::int64_t row(std::int64_t token, std::int64_t k) const {
    const std::int64_t row = row_of_[token * pitch_ + k];
    return row >= 0 && row < rows_ ? row : -1;
  }
  // The slot of a row, token * top_k + k, or -1.
  std::int64_t slot(std::int64_t row) const {
    const std::int64_t slot = source_[row];
    if (slot < 0 || slot >= tokens_ * top_k_) return -1;
    return this->row(slot / top_k_, slot % top_k_) == row ? slot : -1;
  }

 private:
  std::int64_t tokens_;
  std::int64_t top_k_;
  std::int64_t rows_;
  const std::int32_t* row_of_;
  std::int64_t pitch_;
  const std::int32_t* source_;
};

// grouped[r, :] = from[token, :], times the weight of the slot if there are weights.
struct SpreadStep {
  TensorView from;     // [tokens, cols]
  TensorView weights;  // [tokens, top_k]; empty: bytes are copied
  TensorView grouped;  // [rows, cols]
  GroupTail tail;
};
// out[t, :] = sum over k of the rows of the token, times their weights if there are weights.
struct SumStep {
  TensorView grouped;  // [rows, cols]
  TensorView weights;  // [tokens, top_k]; or empty
  TensorView out;      // [tokens, cols]
};
// dweights[t, k] = sum over the columns of dout[t, :] * grouped[row, :].
struct DotStep {
  TensorView dout;      // [tokens, cols]
  TensorView grouped;   // [rows, cols]
  TensorView dweights;  // [tokens, top_k]
};

// How an implementation runs a step on the CPU.
class RowSteps {
 public:
  virtual ~RowSteps() = default;
  virtual void spread(const SlotMaps& maps, const SpreadStep& step) const = 0;
  virtual void sum(const SlotMaps& maps, const SumStep& step) const = 0;
  virtual void dot(const SlotMaps& maps, const DotStep& step) const = 0;
};

// The tensors of a call.
struct RowForms {
  TensorForm tokens, grouped, weights, row_weight, row_of, source;

  template <class Problem>
  explicit RowForms(const Problem& problem)
      : tokens(problem.dtype, {problem.tokens, problem.cols}, "[tokens, cols]"),
        grouped(problem.dtype, {problem.rows, problem.cols}, "[rows, cols]"),
        weights(Dtype::f32, {problem.tokens, problem.top_k}, "[tokens, top_k]"),
        row_weight(Dtype::f32, {problem.rows}, "[rows]"),
        row_of(Dtype::i32, {problem.tokens, problem.top_k}, "[tokens, top_k]"),
        source(Dtype::i32, {problem.rows}, "[rows]") {}
};

template <class Problem>
void check_rows(std::string_view op, const Problem& problem) {
  check_slots(op, problem.tokens, problem.top_k, problem.rows);
  check_extent(op, "cols", problem.cols);
  check_float({op, "dtype"}, problem.dtype);
  check_tail(op, problem.tail);
  check_size(op, problem.rows, problem.cols, Dtype::f32);
  check_size(op, problem.tokens, problem.cols, Dtype::f32);
  check_device(op, problem.device);
}

template <class Problem>
std::string describe_rows(const char* op, const Problem& problem) {
  std::string result = text(op, " --shape ", problem.tokens, "x", problem.top_k, "x", problem.cols,
                            " --rows ", problem.rows, " --dtype ", name(problem.dtype));
  if (problem.weights) result += " --weights";
  if (problem.tail == GroupTail::untouched) result += " --tail untouched";
  return result + " --device " + name(problem.device);
}

}  // namespace octet
