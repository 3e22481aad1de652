// The loader of attention's Hopper forward: one lane that takes tiles of work, describes them to the other
// roles, and keeps the rings of keys and values full. And the lanes that store what consumers have left in
// shared memory.
#pragma once

#include "device/ptx/shared_memory.cuh"
#include "ops/attention/sm90/forward/storage.cuh"
#include "ops/attention/sm90/head_place.cuh"

namespace octet::attention {

// The tile of an item; false: there is none.
template <class C>
__device__ __forceinline__ bool find_work(const ForwardParams& params, std::int32_t item,
                                          Work& work) {
  if (params.tiles == nullptr) {
    if (item >= params.dense.count()) return false;
    const DenseTile tile = dense_tile(params.dense, item);
    work.sequence = tile.head / params.heads_q;
    work.head = tile.head - work.sequence * params.heads_q;
    work.row = tile.tile * C::value.tile_q;
    work.queries = params.seq_q;
    work.keys = params.seq_kv;
    work.q_begin = 0;
    work.k_begin = 0;
  } else {
    const std::int32_t entry = item / params.heads_q;
    if (entry >= *params.tile_count) return false;
    const SequenceTile tile = params.tiles[entry];
    work.sequence = tile.sequence;
    work.head = item - entry * params.heads_q;
    work.row = tile.row;
    work.queries = tile.q_end - tile.q_begin;
    work.keys = tile.k_end - tile.k_begin;
    work.q_begin = tile.q_begin;
    work.k_begin = tile.k_begin;
  }
  const SequenceMask mask(params.mask, work.queries, work.keys);
  const std::int32_t last = min(work.row + C::value.tile_q, work.queries) - 1;
  work.shift = static_cast<std::int32_t>(mask.shift);
  work.blocks = mask.key_blocks(work.row, last, C::value.tile_k);
  return true;
}

__device__ __forceinline__ void put_work(std::uint32_t to, const Work& work) {
  const auto words = reinterpret_cast<const std::uint32_t*>(&work);
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(Work) / 16); ++i) {
    ptx::store_shared(to + 16 * i, words[4 * i], words[4 * i + 1], words[4 * i + 2],
                      words[4 * i + 3]);
  }
}
__device__ __forceinline__ Work get_work(std::uint32_t from) {
  Work work;
  const auto words = reinterpret_cast<std::uint32_t*>(&work);
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(Work) / 16); ++i) {
    ptx::load_shared(from + 16 * i, words[4 * i], words[4 * i + 1], words[4 * i + 2],
                     words[4 * i + 3]);
  }
  return work;
}

template <class C>
class Loader {
 public:
  __device__ __forceinline__ Loader(std::uint32_t base, const ForwardMaps& maps,
                                    const ForwardParams& params)
      : base_(base), maps_(maps), params_(params) {}

  __device__ void run() {
    std::int32_t item = static_cast<std::int32_t>(blockIdx.x);
    Work work;
#pragma unroll 1
    while (find_work<C>(params_, item, work)) {
      const std::int32_t taken = take_item();
      load_queries(work);
      load_keys_and_values(work);
      item = taken;
    }
    ptx::barrier_wait(Storage::q_empty_at(base_, slot_.stage), slot_.parity ^ 1);
    work.sequence = kNoWork;
    put_work(Storage::work_at(base_, slot_.stage), work);
    ptx::barrier_arrive(Storage::q_full_at(base_, slot_.stage));
  }

 private:
  static constexpr Sm90AttentionForwardConfig c = C::value;
  using Storage = ForwardStorage<C>;

  __device__ __forceinline__ std::int32_t take_item() const {
    if (params_.next_item == nullptr) return 0x7FFFFFFF;
    return static_cast<std::int32_t>(gridDim.x) + atomicAdd(params_.next_item, 1);
  }
  __device__ __forceinline__ bool ragged() const { return params_.tiles != nullptr; }

