// A5: attention on data whose results are known: each pair of query and key that counts shows alone.
//
// A feature of a key holds one bit of its number as 1 or -1, and all bits are there as often as
// they fit. A query has the bits of one key, times a factor by which every other score is at least
// 160 (log2) below: p is 1 there and 0 elsewhere. Some queries leave the lowest bits out: then 2 or
// 4 keys have the same score and p = 1/2 or 1/4. Values and gradients are small integers, so that
//
//   out   is a value, or a mean of 2 or 4 of them     equal to the reference rounded to its dtype
//   dv    is a sum of gradients times 1, 1/2 or 1/4   within 2^-7 (and half an ulp)
//   dq    is a sum of keys times ds, of steps 1/16    within scale / 32
//   dk    is a sum of queries times ds                within scale * factor / 32
//
// A dropped or added pair moves dv by 1/4, dq and dk by a sixteenth of their unit. There are three
// rounds where a mask has edges: a query takes the last key it sees, the first, and one between. The
// numbers of keys are exchanged, and values differ, from head to head and from sequence to sequence.
#include "check/ops/attention_reference.hpp"
#include "check/ops/attention_trial.hpp"
#include "check/reference/decode.hpp"
#include "core/message.hpp"
#include "core/numeric.hpp"
#include "cpu/threads.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace octet {
namespace {

constexpr std::int64_t kLongest = 200;  // three strips and a tail
constexpr std::int64_t kMostSequences = 3;
constexpr std::int64_t kMostKvHeads = 2;
constexpr double kApart = 160 * 0.6931471805599453;  // in units of exp

// At most a few short sequences and a few heads of the problem.
AttentionProblem shortened(AttentionProblem problem, std::vector<SequenceLength>& lengths) {
  const std::int64_t group = problem.heads_q / problem.heads_kv;
  problem.heads_kv = std::min(problem.heads_kv, kMostKvHeads);
  problem.heads_q = problem.heads_kv * group;
  problem.batch = std::min(problem.batch, kMostSequences);
  const std::int64_t longest =
      problem.dim_qk < 8 ? std::int64_t{1} << problem.dim_qk : kLongest;  // a feature for every bit
  problem.seq_q = std::min(problem.seq_q, kLongest);
  problem.seq_kv = std::min(problem.seq_kv, longest);
  lengths.resize(static_cast<std::size_t>(problem.batch));
  std::int64_t queries = 0, keys = 0;
  for (SequenceLength& length : lengths) {
    length.queries = std::min(length.queries, kLongest);
    length.keys = std::min(length.keys, longest);
    queries += length.queries;
    keys += length.keys;
  }
  if (problem.offsets_dtype) {
    problem.total_q = queries;
    problem.total_kv = keys;
  }
  return problem;
}

// A small number that depends on all of them.
std::uint32_t mixed(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return random_below({static_cast<std::uint64_t>(a * 1'000'003 + b), 0x6A}, RandomUse::sample,
                      static_cast<std::uint64_t>(c * 65'537 + d), 1u << 16);
}

class ExactData {
 public:
  ExactData(const AttentionProblem& problem, const AttentionTensors& tensors, std::int64_t round)
      : problem_(problem), tensors_(tensors), round_(round) {
    std::int64_t most = 2;
    for (const SequenceLength& length : tensors.lengths) most = std::max(most, length.keys);
    bits_ = std::bit_width(static_cast<std::uint64_t>(most - 1));
    const std::int64_t repeats = problem.dim_qk / bits_;
    const double least = kApart / (2 * static_cast<double>(repeats) * std::fabs(problem.scale));
    // Rounded up to 8 bits, those of bf16.
    const double step = std::exp2(std::floor(std::log2(least)) - 7);
    factor_ = std::copysign(std::ceil(least / step) * step, problem.scale);
  }

  // Within the range of f16.
  bool exists() const { return std::fabs(factor_) < 16384 && std::fabs(factor_) > 0x1p-10; }
  double factor() const { return std::fabs(factor_); }

  void fill() const {
    const AttentionInputs inputs = tensors_.inputs();
    for_each(inputs.k, false,
             [&](auto b, auto head, auto j, auto c) { return bit(code(b, head, j), c); });
    for_each(inputs.v, false, [&](auto b, auto head, auto j, auto c) {
      return static_cast<double>(mixed(b, head, j, c) % 5) - 2;
    });
    const std::int64_t group = problem_.heads_q / problem_.heads_kv;
    for_each(inputs.q, true, [&](auto b, auto head, auto i, auto c) {
      const Choice choice = chosen(b, i);
      if (c % bits_ < choice.left_out) return 0.0;
      return factor_ * bit(code(b, head / group, choice.key), c);
    });
    // One of 32 features has a gradient, another one for each query.
    const std::int64_t apart = std::min<std::int64_t>(32, problem_.dim_v);
    for_each(tensors_.dout_view(), true, [&](auto b, auto head, auto i, auto c) {
      if ((c + i) % apart != 0) return 0.0;
      return mixed(b + 7, head, i, c) % 2 == 0 ? 1.0 : -1.0;
    });
    for (std::int64_t head = 0; problem_.sink && head < problem_.heads_q; ++head) {
      static_cast<float*>(tensors_.sink.data())[head] = static_cast<float>(head % 3) - 1;
    }
  }

 private:
  struct Choice {
    std::int64_t key = 0;
    std::int64_t left_out = 0;  // bits
  };

  std::int64_t code(std::int64_t b, std::int64_t kv_head, std::int64_t key) const {
    return key ^ ((kv_head * 37 + b * 11) & ((std::int64_t{1} << bits_) - 1));
  }
  double bit(std::int64_t number, std::int64_t feature) const {
    return (number >> (feature % bits_) & 1) != 0 ? 1 : -1;
  }

  // The keys [begin, end) that a query sees.
  SequenceLength visible(std::int64_t b, std::int64_t query) const {
    const auto [queries, keys] = tensors_.lengths[static_cast<std::size_t>(b)];
    const AttentionMask& mask = problem_.mask;
    const std::int64_t place =
        query + (mask.align == MaskAlignment::bottom_right ? keys - queries : 0);
    return {mask.left < 0 ? 0 : std::max<std::int64_t>(0, place - mask.left),
            mask.right < 0 ? keys : std::min(keys, place + mask.right + 1)};
  }

  // In a round a third of the queries take the last key of a mask, a third the first of a window.
  Choice chosen(std::int64_t b, std::int64_t query) const {
    const auto [begin, end] = visible(b, query);
    if (begin >= end) return {0, 0};
    Choice choice{begin + (query * 61 + round_ * 29) % (end - begin),
                  query % 4 < 2 ? 0 : query % 4 - 1};
    if ((query + round_) % 3 == 0 && problem_.mask.right >= 0) choice.key = end - 1;
    if ((query + round_) % 3 == 1 && problem_.mask.left >= 0) choice.key = begin;
    const auto fits = [&, begin = begin, end = end] {
      const std::int64_t size = std::int64_t{1} << choice.left_out;
      const std::int64_t first = choice.key / size * size;
      return choice.left_out < bits_ && first >= begin && first + size <= end;
    };
    while (choice.left_out > 0 && !fits()) --choice.left_out;
    return choice;
  }

  // Sets every element of the sequences to value(sequence, head, row, feature).
  template <class Value>
  void for_each(const TensorView& view, bool queries, const Value& value) const {
    const bool packed = view.rank == 3;
    const int seq = packed ? 0 : 1;
    std::int64_t begin = 0;
    for (std::size_t b = 0; b < tensors_.lengths.size(); ++b) {
      const SequenceLength& length = tensors_.lengths[b];
      const std::int64_t rows = queries ? length.queries : length.keys;
      const auto sequence = static_cast<std::int64_t>(b);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t head = 0; head < view.shape[seq + 1]; ++head) {
          const std::int64_t at = (packed ? 0 : sequence * view.strides[0]) +
                                  (begin + r) * view.strides[seq] + head * view.strides[seq + 1];
          for (std::int64_t c = 0; c < view.shape[seq + 2]; ++c) {
            store_f32(view.data, at + c, view.dtype,
                      static_cast<float>(value(sequence, head, r, c)));
          }
        }
      }
      if (packed) begin += rows;
    }
  }

  const AttentionProblem& problem_;
  const AttentionTensors& tensors_;
  std::int64_t round_;
  std::int64_t bits_ = 1;
  double factor_ = 0;
};

struct Wrong {
  std::int64_t count = 0;
  std::string first;
};

void compare(const HeadStrip& strip, const ReferenceRows& given, const ReferenceRows& wanted,
             double slack, Dtype dtype, Wrong& wrong) {
  for (std::size_t i = 0; i < given.values.size(); ++i) {
    const double reference = wanted.values[i];
    const double half_ulp = float_format(dtype).half_ulp_of_one * std::fabs(reference);
    // The reference has errors of f64.
    const bool fits = std::fabs(rounded(reference, dtype) - reference) <= 0x1p-30;
    if (std::fabs(given.values[i] - reference) <= slack + (fits ? 0 : half_ulp)) continue;
    if (wrong.count++ > 0) continue;
    const auto at = static_cast<std::int64_t>(i);
    wrong.first = text("sequence ", strip.sequence, ", head ", strip.head, ", row ",
                       strip.first + at / wanted.cols, ", feature ", at % wanted.cols, ": ",
                       given.values[i], " instead of ", reference);
  }
}

// What is wrong in each output of a call, added up over the rounds.
struct WrongOutputs {
  Wrong out, dq, dk, dv;

