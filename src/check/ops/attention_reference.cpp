#include "check/ops/attention_reference.hpp"

#include "check/reference/decode.hpp"
#include "check/reference/on_host.hpp"
#include "core/footprint.hpp"
#include "cpu/instruction_set.hpp"
#include "cpu/threads.hpp"
#include "device/cuda_runtime.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace octet {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// The f32 arithmetic of a kernel: sums in any order and exponentials of 22 bits.
constexpr double kF32Error = 0x1p-23;

OCTET_CPU_CLONES double dot(const double* x, const double* y, std::int64_t count) {
  constexpr int kLanes = 16;
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += x[i + lane] * y[i + lane];
  }
  double sum = 0;
  for (; i < count; ++i) sum += x[i] * y[i];
  for (const double lane : lanes) sum += lane;
  return sum;
}

OCTET_CPU_CLONES void add_product(double factor, const double* x, double* sum, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += factor * x[i];
}

double square(double x) { return x * x; }
double energy(const double* x, std::int64_t count) { return dot(x, x, count); }

// The squared norm of each row.
std::vector<double> energies(const std::vector<double>& rows, std::int64_t dim) {
  std::vector<double> result(rows.size() / static_cast<std::size_t>(dim));
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = energy(rows.data() + static_cast<std::int64_t>(i) * dim, dim);
  }
  return result;
}

std::vector<HeadStrip> strips_of(const std::vector<std::int64_t>& counts, std::int64_t heads) {
  std::vector<HeadStrip> strips;
  for (std::size_t b = 0; b < counts.size(); ++b) {
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t first = 0; first < counts[b]; first += kAttentionStrip) {
        strips.push_back({static_cast<std::int64_t>(b), head, first,
                          std::min(kAttentionStrip, counts[b] - first)});
      }
    }
  }
  return strips;
}

std::vector<std::int64_t> integers(const TensorView& vector) {
  const Tensor host(vector.dtype, {vector.shape[0]});
  copy(vector, host);
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < vector.shape[0]; ++i) {
    result.push_back(vector.dtype == Dtype::i32 ? static_cast<const std::int32_t*>(host.data())[i]
                                                : static_cast<const std::int64_t*>(host.data())[i]);
  }
  return result;
}

}  // namespace

double rounding_unit(Dtype dtype) {
  // f32 results come from chains of f32 operations, not from one rounding.
  return dtype == Dtype::f32 ? 0x1p-20 : float_format(dtype).half_ulp_of_one;
}

HeadsOnHost::HeadsOnHost(const TensorView& view) : view_(view) {
  if (view.data == nullptr || view.device.type == DeviceType::cpu) return;
  const ByteRange range = byte_range(view);
  copy_ = Buffer(range.end - range.begin);
  cuda::copy(copy_.data(), view.data, copy_.bytes(), view.device.index);
  view_.data = copy_.data();
  view_.device = kCpu;
}

AttentionReference::AttentionReference(const AttentionProblem& problem,
                                       const AttentionBackwardArgs& call)
    : problem_(problem),
      f32_share_(kF32Error / rounding_unit(problem.dtype)),
      q_lengths_(lengths_of(call.inputs.offsets_q, problem.batch, problem.seq_q, problem.total_q)),
      kv_lengths_(
          lengths_of(call.inputs.offsets_kv, problem.batch, problem.seq_kv, problem.total_kv)),
      q_(call.inputs.q),
      k_(call.inputs.k),
      v_(call.inputs.v),
      out_(call.out),
      dout_(call.dout),
      lse_(call.lse),
      dlse_(call.dlse),
      query_strips_(strips_of(q_lengths_.counts, problem.heads_q)),
      key_strips_(strips_of(kv_lengths_.counts, problem.heads_kv)) {
  if (problem.sink) sink_ = decoded(call.inputs.sink);
  std::int64_t count = 0;
  for (const std::int64_t queries : q_lengths_.counts) {
    first_result_.push_back(count);
    count += queries * problem.heads_q;
  }
  results_.resize(static_cast<std::size_t>(count));
}

AttentionReference::Lengths AttentionReference::lengths_of(const TensorView& offsets,
                                                           std::int64_t batch, std::int64_t seq,
                                                           std::int64_t total) {
  Lengths lengths;
  if (offsets.data == nullptr) {
    lengths.counts.assign(static_cast<std::size_t>(batch), seq);
    return lengths;
  }
  lengths.begins = integers(offsets);
  for (std::size_t b = 0; b + 1 < lengths.begins.size(); ++b) {
    lengths.counts.push_back(lengths.begins[b + 1] - lengths.begins[b]);
  }
  lengths.counts.push_back(total - lengths.begins.back());
  return lengths;
}

