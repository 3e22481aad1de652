// Tiles of 64 keys and 64 queries, f32 inside.
//
// Forward: a task is a block of queries of one head; its queries are the lanes of the tiles, and it
// goes over the keys that they see. Backward in two passes of such tasks, each with the scores
// computed anew: dk and dv of a block of keys, whose lanes are keys, over the queries of all heads
// that read them; then dq of a block of queries. No sum is shared between tasks, so the bits depend
// neither on threads nor on what else is in the batch.
#include "ops/attention/cpu_simd.hpp"

#include "core/checks.hpp"
#include "core/workspace.hpp"
#include "cpu/threads.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

namespace octet::attention {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The memory of one thread. `lanes` are transposed blocks, [dim][kLanes]; `rows` are [kTileRows][dim].
struct Scratch {
  float* lanes_qk;
  float* lanes_v;
  float* rows_qk;
  float* rows_v;
  float* sum_qk;  // [dim_qk][kLanes]
  float* sum_v;   // [dim_v][kLanes]
  float* p;       // [kTileRows][kLanes]
  float* ds;      // the same

  Scratch(const AttentionProblem& problem, float* memory) {
    const auto take = [&](std::int64_t count) {
      float* piece = memory;
      memory += count;
      return piece;
    };
    const std::int64_t qk = problem.dim_qk * kLanes, v = problem.dim_v * kLanes;
    lanes_qk = take(qk);
    lanes_v = take(v);
    rows_qk = take(qk);
    rows_v = take(v);
    sum_qk = take(qk);
    sum_v = take(v);
    p = take(kTileRows * kLanes);
    ds = take(kTileRows * kLanes);
  }
};
static_assert(kTileRows == kLanes, "rows and lanes of a block take the same memory");

// A block of rows of one head: [begin, begin + count).
struct Block {
  std::int64_t begin;
  std::int64_t count;

  std::int64_t last() const { return begin + count - 1; }
};

Block block_at(std::int64_t begin, std::int64_t end) {
  return {begin, std::min(kTileRows, end - begin)};
}

// The blocks of kTileRows rows, counted from row 0, that have rows of the range.
template <class Task>
void for_each_block(const IndexRange& range, std::int64_t rows, const Task& task) {
  if (range.empty()) return;
  for (std::int64_t begin = range.begin / kTileRows * kTileRows; begin < range.end;
       begin += kTileRows) {
    task(block_at(begin, rows));
  }
}

class Worker {
 public:
  Worker(const AttentionProblem& problem, const Kernels& kernels, float* memory)
      : problem_(problem), kernels_(kernels), scratch_(problem, memory) {}

 protected:
  void load_rows(const HeadRows& from, const Block& block, std::int64_t dim, float* to) const {
    const auto widen = kernels_.widen[kernel_index(from.dtype)];
    for (std::int64_t r = 0; r < block.count; ++r)
      widen(from.row(block.begin + r), dim, to + r * dim);
  }
  // Transposed; lanes without a row are 0. `rows` is overwritten.
  void load_lanes(const HeadRows& from, const Block& block, std::int64_t dim, float* rows,
                  float* to) const {
    load_rows(from, block, dim, rows);
    for (std::int64_t c = 0; c < dim; ++c) {
      float* lane = to + c * kLanes;
      for (std::int64_t r = 0; r < block.count; ++r) lane[r] = rows[r * dim + c];
      std::fill(lane + block.count, lane + kLanes, 0.0f);
    }
  }
  // The lanes of `sum` [dim][kLanes], times their factors, as rows. `row` is overwritten.
  void store_lanes(const float* sum, const float* factors, const Block& block, std::int64_t dim,
                   float* row, const HeadRows& to) const {
    const auto narrow = kernels_.narrow[kernel_index(to.dtype)];
    for (std::int64_t r = 0; r < block.count; ++r) {
      for (std::int64_t c = 0; c < dim; ++c) row[c] = sum[c * kLanes + r] * factors[r];
      narrow(row, dim, to.row(block.begin + r));
    }
  }

