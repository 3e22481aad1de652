// Launches the Hopper backward: tables, delta, then dk, dv and dq chunk by chunk.
#include "device/cuda/launch.hpp"
#include "ops/attention/sm90/backward/backward.hpp"
#include "ops/attention/sm90/backward/kernels.hpp"
#include "ops/attention/sm90/backward/params.hpp"
#include "ops/attention/sm90/head_maps.hpp"

#include <algorithm>

namespace octet {
namespace attention {
namespace {

class BackwardRun {
 public:
  BackwardRun(const AttentionProblem& problem, const BackwardPlan& plan)
      : problem_(problem),
        plan_(plan),
        kernels_(*find_backward_kernels(problem.dtype, problem.dim_qk, problem.dim_v)) {
    shape_.batch = static_cast<std::int32_t>(problem.batch);
    shape_.seq_q = static_cast<std::int32_t>(problem.seq_q);
    shape_.seq_kv = static_cast<std::int32_t>(problem.seq_kv);
    shape_.heads_q = static_cast<std::int32_t>(problem.heads_q);
    shape_.heads_kv = static_cast<std::int32_t>(problem.heads_kv);
    shape_.group = shape_.heads_q / shape_.heads_kv;
    shape_.packed = problem.offsets_dtype.has_value();
    shape_.mask = problem.mask;
    shape_.scale = problem.scale;
    shape_.tiles = plan_.ds_tiles;
  }

  void run(const AttentionBackwardArgs& args, const RunContext& context) const {
    const cuda::DeviceScope scope(problem_.device.index);
    const auto stream = static_cast<cudaStream_t>(context.stream);
    auto* workspace = static_cast<unsigned char*>(context.workspace.data);
    const Tables tables = tables_in(workspace);
    const BackwardMaps maps = maps_of(args);  // refuses what no kernel can read
    check_heads("out", args.out);
    make_tables(args, tables, workspace, stream);
    prepare(args, tables, stream);
    for (std::int32_t i = 0; i < plan_.launches(); ++i) {
      const BackwardParams params = params_of(i, tables, workspace);
      const std::int64_t blocks =
          shape_.packed ? packed_blocks() : params.segment_ends[params.segments - 1];
      launch(kernels_.gradients, "launch of attention gradients", blocks, kThreads,
             kernels_.shared_bytes, stream, maps, params);
    }
  }

 private:
  template <class... Arguments>
  static void launch(const void* kernel, const char* name, std::int64_t blocks, int threads,
                     int shared_bytes, cudaStream_t stream, Arguments... arguments) {
    if (blocks == 0) return;
    void* list[] = {&arguments...};
    cuda::launch({kernel, name, static_cast<unsigned>(blocks), static_cast<unsigned>(threads),
                  static_cast<std::size_t>(shared_bytes), stream},
                 list);
  }

  Tables tables_in(unsigned char* workspace) const {
    const BackwardPieces& at = plan_.pieces;
    Tables tables{};
    tables.sequences = reinterpret_cast<SequenceEntry*>(workspace + at.sequences);
    tables.units = reinterpret_cast<UnitEntry*>(workspace + at.units);
    tables.key_tiles = reinterpret_cast<std::int32_t*>(workspace + at.key_tiles);
    tables.lse = reinterpret_cast<float*>(workspace + at.lse);
    tables.delta = reinterpret_cast<float*>(workspace + at.delta);
    tables.sink_sums = reinterpret_cast<float*>(workspace + at.sink_sums);
    tables.rows_bound = plan_.rows_bound;
    tables.key_tiles_bound = plan_.key_tiles_bound;
    tables.parts = reinterpret_cast<PartBegin*>(workspace + at.parts);
    tables.segments = reinterpret_cast<std::int32_t*>(workspace + at.segments);
    tables.segment_ends = reinterpret_cast<std::int32_t*>(workspace + at.segment_ends);
    tables.chunks = reinterpret_cast<ChunkWork*>(workspace + at.chunks);
    return tables;
  }

