// A configuration of the Hopper product: plain numbers with a text form, and what follows from the numbers, as
// constexpr functions that tests without a GPU can call. compiled.hpp lists those that are compiled.
#pragma once

#include <octet/ops/gemm.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

namespace octet {

enum class Promotion {
  product_of_scales,  // 1x128 . 128x128: acc = fma(slice, sa * sb, acc)
  one_by_one,         // 1x128 . 1x128:   acc = fma(slice * sa, sb, acc)
  sum,                // 1xall, allxall:  acc = slice + acc, scaled at the end
  none,  // 16-bit, and FP8 with fast_accumulation: the tensor cores add over the whole contraction
};

// The order of b's rows in a stage: as in memory, or permuted so that a thread's columns of d are four
// neighbours, whose scales one vector load fetches (mma/layout.hpp). Paired rows need N in groups of 16.
enum class Columns { in_order, paired };

struct Sm90GemmConfig {
  int tile_m = 256;
  int tile_n = 128;
  int stages = 4;
  Promotion promotion = Promotion::product_of_scales;
  Dtype a = Dtype::e4m3;
  Dtype b = Dtype::e4m3;
  Columns columns = Columns::in_order;
  // Blocks on neighbouring tiles; each loads its part of the operand that they share for all of them.
  int cluster = 1;
  // 16-bit operands may be contiguous along either dimension.
  Major a_major = Major::k;
  Major b_major = Major::k;
  // The consumers multiply whole tiles in turn: one stores its results while the other multiplies.
  bool in_turn = false;

  friend constexpr bool operator==(const Sm90GemmConfig&, const Sm90GemmConfig&) = default;
};

// A 16-bit configuration.
constexpr Sm90GemmConfig config16(Dtype dtype, Major a, Major b, int tile_m, int tile_n, int stages,
                                  int cluster = 1) {
  return {tile_m, tile_n, stages, Promotion::none, dtype, dtype, Columns::in_order, cluster, a, b};
}

// What the tiles of a launch belong to: one product, or those of groups, which cut d's rows or the
// contraction (ops/grouped_gemm). A launch over groups has the main loop and the stores of the dense one.
enum class Groups { none, rows, contraction };

// Over rows, the width of the tiles: that of the configuration, or whichever of the compiled ones takes the fewest
// rounds of the grid. Only the device knows the sizes, so it chooses. Results do not depend on the width.
enum class Width { fixed, by_sizes };

struct Sm90GroupedGemmConfig {
  Groups groups = Groups::rows;
  Sm90GemmConfig gemm{};  // by_sizes: with the widest tile
  Width width = Width::fixed;

