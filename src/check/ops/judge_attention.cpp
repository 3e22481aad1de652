// A1 to A4: what a call of attention wrote, against the reference.
#include "check/ops/attention_reference.hpp"
#include "core/message.hpp"
#include "cpu/threads.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace octet {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kLseError = 2e-5;
// Roundings are uniform within half an ulp, and numbers within a power of two.
constexpr double kTypicalRounding = 0.4;  // of half an ulp
// An SNR is asked for where rounding leaves at least this much more.
constexpr double kRoomDb = 2;
constexpr std::int64_t kRowOutputs = 32;

struct BoundsDb {
  double whole, strip;
  double row;  // -infinity: rows are not judged
};

// Of out and dv, and of dq and dk, whose rows may cancel.
BoundsDb bounds_of(Dtype dtype, bool may_cancel) {
  const double more = dtype == Dtype::f32 ? 50 : dtype == Dtype::f16 ? 12 : 0;
  return may_cancel ? BoundsDb{48 + more, 46 + more, -kInfinity}
                    : BoundsDb{50 + more, 48 + more, 44 + more};
}

double decibels(double signal, double noise) {
  return noise > 0 ? 10 * std::log10(signal / noise) : kInfinity;
}

// A part of an output.
struct Share {
  std::int64_t count = 0;
  double signal = 0;
  double noise = 0;
  double explained = 0;  // in units of u^2

  void add(const Share& other) {
    count += other.count;
    signal += other.signal;
    noise += other.noise;
    explained += other.explained;
  }
  double snr_db() const { return decibels(signal, noise); }
  // By how much it passes: the SNR beyond its bound or, for a part that is small or whose SNR
  // rounding alone brings down, twice the error that rounding explains over its own.
  double margin_db(double bound_db, std::int64_t least_count, double unit) const {
    if (!std::isfinite(noise)) return -kInfinity;
    const double beyond = snr_db() - bound_db;
    const double rounding_db =
        decibels(signal, kTypicalRounding * kTypicalRounding * unit * unit * explained);
    if (count >= least_count && rounding_db >= bound_db + kRoomDb) return beyond;
    return std::max(beyond, decibels(4 * unit * unit * explained, noise));
  }
};

Share share_of(std::span<const double> given, std::span<const double> reference, double explained) {
  Share share{static_cast<std::int64_t>(given.size()), 0, 0, explained};
  for (std::size_t c = 0; c < given.size(); ++c) {
    const double error = given[c] - reference[c];
    share.signal += reference[c] * reference[c];
    share.noise += std::isfinite(error) ? error * error : kInfinity;
  }
  return share;
}

// A strip or a row that passes by less than the others.
struct Worst {
  double margin_db = kInfinity;
  double snr_db = kInfinity;
  HeadStrip place;

  void take(const Worst& other) {
    if (other.margin_db < margin_db) *this = other;
  }
};

// Of one output, in some strips.
struct OutputFindings {
  Share whole;
  Worst strip, row;

  void add(const OutputFindings& other) {
    whole.add(other.whole);
    strip.take(other.strip);
    row.take(other.row);
  }
};

OutputFindings judge_strip(const HeadStrip& strip, const ReferenceRows& given,
                           const ReferenceRows& reference, const BoundsDb& bounds, double unit) {
  OutputFindings findings;
  for (std::int64_t r = 0; r < strip.rows; ++r) {
    const Share row =
        share_of(given.row(r), reference.row(r), reference.explained[static_cast<std::size_t>(r)]);
    findings.whole.add(row);
    if (std::isinf(bounds.row)) continue;
    findings.row.take({row.margin_db(bounds.row, kRowOutputs, unit),
                       row.snr_db(),
                       {strip.sequence, strip.head, strip.first + r, 1}});
  }
  const Share& all = findings.whole;
  findings.strip = {all.margin_db(bounds.strip, kSnrOutputs, unit), all.snr_db(), strip};
  return findings;
}

struct LseFindings {
  double share = 0;  // of the bound
  HeadStrip place;
  double given = 0;
  double reference = 0;

  void take(const LseFindings& other) {
    if (other.share > share) *this = other;
  }
};

double lse_share(double given, double reference) {
  if (std::isinf(reference)) return given == reference ? 0 : kInfinity;
  const double error = std::fabs(given - reference);
  return std::isfinite(error) ? error / (kLseError * std::max(1.0, std::fabs(reference)))
                              : kInfinity;
}