  // The rows of a tile that each lane sees; null if all see all.
  template <class VisibleOf>
  const LaneRanges* ranges_of(const Block& rows, const Block& lanes, bool all,
                              const VisibleOf& visible_of) {
    if (all) return nullptr;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      IndexRange visible;
      if (lane < lanes.count) visible = visible_of(lanes.begin + lane);
      const auto in_tile = [&](std::int64_t index) {
        return static_cast<std::int32_t>(
            std::clamp<std::int64_t>(index - rows.begin, 0, rows.count));
      };
      ranges_.begin[lane] = in_tile(visible.begin);
      ranges_.end[lane] = in_tile(visible.end);
    }
    return &ranges_;
  }
  const LaneRanges* keys_of_queries(const SequenceMask& mask, const Block& queries,
                                    const Block& keys) {
    return ranges_of(keys, queries,
                     mask.sees_all(queries.begin, queries.last(), keys.begin, keys.last()),
                     [&](std::int64_t query) { return mask.keys_of(query); });
  }
  const LaneRanges* queries_of_keys(const SequenceMask& mask, const Block& queries,
                                    const Block& keys) {
    return ranges_of(queries, keys,
                     mask.sees_all(queries.begin, queries.last(), keys.begin, keys.last()),
                     [&](std::int64_t key) { return mask.queries_of(key); });
  }

  const AttentionProblem& problem_;
  const Kernels& kernels_;
  Scratch scratch_;
  LaneRanges ranges_;
};

class ForwardWorker : Worker {
 public:
  using Worker::Worker;

  void run(const AttentionForwardArgs& args, const Sequences& sequences, std::int64_t b,
           std::int64_t head, const Block& queries) {
    const SequenceMask mask = sequences.mask(b);
    const HeadRows k = sequences.key_rows(args.inputs.k, b, kv_head(problem_, head));
    const HeadRows v = sequences.key_rows(args.inputs.v, b, kv_head(problem_, head));
    load_lanes(sequences.query_rows(args.inputs.q, b, head), queries, problem_.dim_qk,
               scratch_.rows_qk, scratch_.lanes_qk);
    std::fill_n(scratch_.sum_v, problem_.dim_v * kLanes, 0.0f);
    std::fill_n(state_.largest, kLanes, -kInfinity);
    std::fill_n(state_.sum, kLanes, 0.0f);
    for_each_block(mask.keys_of(queries.begin, queries.last()), mask.keys,
                   [&](const Block& keys) { add_keys(mask, queries, keys, k, v); });
    const bool has_sink = problem_.sink && b < problem_.batch;
    finish(queries, has_sink ? sink_at(args.inputs, head) : -kInfinity,
           sequences.query_rows(args.out, b, head), sequences.query_floats(args.lse, b, head));
  }

 private:
  void add_keys(const SequenceMask& mask, const Block& queries, const Block& keys,
                const HeadRows& k, const HeadRows& v) {
    load_rows(k, keys, problem_.dim_qk, scratch_.rows_qk);
    load_rows(v, keys, problem_.dim_v, scratch_.rows_v);
    kernels_.multiply(scratch_.rows_qk, keys.count, problem_.dim_qk, scratch_.lanes_qk, scratch_.p);
    kernels_.softmax(problem_.scale, keys.count, keys_of_queries(mask, queries, keys), scratch_.p,
                     state_);
    kernels_.scale_lanes(state_.rescale, problem_.dim_v, scratch_.sum_v);
    kernels_.accumulate(scratch_.rows_v, keys.count, problem_.dim_v, scratch_.p, scratch_.sum_v);
  }