  friend constexpr bool operator==(const Sm90GroupedGemmConfig&,
                                   const Sm90GroupedGemmConfig&) = default;
};

inline constexpr int kSliceBytes = 128;               // of the contraction: one stage
inline constexpr int kPanelBytes = 64 * kSliceBytes;  // 64 rows or columns of a tile
inline constexpr int kWaveM = 64;                     // rows of one wgmma
inline constexpr int kWaveN = 128;       // and its columns, where a tile has as many or a multiple
inline constexpr int kScaleBlock = 128;  // columns of b that share a scale in a 128x128 block
inline constexpr int kMostCluster = 2;
inline constexpr int kMostStages = 12;
inline constexpr int kConsumers = 2;  // warpgroups that multiply; a tile of one wave uses one
inline constexpr int kThreads = 128 * (kConsumers + 1);
inline constexpr int kBoxRows = 16;    // rows a warp stores at a time,
inline constexpr int kBoxBytes = 128;  // bytes of each, or a wave's width if less
inline constexpr int kStagingBytes = kBoxRows * kBoxBytes;  // per warp
inline constexpr int kSharedAlignment = 1024;               // of a swizzle atom
inline constexpr int kSharedLimit = 232448;                 // bytes a block may ask for on Hopper

// Elements of the contraction in a stage.
constexpr int slice_elements(const Sm90GemmConfig& c) { return kSliceBytes / size_bytes(c.a); }

// Whether each stage has scales, or the scales of rows and columns are applied at the end.
constexpr bool has_slice_scales(const Sm90GemmConfig& c) {
  return c.promotion == Promotion::product_of_scales || c.promotion == Promotion::one_by_one;
}
constexpr bool has_end_scales(const Sm90GemmConfig& c) {
  return !has_slice_scales(c) && is_fp8(c.a);
}

// How the consumers share a tile, unless they take whole ones in turn, and the waves each has.
constexpr int consumers(const Sm90GemmConfig& c) {
  return c.tile_m == kWaveM && c.tile_n < kWaveN ? 1 : kConsumers;
}
constexpr bool consumers_split_m(const Sm90GemmConfig& c) {
  return c.tile_m > kWaveM && !c.in_turn;
}
constexpr bool consumers_split_n(const Sm90GemmConfig& c) {
  return c.tile_m == kWaveM && !c.in_turn;
}
constexpr int consumer_rows(const Sm90GemmConfig& c) {
  return consumers_split_m(c) ? c.tile_m / consumers(c) : c.tile_m;
}
constexpr int consumer_cols(const Sm90GemmConfig& c) {
  return consumers_split_n(c) ? c.tile_n / consumers(c) : c.tile_n;
}
// Consumers that read each stage.
constexpr int readers(const Sm90GemmConfig& c) { return c.in_turn ? 1 : consumers(c); }
constexpr int waves_m(const Sm90GemmConfig& c) { return consumer_rows(c) / kWaveM; }
constexpr int wave_n(const Sm90GemmConfig& c) {
  return consumer_cols(c) % kWaveN == 0 ? kWaveN : consumer_cols(c);
}
constexpr int waves_n(const Sm90GemmConfig& c) { return consumer_cols(c) / wave_n(c); }
// Whether one wgmma of m64n256 computes both waves of a stage, which reads a once. Promotion has no registers for it.
constexpr bool joins_waves(const Sm90GemmConfig& c) {
  return c.promotion == Promotion::none && waves_n(c) == 2;
}

// Tiles of 160 or 192 columns are one wave, which crosses from one 128-column block of b's scales into the next.
// Where it does depends on the tile, but always between segments of so many columns.
constexpr bool crosses_scale_blocks(const Sm90GemmConfig& c) {
  return has_slice_scales(c) && wave_n(c) > kWaveN;
}
constexpr int scale_segment(const Sm90GemmConfig& c) { return std::gcd(wave_n(c), kScaleBlock); }

// Whether the consumers' loop over stages is unrolled. If so, every tile starts at stage 0, where the
// unrolled code starts; if not, the ring continues from tile to tile. With two operations per accumulator
// unrolled stages spill.
constexpr bool stages_unrolled(const Sm90GemmConfig& c) {
  return c.promotion != Promotion::one_by_one;
}

// The stages that a tile of so many slices uses an odd number of times, a bit each: their parity is another
// behind it. A consumer that leaves every other tile out keeps its parities so.
constexpr std::uint32_t flipped_stages(int stages, int slices) {
  std::uint32_t flipped = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const int uses = (slices - stage + stages - 1) / stages;
    flipped |= static_cast<std::uint32_t>(uses & 1) << stage;
  }
  return flipped;
}

// Columns of a box of results, 16-bit or f32: 128 bytes, or 64 where the wave is no multiple of that.
constexpr int box_cols(const Sm90GemmConfig& c, int element_bytes) {
  return std::gcd(wave_n(c), kBoxBytes / element_bytes);
}

// Whether lanes store 16-bit rows of any alignment, 16 bytes at a time; else element by element. Eight rows of a
// wave pass through a warp's staging memory.
constexpr bool stores_rows(const Sm90GemmConfig& c) {
  return c.columns == Columns::in_order && wave_n(c) <= kWaveN;
}

// Tiles for few rows have one wave per consumer and are load-bound where large tiles are bound by the
// products. They therefore
// - issue the products of stage i + 1 before they promote those of stage i, with registers for both;
// - load by an elected lane, so that a stage's loads are issued back to back (loads.cuh);
// - load no rows beyond M, since TMA zero-fill is slower than a real load. What then lies in shared memory
//   yields rows of products that are never stored.
constexpr bool is_load_bound(const Sm90GemmConfig& c) {
  return stages_unrolled(c) && waves_m(c) * waves_n(c) == 1 && wave_n(c) <= kWaveN &&
         c.stages % 2 == 0 && c.a_major == Major::k;
}

// Whether 16-bit tiles leave while the next tile is multiplied: a consumer writes its results to shared memory as
// parts of 64 rows by a box's columns, and a warp of its own stores them. With two operations per accumulator the
// ring continues from tile to tile and no stage is the last.
constexpr bool is_staged(const Sm90GemmConfig& c) {
  return stages_unrolled(c) && !c.in_turn &&
         (waves_m(c) * waves_n(c) == 2 || crosses_scale_blocks(c));
}
// Whether the parts take the ring's last stage, which the next tile loads last, and the staging memory: together
// exactly the 64 KB of a 16-bit tile of 256x128 or 128x256. Narrower tiles have staging memory for all of it.
constexpr bool stages_in_ring(const Sm90GemmConfig& c) {
  return is_staged(c) && !crosses_scale_blocks(c);
}
inline constexpr int kMostStagedWaves = 2;
constexpr int parts_of_wave(const Sm90GemmConfig& c) { return wave_n(c) / box_cols(c, 2); }
constexpr int staged_parts(const Sm90GemmConfig& c) {
  return parts_of_wave(c) * waves_m(c) * waves_n(c);
}
constexpr int staged_part_bytes(const Sm90GemmConfig& c) { return kWaveM * box_cols(c, 2) * 2; }
constexpr int staging_bytes(const Sm90GemmConfig& c) {
  return is_staged(c) && crosses_scale_blocks(c) ? c.tile_m * c.tile_n * 2
                                                 : kConsumers * 4 * kStagingBytes;
}

