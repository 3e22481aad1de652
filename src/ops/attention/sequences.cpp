#include "ops/attention/problem.hpp"

namespace octet {

std::int64_t offset_at(const TensorView& offsets, std::int64_t index) {
  const std::int64_t at = index * offsets.strides[0];
  return offsets.dtype == Dtype::i32 ? static_cast<const std::int32_t*>(offsets.data)[at]
                                     : static_cast<const std::int64_t*>(offsets.data)[at];
}

Sequences::Sequences(const AttentionProblem& problem, const AttentionInputs& inputs)
    : mask_(problem.mask), batch_(problem.batch), count_(problem.batch) {
  if (!problem.offsets_dtype) {
    q_.length = problem.seq_q;
    kv_.length = problem.seq_kv;
    return;
  }
  ++count_;
  q_ = packed(inputs.offsets_q, problem.batch, problem.total_q);
  kv_ = packed(inputs.offsets_kv, problem.batch, problem.total_kv);
}

Sequences::Lengths Sequences::packed(const TensorView& offsets, std::int64_t batch,
                                     std::int64_t total) {
  Lengths lengths;
  for (std::int64_t b = 0; b <= batch; ++b) lengths.begins.push_back(offset_at(offsets, b));
  lengths.begins.push_back(total);
  return lengths;
}

SequenceMask Sequences::mask(std::int64_t sequence) const {
  SequenceMask mask(mask_, queries(sequence), keys(sequence));
  if (sequence < batch_) return mask;
  // Behind the last sequence every key lies in the future.
  mask.left = kNoWindow;
  mask.right = 0;
  mask.shift = -(mask.queries + mask.keys + 1);
  return mask;
}

HeadRows Sequences::rows_of(const TensorView& view, const Lengths& lengths, std::int64_t sequence,
                            std::int64_t head) {
  // An empty tensor may have a null pointer, and strides that nobody has checked.
  if (lengths.rows(sequence) == 0) return {};
  const bool packed = !lengths.begins.empty();
  const std::int64_t first =
      packed ? lengths.begins[static_cast<std::size_t>(sequence)] * view.strides[0]
             : sequence * view.strides[0];
  const std::int64_t offset = first + head * view.strides[packed ? 1 : 2];
  return {static_cast<char*>(view.data) + offset * size_bytes(view.dtype),
          view.strides[packed ? 0 : 1], view.dtype};
}

float* Sequences::query_floats(const TensorView& view, std::int64_t sequence,
                               std::int64_t head) const {
  if (view.data == nullptr || q_.rows(sequence) == 0) return nullptr;
  const std::int64_t offset =
      q_.begins.empty() ? sequence * view.strides[0] + head * view.strides[1]
                        : head * view.strides[0] + q_.begins[static_cast<std::size_t>(sequence)];
  return static_cast<float*>(view.data) + offset;
}

}  // namespace octet