  std::int32_t chunk_count() const { return plan_.count(problem_.heads_kv); }
  std::int32_t sums_places() const { return plan_.sums_heads * plan_.sequence_tiles; }
  // started, of every launch; keys and dq, of every chunk; sums, of every place and consumer
  std::int32_t progress_words() const {
    return plan_.launches() + 2 * chunk_count() + plan_.sums_buffers * sums_places() * kConsumers;
  }
  Progress progress_of(std::int32_t launch, unsigned char* workspace) const {
    const auto words = reinterpret_cast<std::uint32_t*>(workspace + plan_.pieces.progress);
    const std::int32_t chunks = chunk_count();
    std::uint32_t* keys = words + plan_.launches();
    return {words + launch, keys, keys + chunks, keys + 2 * chunks};
  }

  void make_tables(const AttentionBackwardArgs& args, const Tables& tables,
                   unsigned char* workspace, cudaStream_t stream) const {
    TablesParams params{};
    params.shape = shape_;
    params.tables = tables;
    params.progress = progress_of(0, workspace).started;
    params.progress_words = progress_words();
    if (shape_.packed) {
      params.parts = plan_.parts;
      params.offsets_q = args.inputs.offsets_q.data;
      params.offsets_kv = args.inputs.offsets_kv.data;
      params.offsets_q_step = args.inputs.offsets_q.strides[0];
      params.offsets_kv_step = args.inputs.offsets_kv.strides[0];
      params.offsets_i64 = *problem_.offsets_dtype == Dtype::i64;
      params.total_q = static_cast<std::int32_t>(problem_.total_q);
      params.total_kv = static_cast<std::int32_t>(problem_.total_kv);
    }
    launch(backward_tables_kernel(shape_.packed), "launch of attention tables", 1, kTablesThreads,
           0, stream, params);
  }

  HeadsPointer pointer_of(const TensorView& view) const {
    const int first = shape_.packed ? 0 : 1;
    return {view.data, shape_.packed ? 0 : view.strides[0],
            view.strides[static_cast<std::size_t>(first)],
            view.strides[static_cast<std::size_t>(first + 1)]};
  }

  void prepare(const AttentionBackwardArgs& args, const Tables& tables, cudaStream_t stream) const {
    PrepareParams params{};
    params.shape = shape_;
    params.tables = tables;
    params.out = pointer_of(args.out);
    params.dout = pointer_of(args.dout);
    params.lse = static_cast<const float*>(args.lse.data);
    params.dlse = static_cast<const float*>(args.dlse.data);
    const auto steps = [&](const TensorView& view, std::int64_t& batch_step,
                           std::int64_t& head_step) {
      batch_step = shape_.packed ? 0 : view.strides[0];
      head_step = view.strides[shape_.packed ? 0 : 1];
    };
    steps(args.lse, params.lse_batch_step, params.lse_head_step);
    steps(args.dlse, params.dlse_batch_step, params.dlse_head_step);
    params.rows = plan_.rows_bound;
    params.dim_v = static_cast<std::int32_t>(problem_.dim_v);
    if (problem_.sink) {
      params.sink = static_cast<const float*>(args.inputs.sink.data);
      params.sink_step = args.inputs.sink.strides[0];
      params.dsink = static_cast<float*>(args.dsink.data);
      params.dsink_step = args.dsink.strides[0];
    }
    launch(kernels_.prepare, "launch of attention delta",
           std::int64_t{plan_.rows_bound} * shape_.heads_q, kPrepareThreads, 0, stream, params);
    if (problem_.sink) {
      launch(backward_sink_kernel(), "launch of attention dsink", shape_.heads_q, kPrepareThreads,
             0, stream, params);
    }
  }

