// The data that attention is checked and timed with: sequences of different lengths, and tensors in
// the layouts that heads may have. Deterministic by the seed.
#pragma once

#include <octet/buffer.hpp>
#include <octet/ops/attention.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace octet {

struct SequenceLength {
  std::int64_t queries = 0;
  std::int64_t keys = 0;

  friend bool operator==(const SequenceLength&, const SequenceLength&) = default;
};

// How the lengths of sequences spread. The first sequence is the longest.
struct SequenceSpread {
  enum class Kind {
    uniform,   // all as long as the longest
    mild,      // 1/2 to all of it
    skew,      // u^2 of it, u drawn from 0 to 1
    longtail,  // every eighth has all of it, the others 1/64 to 1/8
    given,
  };
  Kind kind = Kind::uniform;
  std::vector<SequenceLength> lengths{};  // given

  friend bool operator==(const SequenceSpread&, const SequenceSpread&) = default;
};

// "skew", or "7,3x5,0" for given queries and keys.
std::string name(const SequenceSpread& spread);
std::optional<SequenceSpread> parse_sequence_spread(std::string_view text);

// The lengths of `batch` sequences. Throws Error if given ones are of another number, or longer.
std::vector<SequenceLength> sequence_lengths(const SequenceSpread& spread, std::int64_t batch,
                                             SequenceLength longest, std::uint64_t seed);
// Those of a problem. Without offsets all have its lengths; uniform ones are shortened to fit into
// its rows. Throws Error if others do not fit.
std::vector<SequenceLength> sequence_lengths(const SequenceSpread& spread,
                                             const AttentionProblem& problem, std::uint64_t seed);

// Where the heads of a token lie, for tensors without offsets. packed: q, k and v of a token side by
// side in one tensor.
enum class HeadLayout { bshd, sbhd, bhsd, packed };
std::string_view name(HeadLayout layout);
std::optional<HeadLayout> parse_head_layout(std::string_view text);

// One tensor of heads in a matrix with contiguous rows, of which it may be some columns.
struct HeadsForm {
  HeadLayout layout = HeadLayout::bshd;
  bool has_offsets = false;
  std::int64_t batch = 0;
  std::int64_t seq = 0;  // of a sequence, or of all of them with offsets
  std::int64_t heads = 0;
  std::int64_t dim = 0;
  std::int64_t first_col = 0;
  std::int64_t rows = 0;  // of the matrix
  std::int64_t cols = 0;

  // [batch, seq, heads, dim], or [total, heads, dim] with offsets.
  TensorView view(const TensorView& matrix) const;
};

// q, k and v share a matrix if they are packed: that of q.
struct AttentionForms {
  bool packed = false;
  HeadsForm q, k, v, out;

  // Throws Error if the layout does not go with the problem, which is a plan's: its defaults are
  // filled in.
  AttentionForms(const AttentionProblem& problem, HeadLayout layout);
};

// lse, dlse: [batch, heads_q, seq_q], or [heads_q, total_q] with offsets.
std::int64_t lse_rows(const AttentionProblem& problem);
std::int64_t lse_cols(const AttentionProblem& problem);
TensorView lse_view(const AttentionProblem& problem, const TensorView& matrix);

// What both passes read, but for what forward writes. The matrices are not filled.
struct AttentionTensors {
  AttentionForms forms;
  std::vector<SequenceLength> lengths;
  Tensor q, k, v;  // matrices; k and v are empty if they are packed
  Tensor dout;
  Tensor sink;
  Tensor offsets_q, offsets_kv;

  AttentionTensors(const AttentionProblem& problem, HeadLayout layout,
                   const std::vector<SequenceLength>& lengths);

  AttentionInputs inputs() const;
  TensorView dout_view() const { return forms.out.view(dout); }
  // Every matrix that is to be filled, in a fixed order.
  std::vector<TensorView> matrices() const;
};

}  // namespace octet