  void finish(const Block& queries, float sink, const HeadRows& out, float* lse) {
    alignas(64) float factors[kLanes];
    for (std::int64_t lane = 0; lane < queries.count; ++lane) {
      const double largest = std::max<double>(state_.largest[lane], sink);
      // A query that has seen nothing subtracts from 0. Its sum may be NaN, which the maximum lost.
      const double base = largest == -kInfinity ? 0 : largest;
      const double rescale = std::exp(state_.largest[lane] - base);
      const double all = state_.sum[lane] * rescale + std::exp(sink - base);
      factors[lane] = all == 0 ? 0 : static_cast<float>(rescale / all);
      if (lse != nullptr) lse[queries.begin + lane] = static_cast<float>(base + std::log(all));
    }
    store_lanes(scratch_.sum_v, factors, queries, problem_.dim_v, scratch_.rows_v, out);
  }

  SoftmaxState state_;
};

class BackwardWorker : Worker {
 public:
  BackwardWorker(const AttentionProblem& problem, const Kernels& kernels, float* memory,
                 const AttentionBackwardArgs& args, const Sequences& sequences,
                 const TensorView& delta)
      : Worker(problem, kernels, memory), args_(args), sequences_(sequences), delta_(delta) {
    std::fill_n(scale_, kLanes, problem.scale);
    std::fill_n(one_, kLanes, 1.0f);
  }

  // delta of one head of a sequence.
  void sum_delta(std::int64_t b, std::int64_t head) {
    const HeadRows out = sequences_.query_rows(args_.out, b, head);
    const HeadRows dout = sequences_.query_rows(args_.dout, b, head);
    const float* dlse = sequences_.query_floats(args_.dlse, b, head);
    float* delta = sequences_.query_floats(delta_, b, head);
    for (std::int64_t i = 0; i < sequences_.queries(b); ++i) {
      load_rows(out, {i, 1}, problem_.dim_v, scratch_.rows_v);
      load_rows(dout, {i, 1}, problem_.dim_v, scratch_.lanes_v);
      double sum = 0;
      for (std::int64_t c = 0; c < problem_.dim_v; ++c) {
        sum += static_cast<double>(scratch_.rows_v[c]) * scratch_.lanes_v[c];
      }
      delta[i] = static_cast<float>(sum - (dlse == nullptr ? 0 : dlse[i]));
    }
  }

  void dk_and_dv(std::int64_t b, std::int64_t head, const Block& keys) {
    const SequenceMask mask = sequences_.mask(b);
    load_lanes(sequences_.key_rows(args_.inputs.k, b, head), keys, problem_.dim_qk,
               scratch_.rows_qk, scratch_.lanes_qk);
    load_lanes(sequences_.key_rows(args_.inputs.v, b, head), keys, problem_.dim_v, scratch_.rows_v,
               scratch_.lanes_v);
    clear_sums();
    const std::int64_t group = problem_.heads_q / problem_.heads_kv;
    for (std::int64_t reader = head * group; reader < (head + 1) * group; ++reader) {
      const HeadRows q = sequences_.query_rows(args_.inputs.q, b, reader);
      const HeadRows dout = sequences_.query_rows(args_.dout, b, reader);
      for_each_block(mask.queries_of(keys.begin, keys.last()), mask.queries,
                     [&](const Block& queries) {
                       load_rows(q, queries, problem_.dim_qk, scratch_.rows_qk);
                       load_rows(dout, queries, problem_.dim_v, scratch_.rows_v);
                       read_softmax(b, reader, queries);
                       multiply_both(queries);
                       kernels_.gradient_by_row(problem_.scale, queries.count,
                                                queries_of_keys(mask, queries, keys), softmax_,
                                                scratch_.p, scratch_.ds);
                       kernels_.accumulate(scratch_.rows_v, queries.count, problem_.dim_v,
                                           scratch_.p, scratch_.sum_v);
                       kernels_.accumulate(scratch_.rows_qk, queries.count, problem_.dim_qk,
                                           scratch_.ds, scratch_.sum_qk);
                     });
    }
    store_lanes(scratch_.sum_qk, scale_, keys, problem_.dim_qk, scratch_.rows_qk,
                sequences_.key_rows(args_.dk, b, head));
    store_lanes(scratch_.sum_v, one_, keys, problem_.dim_v, scratch_.rows_v,
                sequences_.key_rows(args_.dv, b, head));
  }