  BackwardMaps maps_of(const AttentionBackwardArgs& args) const {
    const int queries = kernels_.config.queries;
    return {head_map("q", args.inputs.q, shape_.packed, queries),
            head_map("k", args.inputs.k, shape_.packed, kTile),
            head_map("v", args.inputs.v, shape_.packed, kTile),
            head_map("dout", args.dout, shape_.packed, queries),
            head_map("dk", args.dk, shape_.packed, kWaveRows),
            head_map("dv", args.dv, shape_.packed, kWaveRows),
            head_map("k", args.inputs.k, shape_.packed, kDqKeys),
            head_map("dq", args.dq, shape_.packed, kWaveRows)};
  }

  BackwardParams params_of(std::int32_t launch, const Tables& tables,
                           unsigned char* workspace) const {
    BackwardParams params{};
    params.shape = shape_;
    params.tables = tables;
    params.progress = progress_of(launch, workspace);
    params.factor = problem_.scale * 1.44269504088896341f;
    params.handed = {reinterpret_cast<float*>(workspace + plan_.pieces.sums),
                     static_cast<std::int64_t>(plan_.buffer_bytes / sizeof(float)),
                     plan_.sums_buffers,
                     sums_places(),
                     plan_.sequence_tiles,
                     plan_.parts.turns};
    params.sequence_count = shape_.batch + (shape_.packed ? 1 : 0);
    params.head_tiles = plan_.head_tiles;
    params.slot_tiles = plan_.slot_tiles();
    params.ds = workspace + plan_.pieces.ds;
    if (shape_.packed) return params;
    params.first_chunk = launch * kMostChunks;
    const auto all = static_cast<std::int32_t>(plan_.chunks.size());
    const std::int32_t chunks = std::min(kMostChunks, all - params.first_chunk);
    params.segments = chunks + kLag;
    std::int32_t blocks = 0;
    for (std::int32_t i = 0; i < params.segments; ++i) {
      if (i < chunks) {
        params.chunks[i] = work_of(static_cast<std::size_t>(params.first_chunk + i));
        blocks += params.chunks[i].key_blocks;
      }
      if (i >= kLag) blocks += params.chunks[i - kLag].dq_blocks;
      params.segment_ends[i] = blocks;
    }
    return params;
  }

  // A cut sequence has its keys in two parts or more.
  std::int64_t packed_blocks() const {
    const std::int64_t cuts = plan_.parts.bound - 1;
    return (plan_.key_tiles_bound + cuts * plan_.sequence_tiles) * problem_.heads_kv +
           std::int64_t{plan_.rows_bound} * problem_.heads_q;
  }

  // Dense.
  ChunkWork work_of(std::size_t index) const {
    const Chunk& chunk = plan_.chunks[index];
    ChunkWork work{chunk, plan_.first_tiles[index], 0, 0, 0, 0, 0};
    const std::int32_t of_head = rows_of(shape_.seq_q), of_group = shape_.group * of_head;
    work.first_sequence = of_group == 0 ? 0 : chunk.first_row / of_group;
    work.sequences =
        of_group == 0 ? shape_.batch : ceil_div(chunk.end_row, of_group) - work.first_sequence;
    work.key_blocks = work.sequences * plan_.sequence_tiles * chunk.heads;
    // As many rows as a head has for every head that the chunk touches.
    if (chunk.end_row > chunk.first_row) {
      const std::int32_t heads = ceil_div(chunk.end_row, of_head) - chunk.first_row / of_head;
      work.dq_blocks = heads * of_head * chunk.heads;
    }
    return work;
  }

  static std::int32_t ceil_div(std::int32_t a, std::int32_t b) { return (a + b - 1) / b; }

  AttentionProblem problem_;
  BackwardPlan plan_;
  BackwardKernels kernels_;
  Shape shape_{};
};

}  // namespace
}  // namespace attention

std::function<void(const AttentionBackwardArgs&, const RunContext&)> sm90_attention_backward_run(
    const AttentionProblem& problem, const attention::BackwardPlan& plan) {
  return [run = std::make_shared<const attention::BackwardRun>(problem, plan)](
             const AttentionBackwardArgs& args, const RunContext& context) {
    run->run(args, context);
  };
}

}  // namespace octet
