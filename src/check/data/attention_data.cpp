#include "check/data/attention_data.hpp"

#include "check/data/random.hpp"
#include "core/message.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace octet {
namespace {

using Kind = SequenceSpread::Kind;

constexpr std::pair<Kind, std::string_view> kSpreads[] = {{Kind::uniform, "uniform"},
                                                          {Kind::mild, "mild"},
                                                          {Kind::skew, "skew"},
                                                          {Kind::longtail, "longtail"}};
constexpr std::pair<HeadLayout, std::string_view> kLayouts[] = {{HeadLayout::bshd, "bshd"},
                                                                {HeadLayout::sbhd, "sbhd"},
                                                                {HeadLayout::bhsd, "bhsd"},
                                                                {HeadLayout::packed, "packed"}};

// Distinct from the streams that make data and draw samples.
constexpr std::uint32_t kLengthStream = 0x69;
constexpr std::int64_t kMostSequences = 1 << 20;
constexpr std::int64_t kMostRows = std::int64_t{1} << 40;

// The length of a sequence as a share of the longest; `u`: drawn from 0 to 1.
double share_of(Kind kind, std::int64_t sequence, double u) {
  if (sequence == 0) return 1;
  switch (kind) {
    case Kind::mild: return 0.5 + 0.5 * u;
    case Kind::skew: return u * u;
    case Kind::longtail: return sequence % 8 == 0 ? 1 : std::exp2(-6 + 3 * u);
    default: return 1;
  }
}

bool parse_count(const char*& at, const char* end, std::int64_t& count) {
  const auto [next, error] = std::from_chars(at, end, count);
  at = next;
  return error == std::errc{} && count >= 0 && count <= kMostRows;
}

void check_fit(const char* what, std::int64_t sum, std::int64_t rows) {
  if (sum <= rows) return;
  refuse_argument("sequence lengths: they have ", sum, " ", what, " together, the problem ", rows,
                  " rows for them");
}

Tensor matrix_for(Dtype dtype, const HeadsForm& form, Device device) {
  return {dtype, {form.rows, form.cols}, device};
}

Tensor offsets_of(const std::vector<SequenceLength>& lengths, std::int64_t SequenceLength::*part,
                  Dtype dtype, Device device) {
  const auto count = static_cast<std::int64_t>(lengths.size()) + 1;
  const Tensor host(dtype, {count});
  std::int64_t sum = 0;
  for (std::int64_t b = 0; b < count; ++b) {
    if (dtype == Dtype::i32) {
      static_cast<std::int32_t*>(host.data())[b] = static_cast<std::int32_t>(sum);
    } else {
      static_cast<std::int64_t*>(host.data())[b] = sum;
    }
    if (b + 1 < count) sum += lengths[static_cast<std::size_t>(b)].*part;
  }
  Tensor there(dtype, {count}, device);
  copy(host, there);
  return there;
}

}  // namespace

std::string name(const SequenceSpread& spread) {
  for (const auto& [kind, text] : kSpreads) {
    if (spread.kind == kind) return std::string(text);
  }
  std::string result;
  for (const auto& [queries, keys] : spread.lengths) {
    result += (result.empty() ? "" : ",") +
              (queries == keys ? std::to_string(queries) : text(queries, "x", keys));
  }
  return result;
}

std::optional<SequenceSpread> parse_sequence_spread(std::string_view text) {
  for (const auto& [kind, name] : kSpreads) {
    if (text == name) return SequenceSpread{kind};
  }
  SequenceSpread spread{Kind::given};
  const char* at = text.data();
  const char* const end = at + text.size();
  while (spread.lengths.size() < static_cast<std::size_t>(kMostSequences)) {
    SequenceLength length;
    if (!parse_count(at, end, length.queries)) return std::nullopt;
    length.keys = length.queries;
    if (at != end && *at == 'x' && !parse_count(++at, end, length.keys)) return std::nullopt;
    spread.lengths.push_back(length);
    if (at == end) return spread;
    if (*at++ != ',') return std::nullopt;
  }
  return std::nullopt;
}

std::vector<SequenceLength> sequence_lengths(const SequenceSpread& spread, std::int64_t batch,
                                             SequenceLength longest, std::uint64_t seed) {
  if (spread.kind == Kind::given) {
    if (static_cast<std::int64_t>(spread.lengths.size()) != batch) {
      refuse_argument("sequence lengths: ", spread.lengths.size(), " were given for a batch of ",
                      batch);
    }
    for (const auto& [queries, keys] : spread.lengths) {
      if (queries > longest.queries || keys > longest.keys) {
        refuse_argument("sequence lengths: the longest may be ", longest.queries, "x", longest.keys,
                        ", got ", queries, "x", keys);
      }
    }
    return spread.lengths;
  }
  std::vector<SequenceLength> lengths;
  for (std::int64_t b = 0; b < batch; ++b) {
    const double u =
        random_words({seed, kLengthStream}, RandomUse::sample, static_cast<std::uint64_t>(b))
            .word[0] *
        0x1p-32;
    const double share = share_of(spread.kind, b, u);
    lengths.push_back(
        {static_cast<std::int64_t>(std::ceil(share * static_cast<double>(longest.queries))),
         static_cast<std::int64_t>(std::ceil(share * static_cast<double>(longest.keys)))});
  }
  return lengths;
}