  void dq(std::int64_t b, std::int64_t head, const Block& queries) {
    const SequenceMask mask = sequences_.mask(b);
    const HeadRows k = sequences_.key_rows(args_.inputs.k, b, kv_head(problem_, head));
    const HeadRows v = sequences_.key_rows(args_.inputs.v, b, kv_head(problem_, head));
    load_lanes(sequences_.query_rows(args_.inputs.q, b, head), queries, problem_.dim_qk,
               scratch_.rows_qk, scratch_.lanes_qk);
    load_lanes(sequences_.query_rows(args_.dout, b, head), queries, problem_.dim_v, scratch_.rows_v,
               scratch_.lanes_v);
    clear_sums();
    read_softmax(b, head, queries);
    for_each_block(mask.keys_of(queries.begin, queries.last()), mask.keys, [&](const Block& keys) {
      load_rows(k, keys, problem_.dim_qk, scratch_.rows_qk);
      load_rows(v, keys, problem_.dim_v, scratch_.rows_v);
      multiply_both(keys);
      kernels_.gradient_by_lane(problem_.scale, keys.count, keys_of_queries(mask, queries, keys),
                                softmax_, scratch_.p, scratch_.ds);
      kernels_.accumulate(scratch_.rows_qk, keys.count, problem_.dim_qk, scratch_.ds,
                          scratch_.sum_qk);
    });
    store_lanes(scratch_.sum_qk, scale_, queries, problem_.dim_qk, scratch_.rows_qk,
                sequences_.query_rows(args_.dq, b, head));
  }

 private:
  void clear_sums() {
    std::fill_n(scratch_.sum_qk, problem_.dim_qk * kLanes, 0.0f);
    std::fill_n(scratch_.sum_v, problem_.dim_v * kLanes, 0.0f);
  }
  // Scores into p, and dp into ds.
  void multiply_both(const Block& rows) {
    kernels_.multiply(scratch_.rows_qk, rows.count, problem_.dim_qk, scratch_.lanes_qk, scratch_.p);
    kernels_.multiply(scratch_.rows_v, rows.count, problem_.dim_v, scratch_.lanes_v, scratch_.ds);
  }
  // A query that sees nothing has lse = -infinity; read as +infinity, its probabilities are 0. So are
  // those of lanes without a query. Nor does its delta count: dlse of such a query may be NaN.
  void read_softmax(std::int64_t b, std::int64_t head, const Block& queries) {
    const float* lse = sequences_.query_floats(args_.lse, b, head);
    const float* delta = sequences_.query_floats(delta_, b, head);
    std::fill_n(softmax_.lse, kLanes, kInfinity);
    std::fill_n(softmax_.delta, kLanes, 0.0f);
    for (std::int64_t r = 0; r < queries.count; ++r) {
      if (lse[queries.begin + r] == -kInfinity) continue;
      softmax_.lse[r] = lse[queries.begin + r];
      softmax_.delta[r] = delta[queries.begin + r];
    }
  }

  const AttentionBackwardArgs& args_;
  const Sequences& sequences_;
  const TensorView& delta_;
  SoftmaxOfForward softmax_;
  float scale_[kLanes], one_[kLanes];
};

// The tasks of a pass: blocks of rows of every head of every sequence, numbered without gaps.
class BlockTasks {
 public:
  template <class RowsOf>
  BlockTasks(const Sequences& sequences, std::int64_t heads, const RowsOf& rows_of)
      : heads_(heads) {
    ends_.reserve(static_cast<std::size_t>(sequences.count()));
    std::int64_t end = 0;
    for (std::int64_t b = 0; b < sequences.count(); ++b) {
      rows_.push_back(rows_of(b));
      end += ceil_div(rows_.back(), kTileRows) * heads;
      ends_.push_back(end);
    }
  }
  std::int64_t count() const { return ends_.empty() ? 0 : ends_.back(); }

