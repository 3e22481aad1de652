// The formulas with f64 inside, one row at a time.
#include "core/numeric.hpp"
#include "cpu/threads.hpp"
#include "ops/attention/problem.hpp"

#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <vector>

namespace octet {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

using Row = std::vector<double>;

Row load_row(const HeadRows& rows, std::int64_t index, std::int64_t dim) {
  Row row(static_cast<std::size_t>(dim));
  for (std::size_t c = 0; c < row.size(); ++c) {
    row[c] = load_f32(rows.row(index), static_cast<std::int64_t>(c), rows.dtype);
  }
  return row;
}

void store_row(const Row& row, double factor, const HeadRows& rows, std::int64_t index) {
  for (std::size_t c = 0; c < row.size(); ++c) {
    store_f32(rows.row(index), static_cast<std::int64_t>(c), rows.dtype,
              static_cast<float>(row[c] * factor));
  }
}

// Rows are allocated inside the tasks, which must not throw: an error is thrown behind the loop.
template <class Task>
void for_each_task(int threads, std::int64_t count, const Task& task) {
  std::exception_ptr error;
  std::once_flag first;
  parallel_for(threads, count, [&](std::int64_t index) {
    try {
      task(index);
    } catch (...) {
      std::call_once(first, [&] { error = std::current_exception(); });
    }
  });
  if (error) std::rethrow_exception(error);
}

double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
  return sum;
}

void add_product(Row& sum, double factor, const Row& row) {
  for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += factor * row[c];
}

// exp(score - lse). A query whose visible keys all score -infinity sees nothing, as one without keys.
double probability(double score, double lse) {
  return lse == kMinusInfinity ? 0 : std::exp(score - lse);
}

// The logit of a head's sink; without one it adds nothing.
double sink_of(const AttentionInputs& inputs, std::int64_t head) {
  return inputs.sink.data == nullptr ? kMinusInfinity : sink_at(inputs, head);
}

void run_forward(const AttentionProblem& problem, const AttentionForwardArgs& args,
                 const RunContext& context) {
  const AttentionInputs& inputs = args.inputs;
  const Sequences sequences(problem, inputs);
  for_each_task(context.threads, sequences.count() * problem.heads_q, [&](std::int64_t task) {
    const std::int64_t b = task / problem.heads_q, head = task % problem.heads_q;
    const SequenceMask mask = sequences.mask(b);
    const HeadRows q = sequences.query_rows(inputs.q, b, head);
    const HeadRows k = sequences.key_rows(inputs.k, b, kv_head(problem, head));
    const HeadRows v = sequences.key_rows(inputs.v, b, kv_head(problem, head));
    const HeadRows out = sequences.query_rows(args.out, b, head);
    float* lse_out = sequences.query_floats(args.lse, b, head);
    const double sink = b < problem.batch ? sink_of(inputs, head) : kMinusInfinity;
    for (std::int64_t i = 0; i < mask.queries; ++i) {
      const IndexRange visible = mask.keys_of(i);
      const Row query = load_row(q, i, problem.dim_qk);
      Row scores;
      double largest = sink;
      for (std::int64_t j = visible.begin; j < visible.end; ++j) {
        scores.push_back(problem.scale * dot(query, load_row(k, j, problem.dim_qk)));
        largest = std::max(largest, scores.back());
      }
      const double base = largest == kMinusInfinity ? 0 : largest;
      double sum = std::exp(sink - base);
      for (const double score : scores) sum += std::exp(score - base);
      const double lse = base + std::log(sum);
      Row result(static_cast<std::size_t>(problem.dim_v));
      for (std::int64_t j = visible.begin; j < visible.end; ++j) {
        add_product(result, probability(scores[static_cast<std::size_t>(j - visible.begin)], lse),
                    load_row(v, j, problem.dim_v));
      }
      store_row(result, 1, out, i);
      if (lse_out != nullptr) lse_out[i] = static_cast<float>(lse);
    }
  });
}

// One key and value head of a sequence, with the query heads that read it.
class GroupGradient {
 public:
  GroupGradient(const AttentionProblem& problem, const AttentionBackwardArgs& args,
                const Sequences& sequences, std::int64_t sequence, std::int64_t head)
      : problem_(problem),
        args_(args),
        sequences_(sequences),
        b_(sequence),
        head_(head),
        mask_(sequences.mask(sequence)),
        k_(sequences.key_rows(args.inputs.k, sequence, head)),
        v_(sequences.key_rows(args.inputs.v, sequence, head)),
        dk_(static_cast<std::size_t>(mask_.keys), Row(static_cast<std::size_t>(problem.dim_qk))),
        dv_(static_cast<std::size_t>(mask_.keys), Row(static_cast<std::size_t>(problem.dim_v))) {}