std::vector<SequenceLength> sequence_lengths(const SequenceSpread& spread,
                                             const AttentionProblem& problem, std::uint64_t seed) {
  SequenceLength longest{problem.seq_q, problem.seq_kv};
  if (!problem.offsets_dtype) return sequence_lengths({}, problem.batch, longest, seed);
  if (spread.kind == Kind::uniform && problem.batch > 0) {
    longest.queries = std::min(longest.queries, problem.total_q / problem.batch);
    longest.keys = std::min(longest.keys, problem.total_kv / problem.batch);
  }
  const std::vector<SequenceLength> lengths =
      sequence_lengths(spread, problem.batch, longest, seed);
  SequenceLength sum;
  for (const auto& [queries, keys] : lengths) {
    sum.queries += queries;
    sum.keys += keys;
  }
  check_fit("queries", sum.queries, problem.total_q);
  check_fit("keys", sum.keys, problem.total_kv);
  return lengths;
}

std::string_view name(HeadLayout layout) {
  for (const auto& [kind, text] : kLayouts) {
    if (layout == kind) return text;
  }
  return "";
}

std::optional<HeadLayout> parse_head_layout(std::string_view text) {
  for (const auto& [kind, name] : kLayouts) {
    if (text == name) return kind;
  }
  return std::nullopt;
}

TensorView HeadsForm::view(const TensorView& matrix) const {
  if (matrix.data == nullptr) return {};
  const std::int64_t pitch = matrix.strides[0];
  TensorView view = matrix;
  view.data = static_cast<char*>(matrix.data) + first_col * size_bytes(matrix.dtype);
  if (has_offsets) {
    view.rank = 3;
    view.shape = {seq, heads, dim};
    view.strides = {pitch, dim, 1};
    return view;
  }
  view.rank = 4;
  view.shape = {batch, seq, heads, dim};
  switch (layout) {
    case HeadLayout::sbhd: view.strides = {pitch, batch * pitch, dim, 1}; break;
    case HeadLayout::bhsd: view.strides = {heads * seq * pitch, pitch, seq * pitch, 1}; break;
    default: view.strides = {seq * pitch, pitch, dim, 1}; break;
  }
  return view;
}

AttentionForms::AttentionForms(const AttentionProblem& problem, HeadLayout layout)
    : packed(layout == HeadLayout::packed) {
  const bool has_offsets = problem.offsets_dtype.has_value();
  const auto form = [&](bool queries, std::int64_t dim) {
    HeadsForm result;
    result.layout = layout;
    result.has_offsets = has_offsets;
    result.batch = problem.batch;
    result.seq = has_offsets ? (queries ? problem.total_q : problem.total_kv)
                             : (queries ? problem.seq_q : problem.seq_kv);
    result.heads = queries ? problem.heads_q : problem.heads_kv;
    result.dim = dim;
    const bool heads_apart = layout == HeadLayout::bhsd && !has_offsets;
    result.rows = result.seq * (has_offsets ? 1 : result.batch) * (heads_apart ? result.heads : 1);
    result.cols = heads_apart ? dim : result.heads * dim;
    return result;
  };
  q = form(true, problem.dim_qk);
  k = form(false, problem.dim_qk);
  v = form(false, problem.dim_v);
  out = form(true, problem.dim_v);
  if (!packed) return;
  if (q.rows != k.rows) {
    refuse_argument("packed q, k and v must have as many queries as keys, got ", q.seq, " and ",
                    k.seq);
  }
  k.first_col = q.cols;
  v.first_col = q.cols + k.cols;
  q.cols = k.cols = v.cols = v.first_col + v.cols;
}

std::int64_t lse_rows(const AttentionProblem& problem) {
  return problem.offsets_dtype ? problem.heads_q : problem.batch * problem.heads_q;
}
std::int64_t lse_cols(const AttentionProblem& problem) {
  return problem.offsets_dtype ? problem.total_q : problem.seq_q;
}
TensorView lse_view(const AttentionProblem& problem, const TensorView& matrix) {
  if (problem.offsets_dtype || matrix.data == nullptr) return matrix;
  TensorView view = matrix;
  view.rank = 3;
  view.shape = {problem.batch, problem.heads_q, problem.seq_q};
  view.strides = {problem.heads_q * matrix.strides[0], matrix.strides[0], 1};
  return view;
}

AttentionTensors::AttentionTensors(const AttentionProblem& problem, HeadLayout layout,
                                   const std::vector<SequenceLength>& lengths_)
    : forms(problem, layout),
      lengths(lengths_),
      q(matrix_for(problem.dtype, forms.q, problem.device)),
      dout(matrix_for(*problem.out_dtype, forms.out, problem.device)) {
  if (!forms.packed) {
    k = matrix_for(problem.dtype, forms.k, problem.device);
    v = matrix_for(problem.dtype, forms.v, problem.device);
  }
  if (problem.sink) sink = Tensor(Dtype::f32, {problem.heads_q}, problem.device);
  if (!problem.offsets_dtype) return;
  offsets_q = offsets_of(lengths, &SequenceLength::queries, *problem.offsets_dtype, problem.device);
  offsets_kv = offsets_of(lengths, &SequenceLength::keys, *problem.offsets_dtype, problem.device);
}

AttentionInputs AttentionTensors::inputs() const {
  AttentionInputs inputs;
  inputs.q = forms.q.view(q);
  inputs.k = forms.k.view(forms.packed ? q : k);
  inputs.v = forms.v.view(forms.packed ? q : v);
  inputs.sink = sink;
  inputs.offsets_q = offsets_q;
  inputs.offsets_kv = offsets_kv;
  return inputs;
}

std::vector<TensorView> AttentionTensors::matrices() const {
  if (forms.packed) return {q, dout};
  return {q, k, v, dout};
}

}  // namespace octet