  void add(const WrongOutputs& other) {
    for (const auto& [mine, theirs] : {std::pair(&out, &other.out), std::pair(&dq, &other.dq),
                                       std::pair(&dk, &other.dk), std::pair(&dv, &other.dv)}) {
      if (mine->count == 0) mine->first = theirs->first;
      mine->count += theirs->count;
    }
  }
};

WrongOutputs compare_call(const AttentionProblem& problem, const AttentionBackwardArgs& call,
                          double factor, int threads) {
  AttentionReference reference(problem, call);
  const double scale = std::fabs(problem.scale);
  const HeadsOnHost out(call.out), dq(call.dq), dk(call.dk), dv(call.dv);
  const auto& queries = reference.query_strips();
  const auto& keys = reference.key_strips();
  std::vector<WrongOutputs> of_queries(queries.size()), of_keys(keys.size());
  parallel_for(threads, static_cast<std::int64_t>(queries.size()), [&](std::int64_t index) {
    const HeadStrip& strip = queries[static_cast<std::size_t>(index)];
    WrongOutputs& wrong = of_queries[static_cast<std::size_t>(index)];
    const QueryReference wanted = reference.queries(strip);
    ReferenceRows given_out(strip.rows, problem.dim_v), given_dq(strip.rows, problem.dim_qk);
    reference.read_queries(out, strip, given_out);
    reference.read_queries(dq, strip, given_dq);
    compare(strip, given_out, wanted.out, call.out.dtype == Dtype::f32 ? 0x1p-12 : 0x1p-16,
            call.out.dtype, wrong.out);
    compare(strip, given_dq, wanted.dq, scale / 32, call.dq.dtype, wrong.dq);
  });
  parallel_for(threads, static_cast<std::int64_t>(keys.size()), [&](std::int64_t index) {
    const HeadStrip& strip = keys[static_cast<std::size_t>(index)];
    WrongOutputs& wrong = of_keys[static_cast<std::size_t>(index)];
    const KeyReference wanted = reference.keys(strip);
    ReferenceRows given_dk(strip.rows, problem.dim_qk), given_dv(strip.rows, problem.dim_v);
    reference.read_keys(dk, strip, given_dk);
    reference.read_keys(dv, strip, given_dv);
    compare(strip, given_dk, wanted.dk, scale * factor / 32, call.dk.dtype, wrong.dk);
    compare(strip, given_dv, wanted.dv, 0x1p-7, call.dv.dtype, wrong.dv);
  });
  WrongOutputs all;
  for (const auto* parts : {&of_queries, &of_keys}) {
    for (const WrongOutputs& part : *parts) all.add(part);
  }
  return all;
}

GateResult result_of(const std::string& tensor, const Wrong& wrong) {
  return {"A5",
          tensor,
          wrong.count == 0,
          wrong.count == 0 ? "as known" : text(wrong.count, " differ; ", wrong.first),
          "known results",
          std::numeric_limits<double>::quiet_NaN()};
}

}  // namespace

