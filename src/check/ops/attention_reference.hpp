// The f64 reference of attention, by strips of 64 rows of one head of one sequence, and for every
// row how large an error rounding explains.
//
// Formulas and masks are written down here once more; nothing of src/ops/attention is used. Rounding
// a term of a sum by half an ulp u moves the sum by u |term|, and the terms' roundings are
// independent. So in units of u^2 the squared error that rounding explains is
//
//   out   sum_j (p v)^2 + out^2           P is rounded for its product, and out
//   dv    sum_i (p dout)^2 + dv^2
//   dq    sum_j (ds k)^2 + (delta error * sum_j p k)^2 + dq^2
//   dk    sum_i (ds q)^2 + sum_i (delta error * p q)^2 + dk^2
//
// where dS is rounded for both products, and delta = dout . out has the rounding of out. The f32
// arithmetic of scores and sums adds 2^-23 of what it sums. dq and dk are differences: where they
// cancel, as in a row that sees two keys, this and not an SNR says what a correct kernel may do.
#pragma once

#include "check/data/attention_data.hpp"
#include "check/judge/judge.hpp"

#include <octet/buffer.hpp>
#include <octet/ops/attention.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace octet {

inline constexpr std::int64_t kAttentionStrip = 64;

// Rows [first, first + rows) of one head of one sequence. With offsets, sequence `batch` is what lies
// behind the last one.
struct HeadStrip {
  std::int64_t sequence = 0;
  std::int64_t head = 0;
  std::int64_t first = 0;
  std::int64_t rows = 0;
};

// Half an ulp of the dtype that products are rounded to, as a share of the number.
double rounding_unit(Dtype dtype);

// Rows of one output: their reference, and the error that rounding explains, in units of u^2.
struct ReferenceRows {
  std::int64_t cols = 0;
  std::vector<double> values;     // [rows, cols]
  std::vector<double> explained;  // [rows], squared and summed over the columns

  ReferenceRows(std::int64_t rows, std::int64_t cols_)
      : cols(cols_),
        values(static_cast<std::size_t>(rows * cols_)),
        explained(static_cast<std::size_t>(rows)) {}
  std::span<double> row(std::int64_t index) {
    return {values.data() + index * cols, static_cast<std::size_t>(cols)};
  }
  std::span<const double> row(std::int64_t index) const {
    return {values.data() + index * cols, static_cast<std::size_t>(cols)};
  }
};

struct QueryReference {
  ReferenceRows out, dq;
  std::vector<double> lse;
};
struct KeyReference {
  ReferenceRows dk, dv;
};

// One tensor of a call in memory that the host can read.
class HeadsOnHost {
 public:
  HeadsOnHost() = default;
  explicit HeadsOnHost(const TensorView& view);

  const TensorView& view() const { return view_; }
  bool empty() const { return view_.data == nullptr; }

 private:
  Buffer copy_;
  TensorView view_;
};

class AttentionReference {
 public:
  // The problem has its defaults filled in. `call` has all tensors of backward, on any device.
  AttentionReference(const AttentionProblem& problem, const AttentionBackwardArgs& call);

  const std::vector<HeadStrip>& query_strips() const { return query_strips_; }
  const std::vector<HeadStrip>& key_strips() const { return key_strips_; }
  // Multiply-adds of a strip; the largest of all.
  double query_strip_cost() const;
  double key_strip_cost() const;

  // What backward makes of forward's results, for each query. Either every strip of queries is made
  // first, which keeps its own; or those of the call are taken, which are judged by themselves.
  void take_given_results(int threads);
  // By several threads at once, for different strips.
  QueryReference queries(const HeadStrip& strip);
  // After all results are there.
  KeyReference keys(const HeadStrip& strip) const;
  // [heads_q], one row.
  ReferenceRows dsink() const;

  // What the call wrote.
  void read_queries(const HeadsOnHost& tensor, const HeadStrip& strip, ReferenceRows& rows) const;
  void read_keys(const HeadsOnHost& tensor, const HeadStrip& strip, ReferenceRows& rows) const;
  double read_lse(const HeadsOnHost& tensor, std::int64_t sequence, std::int64_t head,
                  std::int64_t query) const;

 private:
  // Of one query of one head.
  struct Result {
    double lse = 0;
    double delta = 0;
    double delta_error = 0;  // squared, in units of u^2
  };
  struct Lengths {
    std::vector<std::int64_t> begins;  // with offsets
    std::vector<std::int64_t> counts;
  };
  static Lengths lengths_of(const TensorView& offsets, std::int64_t batch, std::int64_t seq,
                            std::int64_t total);
  static void read_rows(const TensorView& view, const Lengths& lengths, const HeadStrip& strip,
                        double* to);

  bool sees(std::int64_t sequence, std::int64_t query, std::int64_t key) const;
  std::int64_t group() const { return problem_.heads_q / problem_.heads_kv; }
  // All rows of a head of a sequence as f64.
  std::vector<double> all_rows(const HeadsOnHost& tensor, const Lengths& lengths,
                               std::int64_t sequence, std::int64_t head, std::int64_t dim) const;
  Result& result(std::int64_t sequence, std::int64_t head, std::int64_t query);
  const Result& result(std::int64_t sequence, std::int64_t head, std::int64_t query) const;
  Result result_of(std::span<const double> out, std::span<const double> dout, double lse,
                   double dlse) const;
  double sink_of(std::int64_t sequence, std::int64_t head) const;
  double dlse_of(std::int64_t sequence, std::int64_t head, std::int64_t query) const;

  AttentionProblem problem_;
  double f32_share_;  // 2^-23 in units of u
  Lengths q_lengths_, kv_lengths_;
  HeadsOnHost q_, k_, v_, out_, dout_, lse_, dlse_;
  std::vector<double> sink_;
  std::vector<HeadStrip> query_strips_, key_strips_;
  std::vector<std::int64_t> first_result_;  // of each sequence
  std::vector<Result> results_;             // [sequence][head][query]
};

// A1 to A4: what a call wrote, against the reference. All strips are judged if that takes at most
// `whole_cost` multiply-adds, else a sample.
inline constexpr double kWholeAttentionCost = 0x1p33;
std::vector<GateResult> judge_attention(const AttentionProblem& problem,
                                        const AttentionBackwardArgs& call,
                                        const JudgeOptions& options,
                                        double whole_cost = kWholeAttentionCost);

// A5: a call on data of known results. Returns nothing for a problem that no such data exist for.
// `change`, for tests, turns the problem that is judged into the one that runs.
std::vector<GateResult> check_exact_attention(
    const AttentionProblem& problem, const DataOptions& options,
    const std::function<void(AttentionProblem&)>& change = {});

}  // namespace octet