  __device__ __forceinline__ void load_queries(const Work& work) {
    const std::uint32_t full = Storage::q_full_at(base_, slot_.stage);
    ptx::barrier_wait(Storage::q_empty_at(base_, slot_.stage), slot_.parity ^ 1);
    put_work(Storage::work_at(base_, slot_.stage), work);
    ptx::barrier_expect_bytes(full, q_bytes(c));
    const HeadPlace place(ragged(), work.sequence, work.q_begin, work.queries, work.head);
    const std::uint32_t q = Storage::q_at(base_, slot_.stage);
#pragma unroll
    for (int panel = 0; panel < c.dim_qk / kPanelCols; ++panel) {
#pragma unroll
      for (int consumer = 0; consumer < consumers(c); ++consumer) {
        const int row = consumer * kConsumerRows;
        place.load(q + panel * c.tile_q * kRowBytes + row * kRowBytes, maps_.q, panel * kPanelCols,
                   work.row + row, full);
      }
    }
    slot_.advance();
  }

  // Keys lead values by one block, as consumers need them.
  __device__ __forceinline__ void load_keys_and_values(const Work& work) {
    const HeadPlace place(ragged(), work.sequence, work.k_begin, work.keys,
                          work.head / params_.group);
    const auto load_keys = [&](std::int32_t n) {
      load_block<c.dim_qk>(place, maps_.k, n, Storage::k_at(base_, k_.stage),
                           Storage::k_full_at(base_, k_.stage),
                           Storage::k_empty_at(base_, k_.stage), k_);
    };
    const auto load_values = [&](std::int32_t n) {
      load_block<c.dim_v>(place, maps_.v, n, Storage::v_at(base_, v_.stage),
                          Storage::v_full_at(base_, v_.stage), Storage::v_empty_at(base_, v_.stage),
                          v_);
    };
    std::int32_t n = work.blocks.end - 1;
    if (n < work.blocks.begin) return;
    load_keys(n);
#pragma unroll 1
    for (; n > work.blocks.begin; --n) {
      load_keys(n - 1);
      load_values(n);
    }
    load_values(n);
  }

  // Block `n` of keys or values, of heads of kDim, into a stage of their ring.
  template <int kDim>
  __device__ __forceinline__ void load_block(const HeadPlace& place, const CUtensorMap& map,
                                             std::int32_t n, std::uint32_t to, std::uint32_t full,
                                             std::uint32_t empty, RingPlace<c.stages>& ring) {
    ptx::barrier_wait(empty, ring.parity ^ 1);
    ptx::barrier_expect_bytes(full, c.tile_k * kDim * 2);
#pragma unroll
    for (int panel = 0; panel < kDim / kPanelCols; ++panel) {
      place.load(to + panel * c.tile_k * kRowBytes, map, panel * kPanelCols, n * c.tile_k, full);
    }
    ring.advance();
  }

  std::uint32_t base_;
  const ForwardMaps& maps_;
  const ForwardParams& params_;
  RingPlace<c.query_slots> slot_;
  RingPlace<c.stages> k_;
  RingPlace<c.stages> v_;
};

// Stores the results of one consumer, which lie where its queries were, and gives their slot back.
template <class C>
__device__ void store_results(std::uint32_t base, const ForwardMaps& maps,
                              const ForwardParams& params, int consumer) {
  constexpr Sm90AttentionForwardConfig c = C::value;
  using Storage = ForwardStorage<C>;
  RingPlace<c.query_slots> slot;
#pragma unroll 1
  for (;; slot.advance()) {
    ptx::barrier_wait(Storage::q_full_at(base, slot.stage), slot.parity);
    const Work work = get_work(Storage::work_at(base, slot.stage));
    if (work.sequence == kNoWork) break;
    ptx::barrier_wait(Storage::out_full_at(base, slot.stage, consumer), slot.parity);
    const int row = work.row + consumer * kConsumerRows;
    if (params.out == nullptr && row < work.queries) {
      const HeadPlace place(params.tiles != nullptr, work.sequence, work.q_begin, work.queries,
                            work.head);
      const std::uint32_t from =
          Storage::q_at(base, slot.stage) + consumer * kConsumerRows * kRowBytes;
#pragma unroll
      for (int panel = 0; panel < c.dim_v / kPanelCols; ++panel) {
        place.store(maps.out, from + panel * c.tile_q * kRowBytes, panel * kPanelCols, row);
      }
      ptx::commit_stores();
      ptx::wait_stores_read();
    }
    ptx::barrier_arrive(Storage::q_empty_at(base, slot.stage));
  }
  ptx::wait_stores_done();
}

}  // namespace octet::attention