  // Long sequences under a causal mask have most work at their end, so tasks begin there.
  template <class Task>
  void run(std::int64_t index, const Task& task) const {
    const auto found = std::upper_bound(ends_.begin(), ends_.end(), index);
    const auto b = static_cast<std::size_t>(found - ends_.begin());
    const std::int64_t in_sequence = index - (b == 0 ? 0 : ends_[b - 1]);
    const std::int64_t blocks = ceil_div(rows_[b], kTileRows);
    const std::int64_t block = blocks - 1 - in_sequence / heads_;
    task(static_cast<std::int64_t>(b), in_sequence % heads_, block_at(block * kTileRows, rows_[b]));
  }

 private:
  std::int64_t heads_;
  std::vector<std::int64_t> rows_, ends_;
};

// Threads take tasks until none is left, each with scratch memory of its own.
template <class MakeWorker, class Task>
void run_tasks(int threads, std::int64_t count, const MakeWorker& make_worker, const Task& task) {
  std::atomic<std::int64_t> next = 0;
  parallel_for(threads, std::min<std::int64_t>(threads, count), [&](std::int64_t thread) {
    auto worker = make_worker(thread);
    for (std::int64_t index = next++; index < count; index = next++) task(worker, index);
  });
}

// [batch, heads, seq] or [heads, total], dense.
TensorView delta_view(const AttentionProblem& problem, void* memory) {
  return problem.offsets_dtype
             ? make_view(memory, Dtype::f32, {problem.heads_q, problem.total_q})
             : make_view(memory, Dtype::f32, {problem.batch, problem.heads_q, problem.seq_q});
}

std::size_t delta_bytes(const AttentionProblem& problem) {
  const std::int64_t rows = problem.offsets_dtype ? problem.total_q : problem.batch * problem.seq_q;
  return static_cast<std::size_t>(rows * problem.heads_q) * sizeof(float);
}

std::size_t scratch_bytes(const AttentionProblem& problem) {
  return aligned_bytes(static_cast<std::size_t>(scratch_floats(problem)) * sizeof(float));
}

// The threads whose scratch memory fits into the limit beside delta; 0: not even one.
int backward_threads(const AttentionProblem& problem, int threads) {
  const std::size_t delta = aligned_bytes(delta_bytes(problem));
  if (problem.workspace_limit < delta) return 0;
  const std::size_t room = (problem.workspace_limit - delta) / scratch_bytes(problem);
  return static_cast<int>(std::min(room, static_cast<std::size_t>(threads)));
}

void sum_sink(const AttentionProblem& problem, const AttentionBackwardArgs& args,
              const Sequences& sequences, const TensorView& delta_of, std::int64_t head) {
  const double sink = sink_at(args.inputs, head);
  double sum = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const float* lse = sequences.query_floats(args.lse, b, head);
    const float* delta = sequences.query_floats(delta_of, b, head);
    for (std::int64_t i = 0; i < sequences.queries(b); ++i) {
      if (lse[i] == -kInfinity) continue;  // no key, and a sink of -infinity
      sum -= std::exp(sink - lse[i]) * delta[i];
    }
  }
  static_cast<float*>(args.dsink.data)[head * args.dsink.strides[0]] = static_cast<float>(sum);
}

}  // namespace

std::int64_t scratch_floats(const AttentionProblem& problem) {
  return 3 * (problem.dim_qk + problem.dim_v) * kLanes + 2 * kTileRows * kLanes;
}

std::size_t forward_workspace(const AttentionProblem& problem, int threads) {
  return static_cast<std::size_t>(threads) * scratch_bytes(problem);
}
std::size_t backward_workspace(const AttentionProblem& problem, int threads) {
  return forward_workspace(problem, std::max(1, backward_threads(problem, threads))) +
         aligned_bytes(delta_bytes(problem));
}