// Blocks of 128 columns that a tile touches; tiles narrower than 128 lie within one.
constexpr int b_scale_blocks(const Sm90GemmConfig& c) {
  return (c.tile_n + kScaleBlock - 1) / kScaleBlock;
}

// Floats of one stage's scales of b: one per column, or four slices of each 128-column block.
constexpr int b_scale_floats(const Sm90GemmConfig& c) {
  if (!has_slice_scales(c)) return 0;
  return c.promotion == Promotion::one_by_one ? c.tile_n : b_scale_blocks(c) * 4;
}

constexpr int stage_bytes(const Sm90GemmConfig& c) {
  const int a_scale_floats = has_slice_scales(c) ? c.tile_m : 0;
  return (c.tile_m + c.tile_n) * kSliceBytes + (a_scale_floats + b_scale_floats(c)) * 4;
}

// Bytes of a stage that `rows` rows beyond M would have: scales come in groups of four, 16 bytes.
constexpr int bytes_beyond_m(int rows, bool slice_scales) {
  return rows * kSliceBytes + (slice_scales ? rows / 4 * 16 : 0);
}

// Blocks of a cluster share the larger operand of a tile: their tiles lie beside each other in a row of tiles, or below
// each other in a column.
constexpr bool shares_b(const Sm90GemmConfig& c) { return c.tile_n > c.tile_m; }
constexpr int cluster_m(const Sm90GemmConfig& c) { return shares_b(c) ? c.cluster : 1; }
constexpr int cluster_n(const Sm90GemmConfig& c) { return shares_b(c) ? 1 : c.cluster; }
// Rows of each operand that a block loads: for itself, or for all blocks of its cluster.
constexpr int loaded_rows_of_a(const Sm90GemmConfig& c) { return c.tile_m / cluster_n(c); }
constexpr int loaded_rows_of_b(const Sm90GemmConfig& c) { return c.tile_n / cluster_m(c); }

// Bytes of a stage that a block itself loads from the L2 cache.
constexpr int loaded_bytes(const Sm90GemmConfig& c) {
  return stage_bytes(c) -
         (c.tile_m - loaded_rows_of_a(c) + c.tile_n - loaded_rows_of_b(c)) * kSliceBytes;
}

// TMA loads f32 scales from multiples of four on only: from another first coordinate the load is an illegal
// instruction, measured on an H200. Over groups, where a tile may begin at any row or token block, the load
// begins up to three scales earlier, and the stage says by how many bytes the consumer has to shift.
inline constexpr int kScalesAtOnce = 4;

// Scales of slices have a buffer per stage. Scales at the end have one, in which each warp keeps those of its
// own rows and columns, so that no other has to wait.
constexpr int scale_buffers(const Sm90GemmConfig& c) { return has_slice_scales(c) ? c.stages : 1; }
constexpr int rows_of_warp(const Sm90GemmConfig& c) { return 16 * waves_m(c); }
inline constexpr int kConsumerWarps = 4 * kConsumers;
inline constexpr int kLeastSlots = 4;  // 16-bit operands: no member of a struct is empty

// Floats reserved per buffer for the scales of a: those of the tile, over rows four more in a second box.
constexpr int a_scale_slots(const Sm90GemmConfig& c, Groups groups) {
  if (!has_slice_scales(c))
    return has_end_scales(c) ? kConsumerWarps * rows_of_warp(c) : kLeastSlots;
  return groups == Groups::rows ? c.tile_m + 32 : c.tile_m;
}

// Floats reserved per buffer for the scales of b: TMA boxes start on 128-byte boundaries.
constexpr int b_scale_slots(const Sm90GemmConfig& c) {
  if (has_slice_scales(c)) return std::max(32, b_scale_floats(c));
  return has_end_scales(c) ? kConsumerWarps * consumer_cols(c) : kLeastSlots;
}
// Where among them a stage over groups has its shift, behind the scales of 128x128 blocks.
inline constexpr int kShiftSlot = 16;

// Where each part of the shared memory begins, in bytes from its 1024-byte aligned start.
// Barriers come first, in the same places for all configurations: a kernel of several widths makes them before it
// knows which it runs.
struct Sm90SharedPlan {
  int full;           // [most stages] barriers
  int empty;          // [most stages] barriers
  int staged;         // [consumers][waves] barriers: a wave's boxes are written
  int stored;         // barrier: all boxes of a tile have been read
  int stored_before;  // [blocks of a cluster] i32: tiles before this position have left
  int a;              // [stages][tile_m * 128]
  int b;              // [stages][tile_n * 128]
  int staging;        // [8 warps][2048], or a 16-bit tile
  int a_scales;       // [scale_buffers][a_scale_slots] f32
  int b_scales;       // [scale_buffers][b_scale_slots] f32
  int bytes;          // all of it, in whole swizzle atoms
};

