// Launches attention's Hopper forward: tensor maps, the list of ragged tiles, the kernel of a configuration.
#include "device/cuda/launch.hpp"
#include "ops/attention/sm90/forward/forward.hpp"
#include "ops/attention/sm90/forward/storage.cuh"
#include "ops/attention/sm90/head_maps.hpp"
#include "ops/attention/sm90/forward/sequence_tiles.cuh"

#include <algorithm>
#include <cmath>

namespace octet {
namespace {

using attention::check_heads;
using attention::ForwardMaps;
using attention::ForwardParams;
using attention::head_map;
using attention::HeadsShape;
using attention::ListParams;
using attention::SequenceTile;

// Keys and values of the heads that are worked on together, of an L2 cache of 50 MB.
constexpr std::int64_t kSectionBytes = 32 << 20;
// Windows as far as any sequence may be long have no limit.
constexpr std::int64_t kMostReach = std::int64_t{1} << 29;

class Sm90AttentionForwardRun {
 public:
  Sm90AttentionForwardRun(const AttentionProblem& problem, const Sm90AttentionForwardConfig& config,
                          int multiprocessors)
      : problem_(problem),
        config_(config),
        kernel_(sm90_attention_forward_kernel(config)),
        ragged_(problem.offsets_dtype.has_value()) {
    const std::int64_t tiles = sm90_attention_tiles(problem, config);
    const std::int64_t items =
        tiles * problem.heads_q * (ragged_ ? 1 : std::max<std::int64_t>(problem.batch, 1));
    blocks_ = static_cast<unsigned>(std::min<std::int64_t>(items, multiprocessors));
    more_items_ = items > blocks_;
    params_.heads_q = static_cast<std::int32_t>(problem.heads_q);
    params_.group = static_cast<std::int32_t>(problem.heads_q / problem.heads_kv);
    params_.seq_q = static_cast<std::int32_t>(problem.seq_q);
    params_.seq_kv = static_cast<std::int32_t>(problem.seq_kv);
    params_.mask = problem.mask;
    if (params_.mask.left >= kMostReach) params_.mask.left = kNoWindow;
    if (params_.mask.right >= kMostReach) params_.mask.right = kNoWindow;
    params_.scale = std::fabs(problem.scale);
    params_.scale_log2 = static_cast<float>(params_.scale * 1.4426950408889634);
    params_.negate = problem.scale < 0;
    params_.dim_v = static_cast<std::int32_t>(problem.dim_v);
    if (ragged_) return;
    params_.dense = {static_cast<std::int32_t>(tiles),
                     static_cast<std::int32_t>(problem.batch * problem.heads_q),
                     attention::section_heads(problem.batch * problem.heads_q, params_.group,
                                              problem.seq_kv * (problem.dim_qk + problem.dim_v) * 2,
                                              kSectionBytes)};
  }

  void run(const AttentionForwardArgs& args, const RunContext& context) const {
    const HeadsShape q(args.inputs.q);
    if (q.batch * q.seq == 0) return;
    const cuda::DeviceScope scope(problem_.device.index);
    const auto stream = static_cast<cudaStream_t>(context.stream);
    ForwardMaps maps = maps_of(args);
    ForwardParams params = params_of(args);
    auto* counters = static_cast<std::int32_t*>(context.workspace.data);
    params.next_item = more_items_ ? counters : nullptr;
    if (ragged_) {
      params.tile_count = counters + 1;
      params.tiles = reinterpret_cast<const SequenceTile*>(
          static_cast<char*>(context.workspace.data) + attention::kListBegin);
      list_tiles(args.inputs, params, counters, stream);
    } else if (more_items_) {
      cuda::check(cudaMemsetAsync(counters, 0, sizeof(std::int32_t), stream), "cudaMemsetAsync");
    }
    void* arguments[] = {&maps, &params};
    cuda::launch({kernel_.function, "launch of attention's cuda_sm90_wgmma", blocks_,
                  static_cast<unsigned>(attention::threads(config_)),
                  static_cast<std::size_t>(kernel_.shared_bytes), stream},
                 arguments);
  }

 private:
  // Throws where the kernel cannot read a layout.
  ForwardMaps maps_of(const AttentionForwardArgs& args) const {
    ForwardMaps maps{};
    maps.q = head_map("q", args.inputs.q, ragged_, attention::kConsumerRows);
    maps.k = head_map("k", args.inputs.k, ragged_, config_.tile_k);
    maps.v = head_map("v", args.inputs.v, ragged_, config_.tile_k);
    if (args.out.dtype == Dtype::f32) {
      check_heads("out", args.out);
    } else {
      maps.out = head_map("out", args.out, ragged_, attention::kConsumerRows);
    }
    return maps;
  }

  ForwardParams params_of(const AttentionForwardArgs& args) const {
    ForwardParams params = params_;
    params.sink = static_cast<const float*>(args.inputs.sink.data);
    params.sink_stride = args.inputs.sink.strides[0];
    params.lse = static_cast<float*>(args.lse.data);
    params.lse_batch = ragged_ ? 0 : args.lse.strides[0];
    params.lse_head = args.lse.strides[ragged_ ? 0 : 1];
    if (args.out.dtype == Dtype::f32) {
      const HeadsShape out(args.out);
      params.out = static_cast<float*>(args.out.data);
      params.out_batch = out.batch_stride;
      params.out_row = out.seq_stride;
      params.out_head = out.head_stride;
    }
    return params;
  }

  void list_tiles(const AttentionInputs& inputs, const ForwardParams& params,
                  std::int32_t* counters, cudaStream_t stream) const {
    ListParams list{};
    list.offsets_q = inputs.offsets_q.data;
    list.offsets_kv = inputs.offsets_kv.data;
    list.offsets_i64 = *problem_.offsets_dtype == Dtype::i64;
    list.batch = static_cast<std::int32_t>(problem_.batch);
    list.total_q = static_cast<std::int32_t>(problem_.total_q);
    list.total_kv = static_cast<std::int32_t>(problem_.total_kv);
    list.mask = params.mask;
    list.tile_q = config_.tile_q;
    list.tile_k = config_.tile_k;
    while (ceil_div(problem_.total_kv, config_.tile_k) >> list.shift >= attention::kLengths) {
      ++list.shift;
    }
    list.capacity = static_cast<std::int32_t>(sm90_attention_tiles(problem_, config_));
    list.tiles = const_cast<SequenceTile*>(params.tiles);
    list.tile_count = counters + 1;
    list.next_item = counters;
    void* arguments[] = {&list};
    cuda::launch({reinterpret_cast<const void*>(&attention::list_tiles_kernel),
                  "launch of attention's list of tiles", 1, attention::kListThreads, 0, stream},
                 arguments);
  }

  AttentionProblem problem_;
  Sm90AttentionForwardConfig config_;
  const Sm90AttentionForwardKernel& kernel_;
  bool ragged_;
  ForwardParams params_{};
  unsigned blocks_ = 0;
  bool more_items_ = false;  // than blocks
};

}  // namespace

std::function<void(const AttentionForwardArgs&, const RunContext&)> sm90_attention_forward_run(
    const AttentionProblem& problem, const Sm90AttentionForwardConfig& config,
    int multiprocessors) {
  return
      [run = std::make_shared<const Sm90AttentionForwardRun>(problem, config, multiprocessors)](
          const AttentionForwardArgs& args, const RunContext& context) { run->run(args, context); };
}

}  // namespace octet