void run_forward(const AttentionProblem& problem, const AttentionForwardArgs& args,
                 const RunContext& context, InstructionSet instructions) {
  const Sequences sequences(problem, args.inputs);
  const BlockTasks tasks(sequences, problem.heads_q,
                         [&](std::int64_t b) { return sequences.queries(b); });
  const auto make_worker = [&](std::int64_t thread) {
    auto* memory = static_cast<char*>(context.workspace.data) +
                   static_cast<std::size_t>(thread) * scratch_bytes(problem);
    return ForwardWorker(problem, kernels_of(instructions), reinterpret_cast<float*>(memory));
  };
  run_tasks(context.threads, tasks.count(), make_worker,
            [&](ForwardWorker& worker, std::int64_t index) {
              tasks.run(index, [&](std::int64_t b, std::int64_t head, const Block& queries) {
                worker.run(args, sequences, b, head, queries);
              });
            });
}

void run_backward(const AttentionProblem& problem, const AttentionBackwardArgs& args,
                  const RunContext& context, InstructionSet instructions) {
  const Sequences sequences(problem, args.inputs);
  WorkspaceCarver carver(context.workspace);
  const TensorView delta = delta_view(problem, carver.take(delta_bytes(problem)));
  auto* const scratch = static_cast<char*>(carver.rest().data);
  const auto make_worker = [&](std::int64_t thread) {
    char* memory = scratch + static_cast<std::size_t>(thread) * scratch_bytes(problem);
    return BackwardWorker(problem, kernels_of(instructions), reinterpret_cast<float*>(memory), args,
                          sequences, delta);
  };
  const int threads = std::max(1, backward_threads(problem, context.threads));
  const auto run_all = [&](std::int64_t count, const auto& task) {
    run_tasks(threads, count, make_worker, task);
  };
  run_all(sequences.count() * problem.heads_q, [&](BackwardWorker& worker, std::int64_t index) {
    worker.sum_delta(index / problem.heads_q, index % problem.heads_q);
  });
  const BlockTasks key_tasks(sequences, problem.heads_kv,
                             [&](std::int64_t b) { return sequences.keys(b); });
  run_all(key_tasks.count(), [&](BackwardWorker& worker, std::int64_t index) {
    key_tasks.run(index, [&](std::int64_t b, std::int64_t head, const Block& keys) {
      worker.dk_and_dv(b, head, keys);
    });
  });
  const BlockTasks query_tasks(sequences, problem.heads_q,
                               [&](std::int64_t b) { return sequences.queries(b); });
  run_all(query_tasks.count(), [&](BackwardWorker& worker, std::int64_t index) {
    query_tasks.run(index, [&](std::int64_t b, std::int64_t head, const Block& queries) {
      worker.dq(b, head, queries);
    });
  });
  if (!problem.sink) return;
  parallel_for(context.threads, problem.heads_q,
               [&](std::int64_t head) { sum_sink(problem, args, sequences, delta, head); });
}

}  // namespace octet::attention

namespace octet {

constinit const AttentionForwardImplementation kAttentionForwardCpuSimd{
    "cpu_simd",
    [](const AttentionProblem& problem, const Machine& machine) {
      return refuse_off_simd(problem.device, machine);
    },
    [](const AttentionProblem& problem, const Machine& machine) {
      return planned_simd<AttentionForwardArgs>(
          problem, machine, attention::forward_workspace(problem, machine.threads),
          attention::run_forward);
    }};

constinit const AttentionBackwardImplementation kAttentionBackwardCpuSimd{
    "cpu_simd",
    [](const AttentionProblem& problem, const Machine& machine) {
      std::string refusal = refuse_off_simd(problem.device, machine);
      const std::size_t bytes = attention::backward_workspace(problem, 1);
      if (!refusal.empty() || bytes <= problem.workspace_limit) return refusal;
      return text("needs ", bytes, " bytes of workspace, workspace_limit is ",
                  problem.workspace_limit);
    },
    [](const AttentionProblem& problem, const Machine& machine) {
      return planned_simd<AttentionBackwardArgs>(
          problem, machine, attention::backward_workspace(problem, machine.threads),
          attention::run_backward);
    }};

}  // namespace octet