constexpr Sm90SharedPlan shared_plan(const Sm90GemmConfig& c, Groups groups = Groups::none) {
  const auto aligned = [](int bytes) {
    return (bytes + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
  };
  Sm90SharedPlan plan{};
  plan.empty = plan.full + kMostStages * 8;
  plan.staged = plan.empty + kMostStages * 8;
  plan.stored = plan.staged + kConsumers * kMostStagedWaves * 8;
  plan.stored_before = plan.stored + 8;
  plan.a = aligned(plan.stored_before + kMostCluster * 4);
  plan.b = plan.a + c.stages * c.tile_m * kSliceBytes;
  plan.staging = plan.b + c.stages * c.tile_n * kSliceBytes;
  plan.a_scales = plan.staging + staging_bytes(c);
  plan.b_scales = plan.a_scales + scale_buffers(c) * a_scale_slots(c, groups) * 4;
  plan.bytes = aligned(plan.b_scales + scale_buffers(c) * b_scale_slots(c) * 4);
  return plan;
}

// One part of a consumer's results: where it lies in shared memory and in the tile. That of the second consumer
// follows `apart` bytes and consumer_rows further on.
struct StagedPart {
  int offset;  // from the start of the plan
  int apart;
  int row;  // of the tile
  int col;
};

// The part from which on they lie in b, where the other consumer must have finished its products.
constexpr int first_part_in_b(const Sm90GemmConfig& c) {
  return stages_in_ring(c) ? 1 + waves_m(c) : staged_parts(c);
}
// In the ring, the part that lies in the staging memory.
inline constexpr int kRingPartInStaging = 1;

// In the ring, 256x128: a, staging, a, b; 128x256: a, staging, b, b. 64 rows of a have been read when the products
// of their wave are done, so they make room for its results while the other wave is multiplied.
constexpr StagedPart staged_part(const Sm90GemmConfig& c, Groups groups, int part) {
  const Sm90SharedPlan plan = shared_plan(c, groups);
  const int bytes = staged_part_bytes(c);
  const int wave = part / parts_of_wave(c);
  const int row = wave / waves_n(c) * kWaveM;
  const int col = wave % waves_n(c) * wave_n(c) + part % parts_of_wave(c) * box_cols(c, 2);
  if (!stages_in_ring(c)) {
    return {plan.staging + part * bytes, staged_parts(c) * bytes, row, col};
  }
  if (part == kRingPartInStaging) return {plan.staging, bytes, row, col};
  const int last = c.stages - 1;
  if (part >= first_part_in_b(c)) {
    const int b = plan.b + last * c.tile_n * kSliceBytes;
    return {b + (part - first_part_in_b(c)) * bytes, (staged_parts(c) - first_part_in_b(c)) * bytes,
            row, col};
  }
  const int a = plan.a + last * c.tile_m * kSliceBytes;
  return {a + wave * bytes, waves_m(c) * bytes, row, col};
}

// Whether the first wave's results are written under the products of the last: its rows of a are its own.
constexpr bool stages_early(const Sm90GemmConfig& c) {
  return stages_in_ring(c) && waves_m(c) == 2;
}

// Bytes a launch asks for: the plan, and room to align it.
constexpr int shared_bytes(const Sm90GemmConfig& c, Groups groups = Groups::none) {
  return shared_plan(c, groups).bytes + kSharedAlignment;
}

// Over groups, two entries of the group table that are on their way and the tiles that the producer has
// found for the consumers lie behind the plan (group_tiles.cuh). The producer is at most `stages` slices
// ahead of the slowest warp, and a tile has at least one.
inline constexpr int kTileEntries = 2;
inline constexpr int kEntryBytes = 16;
inline constexpr int kTileSlots = 8;
inline constexpr int kSlotBytes = 32;

constexpr int shared_bytes(const Sm90GroupedGemmConfig& c) {
  return shared_bytes(c.gemm, c.groups) + kTileEntries * kEntryBytes + kTileSlots * kSlotBytes;
}

// "256x128x4 1x128.1x128 e4m3.e4m3 paired cluster": tile and stages, scale blocks, dtypes of a and b,
// columns, whether blocks share an operand, and whether consumers take turns. 16-bit: "128x256x4 bf16.bf16 k.mn".
std::string name(const Sm90GemmConfig& c);

// The compiled configuration of this name; nothing where there is none.
std::optional<Sm90GemmConfig> parse_sm90_gemm_config(std::string_view text);

}  // namespace octet
