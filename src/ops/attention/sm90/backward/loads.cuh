// The producer of the dk, dv kernel: one lane that loads k and v once, then q and dout step by step.
#pragma once

#include "device/ptx/bulk_copy.cuh"
#include "device/ptx/shared_memory.cuh"
#include "ops/attention/sm90/backward/storage.cuh"

namespace octet::attention {

template <class C>
class StepLoader {
 public:
  __device__ __forceinline__ StepLoader(std::uint32_t base, const BackwardMaps& maps,
                                        const BackwardParams& params, const KeyTileWork& work)
      : base_(base), maps_(maps), params_(params), work_(work) {}

  __device__ __forceinline__ void load_keys() const {
    const std::uint32_t full = base_ + offsetof(Storage, kv_full);
    const HeadPlace at(params_.shape.packed, work_.sequence, work_.entry.k_begin, work_.entry.keys,
                       work_.head);
    ptx::barrier_expect_bytes(full, sizeof(Storage::k) + sizeof(Storage::v));
    const int row = work_.tile * kTile;
#pragma unroll
    for (int panel = 0; panel < Storage::kPanelsQk; ++panel) {
      at.load(base_ + offsetof(Storage, k) + panel * sizeof(Storage::k[0]), maps_.k, panel * 64,
              row, full);
    }
#pragma unroll
    for (int panel = 0; panel < Storage::kPanelsV; ++panel) {
      at.load(base_ + offsetof(Storage, v) + panel * sizeof(Storage::v[0]), maps_.v, panel * 64,
              row, full);
    }
  }

  // All steps, in the order in which they are summed: query heads, then queries.
  __device__ __forceinline__ void load_steps() const {
    int stage = 0;
    std::uint32_t parity = 1;  // an empty ring: the first wait for each stage returns at once
#pragma unroll 1
    for (int head = 0; head < params_.shape.group; ++head) {
      const TileRange steps = work_.steps_of(params_, head, c.queries);
      const int q_head = work_.head * params_.shape.group + head;
      const HeadPlace at(params_.shape.packed, work_.sequence, work_.entry.q_begin,
                         work_.entry.queries, q_head);
      const float* softmax = params_.tables.lse + softmax_at(q_head);
      const std::int64_t to_delta = params_.tables.delta - params_.tables.lse;
      const std::uint32_t first_tile = first_tile_of_head(head);
      const UnitEntry* units = params_.tables.units + work_.entry.first_row * kRowUnits;
#pragma unroll 1
      for (int step = steps.begin; step < steps.end; ++step) {
        const int query = step * c.queries;
        const int2 unit = *reinterpret_cast<const int2*>(units + query / kTile);
        const std::uint32_t tile = first_tile + unit.x + work_.tile - unit.y;
        load_step(stage, parity, at, query, softmax, to_delta, tile);
        stage = stage + 1 == c.stages ? 0 : stage + 1;
        parity ^= stage == 0;
      }
    }
  }

 private:
  static constexpr BackwardConfig c = C::value;
  using Storage = BackwardStorage<C>;

  __device__ __forceinline__ std::int64_t softmax_at(int q_head) const {
    return (std::int64_t{q_head} * params_.tables.rows_bound + work_.entry.first_row) * kRow;
  }
  // The first tile of the sequence's units for this query head, less the tiles of the sequences before it.
  __device__ __forceinline__ std::uint32_t first_tile_of_head(int head) const {
    const int head_in_chunk = work_.head - work_.chunk.first_head;
    return static_cast<std::uint32_t>(head_in_chunk) * params_.head_tiles +
           first_tile_of(work_.entry, params_.shape.group, head) - work_.entry.first_tile +
           work_.room;
  }

  __device__ __forceinline__ void load_step(int stage, std::uint32_t parity, const HeadPlace& at,
                                            int query, const float* lse, std::int64_t to_delta,
                                            std::uint32_t tile) const {
    const std::uint32_t q_full = base_ + offsetof(Storage, q_full) + 8 * stage;
    ptx::barrier_wait(base_ + offsetof(Storage, q_empty) + 8 * stage, parity);
    // Visible to the consumers with the arrival that follows.
    ptx::store_shared(base_ + offsetof(Storage, info) + stage * sizeof(StepInfo),
                      static_cast<std::uint32_t>(query), tile);
    ptx::barrier_expect_bytes(q_full, sizeof(Storage::q[0]) + sizeof(Storage::lse[0]));
#pragma unroll
    for (int panel = 0; panel < Storage::kPanelsQk; ++panel) {
      at.load(base_ + offsetof(Storage, q) + stage * sizeof(Storage::q[0]) +
                  panel * sizeof(Storage::q[0][0]),
              maps_.q, panel * 64, query, q_full);
    }
    ptx::load_bytes(base_ + offsetof(Storage, lse) + stage * sizeof(Storage::lse[0]), lse + query,
                    sizeof(Storage::lse[0]), q_full);

    const std::uint32_t dout_full = base_ + offsetof(Storage, dout_full) + 8 * stage;
    ptx::barrier_wait(base_ + offsetof(Storage, dout_empty) + 8 * stage, parity);
    ptx::barrier_expect_bytes(dout_full, sizeof(Storage::dout[0]) + sizeof(Storage::delta[0]));
#pragma unroll
    for (int panel = 0; panel < Storage::kPanelsV; ++panel) {
      at.load(base_ + offsetof(Storage, dout) + stage * sizeof(Storage::dout[0]) +
                  panel * sizeof(Storage::dout[0][0]),
              maps_.dout, panel * 64, query, dout_full);
    }
    ptx::load_bytes(base_ + offsetof(Storage, delta) + stage * sizeof(Storage::delta[0]),
                    lse + to_delta + query, sizeof(Storage::delta[0]), dout_full);
  }

  std::uint32_t base_;
  const BackwardMaps& maps_;
  const BackwardParams& params_;
  const KeyTileWork& work_;
};

}  // namespace octet::attention