std::vector<GateResult> check_exact_attention(
    const AttentionProblem& given, const DataOptions& options,
    const std::function<void(AttentionProblem&)>& change) {
  std::vector<SequenceLength> lengths =
      sequence_lengths(options.sequence_spread, given, options.seed);
  const AttentionProblem problem = shortened(given, lengths);
  AttentionProblem on_host = problem;
  on_host.device = kCpu;
  AttentionProblem ran = problem;
  if (change) change(ran);
  const bool has_edges = problem.mask.left >= 0 || problem.mask.right >= 0;
  const AttentionTensors host(on_host, options.head_layout, lengths);
  const AttentionTensors tensors(problem, options.head_layout, lengths);
  WrongOutputs wrong;
  for (std::int64_t round = 0; round < (has_edges ? 3 : 1); ++round) {
    const ExactData data(on_host, host, round);
    if (!data.exists()) return {};
    data.fill();
    copy_tensors(host, tensors);
    const AttentionOutputs outputs(problem, options.head_layout, 0);
    const AttentionBackwardArgs call = run_attention(ran, options, tensors, {}, outputs, 0);
    wrong.add(compare_call(problem, call, data.factor(),
                           options.threads != 0 ? options.threads : default_threads()));
  }
  return {result_of("out", wrong.out), result_of("dq", wrong.dq), result_of("dk", wrong.dk),
          result_of("dv", wrong.dv)};
}

}  // namespace octet