bool AttentionReference::sees(std::int64_t sequence, std::int64_t query, std::int64_t key) const {
  if (sequence >= problem_.batch) return false;
  const auto at = static_cast<std::size_t>(sequence);
  const bool from_the_end = problem_.mask.align == MaskAlignment::bottom_right;
  const std::int64_t place =
      query + (from_the_end ? kv_lengths_.counts[at] - q_lengths_.counts[at] : 0);
  const bool not_before = problem_.mask.left < 0 || key >= place - problem_.mask.left;
  const bool not_behind = problem_.mask.right < 0 || key <= place + problem_.mask.right;
  return not_before && not_behind;
}

void AttentionReference::read_rows(const TensorView& view, const Lengths& lengths,
                                   const HeadStrip& strip, double* to) {
  const bool packed = view.rank == 3;
  const int seq = packed ? 0 : 1;
  const std::int64_t row =
      strip.first + (packed ? lengths.begins[static_cast<std::size_t>(strip.sequence)] : 0);
  const std::int64_t first = (packed ? 0 : strip.sequence * view.strides[0]) +
                             row * view.strides[seq] + strip.head * view.strides[seq + 1];
  const std::int64_t dim = view.shape[seq + 2];
  const TensorView rows =
      make_matrix(static_cast<char*>(view.data) + first * size_bytes(view.dtype), view.dtype,
                  strip.rows, dim, view.strides[seq]);
  for (std::int64_t r = 0; r < strip.rows; ++r) {
    decode_panel(rows, &r, 1, 1, 0, static_cast<int>(dim), to + r * dim);
  }
}

std::vector<double> AttentionReference::all_rows(const HeadsOnHost& tensor, const Lengths& lengths,
                                                 std::int64_t sequence, std::int64_t head,
                                                 std::int64_t dim) const {
  const std::int64_t count = lengths.counts[static_cast<std::size_t>(sequence)];
  std::vector<double> rows(static_cast<std::size_t>(count * dim));
  if (count > 0) read_rows(tensor.view(), lengths, {sequence, head, 0, count}, rows.data());
  return rows;
}

void AttentionReference::read_queries(const HeadsOnHost& tensor, const HeadStrip& strip,
                                      ReferenceRows& rows) const {
  read_rows(tensor.view(), q_lengths_, strip, rows.values.data());
}
void AttentionReference::read_keys(const HeadsOnHost& tensor, const HeadStrip& strip,
                                   ReferenceRows& rows) const {
  read_rows(tensor.view(), kv_lengths_, strip, rows.values.data());
}

double AttentionReference::read_lse(const HeadsOnHost& tensor, std::int64_t sequence,
                                    std::int64_t head, std::int64_t query) const {
  const TensorView& view = tensor.view();
  const std::int64_t at =
      view.rank == 2
          ? head * view.strides[0] + q_lengths_.begins[static_cast<std::size_t>(sequence)] + query
          : sequence * view.strides[0] + head * view.strides[1] + query;
  return decode(view.data, at, Dtype::f32);
}

double AttentionReference::sink_of(std::int64_t sequence, std::int64_t head) const {
  const bool is_there = problem_.sink && sequence < problem_.batch;
  return is_there ? sink_[static_cast<std::size_t>(head)] : -kInfinity;
}
double AttentionReference::dlse_of(std::int64_t sequence, std::int64_t head,
                                   std::int64_t query) const {
  return dlse_.empty() ? 0 : read_lse(dlse_, sequence, head, query);
}

AttentionReference::Result& AttentionReference::result(std::int64_t sequence, std::int64_t head,
                                                       std::int64_t query) {
  const auto b = static_cast<std::size_t>(sequence);
  return results_[static_cast<std::size_t>(first_result_[b] + head * q_lengths_.counts[b] + query)];
}
const AttentionReference::Result& AttentionReference::result(std::int64_t sequence,
                                                             std::int64_t head,
                                                             std::int64_t query) const {
  return const_cast<AttentionReference*>(this)->result(sequence, head, query);
}