std::string decibel_text(double db) {
  std::ostringstream stream;
  stream.precision(1);
  stream << std::fixed << db << " dB";
  return stream.str();
}

std::string place_text(const HeadStrip& place) {
  const std::string rows = place.rows == 1
                               ? text("row ", place.first)
                               : text("rows ", place.first, "..", place.first + place.rows - 1);
  return text(", sequence ", place.sequence, ", head ", place.head, ", ", rows);
}

class AttentionJudge {
 public:
  AttentionJudge(const AttentionProblem& problem, const AttentionBackwardArgs& call,
                 const JudgeOptions& options, double whole_cost)
      : problem_(problem),
        options_(options),
        threads_(options.threads != 0 ? options.threads : default_threads()),
        unit_(rounding_unit(problem.dtype)),
        reference_(problem, call),
        out_(call.out),
        lse_(call.lse),
        dq_(call.dq),
        dk_(call.dk),
        dv_(call.dv),
        dsink_(call.dsink) {
    const auto cost = [](const std::vector<HeadStrip>& strips, double one) {
      return static_cast<double>(strips.size()) * one;
    };
    whole_ = cost(reference_.query_strips(), reference_.query_strip_cost()) +
                 cost(reference_.key_strips(), reference_.key_strip_cost()) <=
             whole_cost;
    query_strips_ = judged(reference_.query_strips(), reference_.query_strip_cost(), whole_cost);
    key_strips_ = judged(reference_.key_strips(), reference_.key_strip_cost(), whole_cost);
  }

  std::vector<GateResult> results() {
    judge_queries();
    if (!whole_) reference_.take_given_results(threads_);
    judge_keys();
    if (problem_.sink) judge_sink();
    return std::move(results_);
  }

 private:
  // A quarter of the cost goes to queries and a quarter to keys; both have their first strip and
  // their last.
  std::vector<HeadStrip> judged(const std::vector<HeadStrip>& strips, double cost,
                                double whole_cost) const {
    if (whole_) return strips;
    JudgeOptions sample = options_;
    sample.sample_beyond = static_cast<std::int64_t>(whole_cost / 4 / cost);
    std::vector<HeadStrip> result;
    for (const std::int64_t strip :
         judged_rows(static_cast<std::int64_t>(strips.size()), 1, sample)) {
      result.push_back(strips[static_cast<std::size_t>(strip)]);
    }
    return result;
  }

  // Calls judge(strip, index) for each strip; findings are added up in order afterwards.
  template <class Judge>
  void for_each(const std::vector<HeadStrip>& strips, const Judge& judge) const {
    parallel_for(threads_, static_cast<std::int64_t>(strips.size()), [&](std::int64_t index) {
      judge(strips[static_cast<std::size_t>(index)], static_cast<std::size_t>(index));
    });
  }

  void judge_queries() {
    const std::size_t count = query_strips_.size();
    std::vector<OutputFindings> out(count), dq(count);
    std::vector<LseFindings> lse(count);
    const BoundsDb out_bounds = bounds_of(problem_.dtype, false);
    const BoundsDb dq_bounds = bounds_of(problem_.dtype, true);
    for_each(query_strips_, [&](const HeadStrip& strip, std::size_t index) {
      const QueryReference wanted = reference_.queries(strip);
      ReferenceRows given(strip.rows, problem_.dim_v);
      reference_.read_queries(out_, strip, given);
      out[index] = judge_strip(strip, given, wanted.out, out_bounds, unit_);
      ReferenceRows given_dq(strip.rows, problem_.dim_qk);
      reference_.read_queries(dq_, strip, given_dq);
      dq[index] = judge_strip(strip, given_dq, wanted.dq, dq_bounds, unit_);
      for (std::int64_t r = 0; r < strip.rows; ++r) {
        const double value = reference_.read_lse(lse_, strip.sequence, strip.head, strip.first + r);
        const double reference = wanted.lse[static_cast<std::size_t>(r)];
        lse[index].take({lse_share(value, reference),
                         {strip.sequence, strip.head, strip.first + r, 1},
                         value,
                         reference});
      }
    });
    report("out", out, out_bounds);
    report_lse(lse);
    report("dq", dq, dq_bounds);
  }

