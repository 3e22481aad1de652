// The tiles of a launch over groups. The producer's lane finds them through the group table: it copies the
// entry of its next tile while it loads the current one, and passes each tile on in a slot of shared memory.
// A consumer reads the slot after it has waited for the tile's first stage, whose arrival makes the slot
// visible, and again when it stores. No barrier is needed to write a slot again: see kTileSlots.
#pragma once

#include "device/ptx/shared_memory.cuh"
#include "device/scheduler/grouped_tiles.hpp"
#include "device/scheduler/ragged_rows.hpp"
#include "ops/gemm/sm90/storage.cuh"

#include <type_traits>

namespace octet::sm90 {

// As GemmParams. Over rows: m = T, slices those of every group. Over the contraction: m and n are those of
// one d; slices, raster and b_scales are unused.
template <class Tiles>
struct GroupedGemmParams : GemmParams {
  Tiles tiles;
  const GroupTableHead* table;
  const typename Tiles::Entry* entries;  // of the table
  int groups;
  int rows;                     // T
  std::int64_t b_scales_apart;  // over rows, floats from the scales of one group to the next
  std::int64_t d_apart;         // over the contraction, elements from one d to the next
  int paired_apart;             // and groups of 16 features from one token block of b to the next
};

// The same over the contraction of 16-bit operands, which have no token blocks: where the rows of each group begin.
struct PlainContractionParams : GroupedGemmParams<ContractionTiles> {
  const std::int32_t* first_rows;  // [groups + 1], of the table
};
template <class C>
inline constexpr bool kHasPlainContraction =
    kGroups<C> == Groups::contraction && !is_fp8(C::value.a);

// Whether the scales of a stage begin up to three before those of the tile, or of the slice.
template <class C>
inline constexpr bool kHasShift = has_slice_scales(C::value) &&
                                  (kGroups<C> == Groups::rows ||
                                   (kGroups<C> == Groups::contraction &&
                                    C::value.promotion == Promotion::product_of_scales));

template <class C>
using Params = std::conditional_t<
    kGroups<C> == Groups::none,
    std::conditional_t<has_end_scales(C::value), EndScaledParams, GemmParams>,
    std::conditional_t<kHasPlainContraction<C>, PlainContractionParams,
                       GroupedGemmParams<std::conditional_t<kGroups<C> == Groups::rows, RowTiles,
                                                            ContractionTiles>>>>;

// Whether it is one of the widths of a kernel.
template <class C>
inline constexpr bool kIsRowWidth = false;
template <Sm90GroupedGemmConfig kConfig>
inline constexpr bool kIsRowWidth<WidthConstant<kConfig>> = true;

template <class C>
using Maps = std::conditional_t<kIsRowWidth<C>, RowMaps, GemmMaps>;

// The rounds of a block and the shared memory of its tiles.
template <class C>
class GroupTiles {
 public:
  static_assert(C::value.stages + 2 <= kTileSlots, "a slot would be written while it is read");

  // The entry of a block's first tile, where the kernel has loaded it.
  static __device__ __forceinline__ void store_first_entry(std::uint32_t base,
                                                           const GroupTile& entry) {
    ptx::store_shared(base + sizeof(SharedStorage<C>), entry.group, entry.band_row, entry.end_row,
                      entry.band);
  }

 protected:
  __device__ __forceinline__ explicit GroupTiles(std::uint32_t base)
      : entries_(base + sizeof(SharedStorage<C>)) {}

  __device__ __forceinline__ int index(const Params<C>& params, int round) const {
    constexpr int kCluster = C::value.cluster;
    return params.tiles.index(round, blockIdx.x / kCluster, gridDim.x / kCluster);
  }
  // 0 where the table was not made for these buffers.
  static __device__ __forceinline__ int count(const Params<C>& params) {
    const GroupTableHead& head = *params.table;
    return is_table_of(head, params.groups, params.rows) ? params.tiles.count(head) : 0;
  }
  __device__ __forceinline__ std::uint32_t entry_at(int round) const {
    return entries_ + round % kTileEntries * kEntryBytes;
  }
  // `offset`: of a slot from the first, in bytes.
  __device__ __forceinline__ std::uint32_t slot_at(std::uint32_t offset) const {
    return entries_ + kTileEntries * kEntryBytes + offset;
  }

  std::uint32_t entries_;
};

// For the producer's lane.
template <class C>
class GroupTileFinder : GroupTiles<C> {
  using Base = GroupTiles<C>;

 public:
  __device__ __forceinline__ GroupTileFinder(std::uint32_t base, const Params<C>& params)
      : Base(base) {
    // The grid is no larger than the list, so every block's first entry exists, whatever it holds. It is on its
    // way while the head is read. A kernel of several widths has stored it before.
    if constexpr (!kIsRowWidth<C>) copy_entry(params, 0);
    count_ = Base::count(params);
    if (!kIsRowWidth<C> && !valid(params)) ptx::wait_copies();
  }

  __device__ __forceinline__ bool valid(const Params<C>& params) const {
    return this->index(params, round_) < count_;
  }
  __device__ __forceinline__ void advance() { ++round_; }
  // As in Tiles.
  __device__ __forceinline__ int position() const { return round_; }