AttentionReference::Result AttentionReference::result_of(std::span<const double> out,
                                                         std::span<const double> dout, double lse,
                                                         double dlse) const {
  const auto count = static_cast<std::int64_t>(out.size());
  Result result;
  result.lse = lse;
  result.delta = dot(out.data(), dout.data(), count) - dlse;
  for (std::size_t c = 0; c < out.size(); ++c) result.delta_error += square(out[c] * dout[c]);
  result.delta_error += square(f32_share_) * energy(out.data(), count) * energy(dout.data(), count);
  return result;
}

double AttentionReference::query_strip_cost() const {
  const auto& counts = kv_lengths_.counts;
  const std::int64_t longest = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  return static_cast<double>(kAttentionStrip * longest) *
         static_cast<double>(3 * problem_.dim_qk + 2 * problem_.dim_v);
}
double AttentionReference::key_strip_cost() const {
  const auto& counts = q_lengths_.counts;
  const std::int64_t longest = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  return static_cast<double>(kAttentionStrip * longest * group()) *
         static_cast<double>(2 * problem_.dim_qk + 2 * problem_.dim_v);
}

void AttentionReference::take_given_results(int threads) {
  const std::int64_t dim = problem_.dim_v;
  parallel_for(threads, static_cast<std::int64_t>(query_strips_.size()), [&](std::int64_t index) {
    const HeadStrip& strip = query_strips_[static_cast<std::size_t>(index)];
    ReferenceRows out(strip.rows, dim), dout(strip.rows, dim);
    read_queries(out_, strip, out);
    read_queries(dout_, strip, dout);
    for (std::int64_t r = 0; r < strip.rows; ++r) {
      const std::int64_t query = strip.first + r;
      result(strip.sequence, strip.head, query) =
          result_of(out.row(r), dout.row(r), read_lse(lse_, strip.sequence, strip.head, query),
                    dlse_of(strip.sequence, strip.head, query));
    }
  });
}

QueryReference AttentionReference::queries(const HeadStrip& strip) {
  const std::int64_t d = problem_.dim_qk, dv = problem_.dim_v;
  const double scale = problem_.scale;
  const std::int64_t kv_head = strip.head / group();
  const std::vector<double> k = all_rows(k_, kv_lengths_, strip.sequence, kv_head, d);
  const std::vector<double> v = all_rows(v_, kv_lengths_, strip.sequence, kv_head, dv);
  const std::vector<double> k_energy = energies(k, d), v_energy = energies(v, dv);
  const auto keys = static_cast<std::int64_t>(k_energy.size());
  std::vector<double> q(static_cast<std::size_t>(strip.rows * d));
  std::vector<double> dout(static_cast<std::size_t>(strip.rows * dv));
  read_rows(q_.view(), q_lengths_, strip, q.data());
  read_rows(dout_.view(), q_lengths_, strip, dout.data());

  QueryReference reference{ReferenceRows(strip.rows, dv), ReferenceRows(strip.rows, d), {}};
  std::vector<double> p(static_cast<std::size_t>(keys)), mean_k(static_cast<std::size_t>(d));
  for (std::int64_t r = 0; r < strip.rows; ++r) {
    const std::int64_t query = strip.first + r;
    const double* q_row = q.data() + r * d;
    const double* dout_row = dout.data() + r * dv;
    const double sink = sink_of(strip.sequence, strip.head);
    double largest = sink;
    for (std::int64_t j = 0; j < keys; ++j) {
      p[j] = sees(strip.sequence, query, j) ? scale * dot(q_row, k.data() + j * d, d) : -kInfinity;
      largest = std::max(largest, p[j]);
    }
    const double base = std::isinf(largest) ? 0 : largest;
    double sum = std::exp(sink - base);
    for (const double score : p) sum += std::exp(score - base);
    const double lse = base + std::log(sum);
    reference.lse.push_back(lse);

    // A score is off by `slope` |k|, and so is p as a share of itself.
    const double slope = f32_share_ * std::fabs(scale) * std::sqrt(energy(q_row, d));
    const std::span<double> out = reference.out.row(r);
    double& out_explained = reference.out.explained[r];
    std::fill(mean_k.begin(), mean_k.end(), 0.0);
    for (std::int64_t j = 0; j < keys; ++j) {
      p[j] = std::isinf(p[j]) ? 0 : std::exp(p[j] - lse);
      if (p[j] == 0) continue;
      add_product(p[j], v.data() + j * dv, out.data(), dv);
      add_product(p[j], k.data() + j * d, mean_k.data(), d);
      out_explained += square(p[j]) * v_energy[j] * (1 + square(slope) * k_energy[j]);
    }
    out_explained += energy(out.data(), dv);
    const Result& given = result(strip.sequence, strip.head, query) =
        result_of(out, {dout_row, out.size()}, lse, dlse_of(strip.sequence, strip.head, query));

    const std::span<double> dq = reference.dq.row(r);
    double& dq_explained = reference.dq.explained[r];
    const double dout_energy = energy(dout_row, dv);
    for (std::int64_t j = 0; j < keys; ++j) {
      if (p[j] == 0) continue;
      const double ds = p[j] * (dot(dout_row, v.data() + j * dv, dv) - given.delta);
      add_product(scale * ds, k.data() + j * d, dq.data(), d);
      dq_explained += k_energy[j] * (square(ds) * (1 + square(slope) * k_energy[j]) +
                                     square(p[j] * f32_share_) * dout_energy * v_energy[j]);
    }
    dq_explained += given.delta_error * energy(mean_k.data(), d);
    dq_explained = square(scale) * dq_explained + energy(dq.data(), d);
  }
  return reference;
}