  void judge_keys() {
    const std::size_t count = key_strips_.size();
    std::vector<OutputFindings> dk(count), dv(count);
    const BoundsDb dk_bounds = bounds_of(problem_.dtype, true);
    const BoundsDb dv_bounds = bounds_of(problem_.dtype, false);
    for_each(key_strips_, [&](const HeadStrip& strip, std::size_t index) {
      const KeyReference wanted = reference_.keys(strip);
      ReferenceRows given(strip.rows, problem_.dim_qk);
      reference_.read_keys(dk_, strip, given);
      dk[index] = judge_strip(strip, given, wanted.dk, dk_bounds, unit_);
      ReferenceRows given_dv(strip.rows, problem_.dim_v);
      reference_.read_keys(dv_, strip, given_dv);
      dv[index] = judge_strip(strip, given_dv, wanted.dv, dv_bounds, unit_);
    });
    report("dk", dk, dk_bounds);
    report("dv", dv, dv_bounds);
  }

  void judge_sink() {
    const ReferenceRows wanted = reference_.dsink();
    ReferenceRows given(1, problem_.heads_q);
    for (std::int64_t head = 0; head < problem_.heads_q; ++head) {
      const TensorView& view = dsink_.view();
      given.values[static_cast<std::size_t>(head)] =
          static_cast<const float*>(view.data)[head * view.strides[0]];
    }
    const HeadStrip all{0, 0, 0, 1};
    const OutputFindings findings =
        judge_strip(all, given, wanted, bounds_of(problem_.dtype, true), unit_);
    report_whole("dsink", findings.whole, bounds_of(problem_.dtype, true).whole, "");
  }

  void report_whole(const std::string& tensor, const Share& whole, double bound_db,
                    const std::string& sample) {
    const double margin = whole.margin_db(bound_db, kSnrOutputs, unit_);
    const bool by_rounding = margin > 0 && !(whole.snr_db() > bound_db);
    results_.push_back({"A1", tensor, margin > 0,
                        decibel_text(whole.snr_db()) + sample + (by_rounding ? kByRounding : ""),
                        text("> ", bound_db, " dB"), whole.snr_db()});
  }

  void report_worst(const char* gate, const std::string& tensor, const Worst& worst,
                    double bound_db, const std::string& sample) {
    const bool by_rounding = worst.margin_db > 0 && !(worst.snr_db > bound_db);
    const std::string value = std::isinf(worst.snr_db) && worst.margin_db > 0
                                  ? "exact" + sample
                                  : decibel_text(worst.snr_db) + place_text(worst.place) + sample;
    results_.push_back({gate, tensor, worst.margin_db > 0, value + (by_rounding ? kByRounding : ""),
                        text("> ", bound_db, " dB"), kNaN});
  }

  void report(const std::string& tensor, const std::vector<OutputFindings>& parts,
              const BoundsDb& bounds) {
    OutputFindings all;
    for (const OutputFindings& part : parts) all.add(part);
    const std::string sample = sample_text(parts.size());
    report_whole(tensor, all.whole, bounds.whole, sample);
    report_worst("A2", tensor, all.strip, bounds.strip, sample);
    if (!std::isinf(bounds.row)) report_worst("A3", tensor, all.row, bounds.row, sample);
  }

  void report_lse(const std::vector<LseFindings>& parts) {
    LseFindings worst;
    for (const LseFindings& part : parts) worst.take(part);
    const std::string tensor = "lse";
    const bool pass = worst.share <= 1;
    results_.push_back(
        {"A4", tensor, pass,
         pass ? text("all close", sample_text(parts.size()))
              : text(worst.given, " instead of ", worst.reference, place_text(worst.place)),
         text("<= ", kLseError, " max(1, |lse|)"), kNaN});
  }

  std::string sample_text(std::size_t strips) const {
    return whole_ ? "" : text(" in ", strips, " sampled strips");
  }

  static constexpr const char* kByRounding = " (within rounding)";

  AttentionProblem problem_;
  JudgeOptions options_;
  int threads_;
  double unit_;
  AttentionReference reference_;
  HeadsOnHost out_, lse_, dq_, dk_, dv_, dsink_;
  bool whole_ = true;
  std::vector<HeadStrip> query_strips_, key_strips_;
  std::vector<GateResult> results_;
};

}  // namespace

std::vector<GateResult> judge_attention(const AttentionProblem& problem,
                                        const AttentionBackwardArgs& call,
                                        const JudgeOptions& options, double whole_cost) {
  return AttentionJudge(problem, call, options, whole_cost).results();
}

}  // namespace octet