  // The tile, which consumers find in its slot from now on.
  __device__ __forceinline__ GroupedTile tile(const Params<C>& params) const {
    const int round = round_;
    ptx::wait_copies();
    std::uint32_t words[4];
    ptx::load_shared(this->entry_at(round), words[0], words[1], words[2], words[3]);
    typename decltype(params.tiles)::Entry entry;
    static_assert(sizeof(entry) == sizeof(words));
    memcpy(&entry, words, sizeof(entry));
    const bool more = this->index(params, round + 1) < count_;
    if (more) copy_entry(params, round + 1);
    GroupedTile tile = params.tiles.tile(this->index(params, round), entry);
    tile.more = more ? 1 : 0;
    if constexpr (kHasPlainContraction<C>) {
      const std::int32_t* rows = params.first_rows + tile.group;
      tile.block = rows[0];
      constexpr int kSlice = slice_elements(C::value);
      tile.slices = max(1, (rows[1] - rows[0] + kSlice - 1) / kSlice);
    }
    if constexpr (C::value.cluster > 1) {
      tile.col += static_cast<int>(ptx::cluster_rank()) * C::value.tile_n;
    }
    const std::uint32_t slot = this->slot_at(round % kTileSlots * kSlotBytes);
    ptx::store_shared(slot, tile.row, tile.col, tile.end, tile.slices);
    ptx::store_shared(slot + 16, tile.group, tile.block, tile.zeros, tile.more);
    return tile;
  }

 private:
  __device__ __forceinline__ void copy_entry(const Params<C>& params, int round) const {
    ptx::copy_16_bytes(this->entry_at(round),
                       params.entries + params.tiles.entry(this->index(params, round)));
  }

  int count_;
  int round_ = 0;
};

// For the consumers, and for the producer where it looks back.
template <class C>
class GroupTileReader : GroupTiles<C> {
  using Base = GroupTiles<C>;

 public:
  __device__ __forceinline__ GroupTileReader(std::uint32_t base, const Params<C>& params)
      : Base(base), valid_(this->index(params, 0) < Base::count(params)) {}

  __device__ __forceinline__ bool valid(const Params<C>&) const { return valid_; }
  __device__ __forceinline__ void advance() {
    valid_ = second_half().more != 0;
    offset_ = (offset_ + kSlotBytes) % (kTileSlots * kSlotBytes);
  }
  __device__ __forceinline__ bool more(const Params<C>&) const { return second_half().more != 0; }
  __device__ __forceinline__ int slices(const Params<C>&) const { return first_half().slices; }
  __device__ __forceinline__ bool zeros() const { return second_half().zeros != 0; }
  __device__ __forceinline__ GroupedTile tile(const Params<C>&) const {
    GroupedTile tile = first_half();
    const GroupedTile rest = second_half();
    tile.group = rest.group;
    tile.block = rest.block;
    tile.zeros = rest.zeros;
    return tile;
  }

 private:
  __device__ __forceinline__ GroupedTile first_half() const {
    std::uint32_t words[4];
    ptx::load_shared(this->slot_at(offset_), words[0], words[1], words[2], words[3]);
    GroupedTile tile{};
    tile.row = static_cast<int>(words[0]);
    tile.col = static_cast<int>(words[1]);
    tile.end = static_cast<int>(words[2]);
    tile.slices = static_cast<int>(words[3]);
    return tile;
  }
  __device__ __forceinline__ GroupedTile second_half() const {
    std::uint32_t words[4];
    ptx::load_shared(this->slot_at(offset_) + 16, words[0], words[1], words[2], words[3]);
    GroupedTile tile{};
    tile.group = static_cast<int>(words[0]);
    tile.block = static_cast<int>(words[1]);
    tile.zeros = static_cast<int>(words[2]);
    tile.more = static_cast<int>(words[3]);
    return tile;
  }

  std::uint32_t offset_ = 0;
  bool valid_;
};

// What the producer and the consumers walk over.
template <class C>
using TileFinder = std::conditional_t<kGroups<C> == Groups::none, Tiles<C>, GroupTileFinder<C>>;
template <class C>
using TileReader = std::conditional_t<kGroups<C> == Groups::none, Tiles<C>, GroupTileReader<C>>;
// A tile of either.
template <class C>
using TileOf = std::conditional_t<kGroups<C> == Groups::none, TileIndex, GroupedTile>;

// Its first row and column of d.
template <class C>
__device__ __forceinline__ int first_row(TileOf<C> tile) {
  if constexpr (kGroups<C> == Groups::none) {
    return tile.m * C::value.tile_m;
  } else {
    return tile.row;
  }
}
template <class C>
__device__ __forceinline__ int first_col(TileOf<C> tile) {
  if constexpr (kGroups<C> == Groups::none) {
    return tile.n * C::value.tile_n;
  } else {
    return tile.col;
  }
}

// The part of d that a tile may store to, besides its place. Empty where it is all of d: not even a reference
// to it may change the code of the dense product.
struct AllOfD {};
struct PartOfD {
  int end;    // the row behind the last
  int group;  // over the contraction, whose d
};
template <class C>
using TargetOf = std::conditional_t<kGroups<C> == Groups::none, AllOfD, PartOfD>;

template <class C>
__device__ __forceinline__ TargetOf<C> target_of(TileOf<C> tile) {
  if constexpr (kGroups<C> == Groups::none) {
    return {};
  } else {
    return {tile.end, tile.group};
  }
}

template <class C>
__device__ __forceinline__ int end_row(const Params<C>& params, TargetOf<C> target) {
  if constexpr (kGroups<C> == Groups::none) {
    return params.m;
  } else {
    return target.end;
  }
}

// The first element of the matrix that is stored to.
template <class T, class C>
__device__ __forceinline__ T* d_of(const Params<C>& params, TargetOf<C> target) {
  if constexpr (kGroups<C> == Groups::contraction) {
    return static_cast<T*>(params.d) + target.group * params.d_apart;
  } else {
    return static_cast<T*>(params.d);
  }
}

}  // namespace octet::sm90