KeyReference AttentionReference::keys(const HeadStrip& strip) const {
  const std::int64_t d = problem_.dim_qk, dv = problem_.dim_v;
  const double scale = problem_.scale;
  std::vector<double> k(static_cast<std::size_t>(strip.rows * d));
  std::vector<double> v(static_cast<std::size_t>(strip.rows * dv));
  read_rows(k_.view(), kv_lengths_, strip, k.data());
  read_rows(v_.view(), kv_lengths_, strip, v.data());
  const std::vector<double> k_energy = energies(k, d), v_energy = energies(v, dv);

  KeyReference reference{ReferenceRows(strip.rows, d), ReferenceRows(strip.rows, dv)};
  for (std::int64_t head = strip.head * group(); head < (strip.head + 1) * group(); ++head) {
    if (strip.sequence >= problem_.batch) break;  // nothing sees what lies behind the last sequence
    const std::vector<double> q = all_rows(q_, q_lengths_, strip.sequence, head, d);
    const std::vector<double> dout = all_rows(dout_, q_lengths_, strip.sequence, head, dv);
    const auto queries = static_cast<std::int64_t>(q.size()) / d;
    for (std::int64_t i = 0; i < queries; ++i) {
      const double* q_row = q.data() + i * d;
      const double* dout_row = dout.data() + i * dv;
      const Result& given = result(strip.sequence, head, i);
      const double q_energy = energy(q_row, d), dout_energy = energy(dout_row, dv);
      const double slope = f32_share_ * std::fabs(scale) * std::sqrt(q_energy);
      for (std::int64_t j = 0; j < strip.rows; ++j) {
        if (!sees(strip.sequence, i, strip.first + j)) continue;
        const double p = std::exp(scale * dot(q_row, k.data() + j * d, d) - given.lse);
        const double ds = p * (dot(dout_row, v.data() + j * dv, dv) - given.delta);
        add_product(p, dout_row, reference.dv.row(j).data(), dv);
        add_product(scale * ds, q_row, reference.dk.row(j).data(), d);
        const double of_scores = 1 + square(slope) * k_energy[j];
        reference.dv.explained[j] += square(p) * dout_energy * of_scores;
        reference.dk.explained[j] += square(scale) * q_energy *
                                     (square(ds) * of_scores + square(p) * given.delta_error +
                                      square(p * f32_share_) * dout_energy * v_energy[j]);
      }
    }
  }
  for (std::int64_t j = 0; j < strip.rows; ++j) {
    reference.dv.explained[j] += energy(reference.dv.row(j).data(), dv);
    reference.dk.explained[j] += energy(reference.dk.row(j).data(), d);
  }
  return reference;
}

ReferenceRows AttentionReference::dsink() const {
  ReferenceRows reference(1, problem_.heads_q);
  for (std::int64_t b = 0; b < problem_.batch; ++b) {
    for (std::int64_t head = 0; head < problem_.heads_q; ++head) {
      for (std::int64_t i = 0; i < q_lengths_.counts[static_cast<std::size_t>(b)]; ++i) {
        const Result& given = result(b, head, i);
        const double p = std::exp(sink_of(b, head) - given.lse);
        reference.values[head] -= p * given.delta;
        reference.explained[0] +=
            square(p) * (given.delta_error + square(f32_share_ * given.delta));
      }
    }
  }
  return reference;
}

}  // namespace octet