  void run() {
    const std::int64_t group = problem_.heads_q / problem_.heads_kv;
    for (std::int64_t head = head_ * group; head < (head_ + 1) * group; ++head) {
      for (std::int64_t i = 0; i < mask_.queries; ++i) add_query(head, i);
    }
    const HeadRows dk = sequences_.key_rows(args_.dk, b_, head_);
    const HeadRows dv = sequences_.key_rows(args_.dv, b_, head_);
    for (std::int64_t j = 0; j < mask_.keys; ++j) {
      store_row(dk_[static_cast<std::size_t>(j)], problem_.scale, dk, j);
      store_row(dv_[static_cast<std::size_t>(j)], 1, dv, j);
    }
  }

 private:
  void add_query(std::int64_t head, std::int64_t i) {
    const Row query = load_row(sequences_.query_rows(args_.inputs.q, b_, head), i, problem_.dim_qk);
    const Row out = load_row(sequences_.query_rows(args_.out, b_, head), i, problem_.dim_v);
    const Row dout = load_row(sequences_.query_rows(args_.dout, b_, head), i, problem_.dim_v);
    const double lse = sequences_.query_floats(args_.lse, b_, head)[i];
    const float* dlse = sequences_.query_floats(args_.dlse, b_, head);
    const double delta = dot(dout, out) - (dlse == nullptr ? 0 : dlse[i]);
    Row dq(query.size());
    const IndexRange visible = mask_.keys_of(i);
    for (std::int64_t j = visible.begin; j < visible.end; ++j) {
      const Row key = load_row(k_, j, problem_.dim_qk);
      const double p = probability(problem_.scale * dot(query, key), lse);
      const double ds = p * (dot(dout, load_row(v_, j, problem_.dim_v)) - delta);
      add_product(dq, ds, key);
      add_product(dk_[static_cast<std::size_t>(j)], ds, query);
      add_product(dv_[static_cast<std::size_t>(j)], p, dout);
    }
    store_row(dq, problem_.scale, sequences_.query_rows(args_.dq, b_, head), i);
  }

  const AttentionProblem& problem_;
  const AttentionBackwardArgs& args_;
  const Sequences& sequences_;
  std::int64_t b_, head_;
  SequenceMask mask_;
  HeadRows k_, v_;
  std::vector<Row> dk_, dv_;
};

void sum_sink(const AttentionProblem& problem, const AttentionBackwardArgs& args,
              const Sequences& sequences, std::int64_t head) {
  const double sink = sink_of(args.inputs, head);
  double sum = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const HeadRows out = sequences.query_rows(args.out, b, head);
    const HeadRows dout = sequences.query_rows(args.dout, b, head);
    const float* lse = sequences.query_floats(args.lse, b, head);
    const float* dlse = sequences.query_floats(args.dlse, b, head);
    for (std::int64_t i = 0; i < sequences.queries(b); ++i) {
      if (lse[i] == kMinusInfinity) continue;  // no key, and a sink of -infinity
      const double delta = dot(load_row(dout, i, problem.dim_v), load_row(out, i, problem.dim_v)) -
                           (dlse == nullptr ? 0 : dlse[i]);
      sum -= std::exp(sink - lse[i]) * delta;
    }
  }
  static_cast<float*>(args.dsink.data)[head * args.dsink.strides[0]] = static_cast<float>(sum);
}

void run_backward(const AttentionProblem& problem, const AttentionBackwardArgs& args,
                  const RunContext& context) {
  const Sequences sequences(problem, args.inputs);
  for_each_task(context.threads, sequences.count() * problem.heads_kv, [&](std::int64_t task) {
    GroupGradient(problem, args, sequences, task / problem.heads_kv, task % problem.heads_kv).run();
  });
  if (!problem.sink) return;
  for_each_task(context.threads, problem.heads_q,
                [&](std::int64_t head) { sum_sink(problem, args, sequences, head); });
}

}  // namespace

constinit const AttentionForwardImplementation kAttentionForwardCpuReference =
    cpu_reference<AttentionProblem, AttentionForwardArgs, run_forward>();
constinit const AttentionBackwardImplementation kAttentionBackwardCpuReference =
    cpu_reference<AttentionProblem, AttentionBackwardArgs, run_backward>();

}  // namespace octet
