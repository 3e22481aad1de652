#include "ops/attention/sm90/backward/plan.hpp"

#include "core/checks.hpp"
#include "core/workspace.hpp"
#include "ops/attention/sm90/backward/config.hpp"

#include <algorithm>

namespace octet::attention {
namespace {

// Key blocks of a chunk per multiprocessor: dq of a chunk comes two chunks later, when they are done.
// This and what follows was chosen by simulation (docs/attention.md).
constexpr double kBlocksWanted = 0.95;

// dq of the last two chunks has no keys beside it. With fewer chunks than this, sequences are cut into parts, as
// long as a key block has so many queries in each: it stores and loads its sums for every part.
constexpr std::int64_t kChunksWanted = 6;
constexpr std::int64_t kQueriesOfPart = 8192;

// Parts of so many groups of kv heads take turns: a part begins where the one before it has ended, and with a causal mask
// the first keys of all are seen by twice as many queries as the others.
constexpr std::int32_t kTurns = 2;

class Planner {
 public:
  Planner(const AttentionProblem& problem, int multiprocessors)
      : problem_(problem),
        multiprocessors_(multiprocessors),
        group_(problem.heads_q / problem.heads_kv) {
    plan_.sequence_tiles = key_tiles_of(problem.seq_kv);
    if (problem.offsets_dtype) {
      plan_.rows_bound = static_cast<std::int32_t>(problem.total_q / kRow + problem.batch + 1);
      plan_.key_tiles_bound =
          static_cast<std::int32_t>(problem.total_kv / kTile + problem.batch + 1);
      return;
    }
    const std::int32_t rows = rows_of(problem.seq_q);
    plan_.rows_bound = static_cast<std::int32_t>(problem.batch) * rows;
    plan_.key_tiles_bound = static_cast<std::int32_t>(problem.batch) * plan_.sequence_tiles;
    const SequenceMask mask(problem.mask, problem.seq_q, problem.seq_kv);
    for (std::int32_t unit = 0; unit < rows * kRowUnits; ++unit) {
      unit_tiles_.push_back(key_tiles_of_unit(mask, unit).count());
      plan_.ds_tiles += unit_tiles_.back();
    }
    sequences_ = static_cast<std::int32_t>(problem.batch);
  }

  BackwardPlan plan(std::size_t limit) {
    lay_out_tables();
    if (problem_.offsets_dtype) {
      if (!packs_parts(limit)) lay_out_parts(1, 0);
    } else if (!takes_whole_sequences(limit) && !cuts_sequences(limit)) {
      cut(1, 0);
    }
    return std::move(plan_);
  }

 private:
  std::int32_t sequence_rows() const {
    return static_cast<std::int32_t>(unit_tiles_.size()) / kRowUnits;
  }
  std::int64_t row_tiles(std::int32_t row) const {
    const auto unit = static_cast<std::size_t>(row) * kRowUnits;
    return std::int64_t{unit_tiles_[unit]} + unit_tiles_[unit + 1];
  }
  // Of one kv head of one sequence.
  std::int64_t group_tiles() const {
    std::int64_t tiles = 0;
    for (std::int32_t row = 0; row < sequence_rows(); ++row) tiles += row_tiles(row);
    return tiles * group_;
  }
  std::size_t sums_bytes(std::int32_t heads) const {
    const HeadSizes sizes = filled_sizes(problem_.dim_qk, problem_.dim_v);
    return aligned_bytes(static_cast<std::size_t>(heads) *
                         static_cast<std::size_t>(plan_.sequence_tiles) * kTile *
                         static_cast<std::size_t>(sizes.qk + sizes.v) * sizeof(float));
  }
  int sums_buffers() const { return problem_.offsets_dtype ? kPackedSums : 1; }

  void take(std::size_t& at, std::size_t bytes) {
    at = plan_.pieces.bytes;
    plan_.pieces.bytes += aligned_bytes(bytes);
  }
  void lay_out_tables() {
    BackwardPieces& pieces = plan_.pieces;
    const auto rows = static_cast<std::size_t>(plan_.rows_bound);
    const auto heads = static_cast<std::size_t>(problem_.heads_q);
    take(pieces.sequences, static_cast<std::size_t>(problem_.batch + 1) * sizeof(SequenceEntry));
    take(pieces.units, rows * kRowUnits * sizeof(UnitEntry));
    take(pieces.key_tiles,
         problem_.offsets_dtype ? static_cast<std::size_t>(plan_.key_tiles_bound) * 2 * 4 : 0);
    take(pieces.lse, heads * rows * kRow * sizeof(float));
    take(pieces.delta, heads * rows * kRow * sizeof(float));
    take(pieces.sink_sums, problem_.sink ? heads * rows * sizeof(float) : 0);
    const std::int64_t chunks = most_chunks();
    take(pieces.progress, static_cast<std::size_t>(2 * chunks + chunks / kMostChunks + 1 +
                                                   sums_buffers() * problem_.heads_kv *
                                                       plan_.sequence_tiles * kConsumers) *
                              sizeof(std::uint32_t));
    if (!problem_.offsets_dtype) return;
    const auto most = static_cast<std::size_t>(chunks);
    take(pieces.parts, (most + 1) * sizeof(PartBegin));
    take(pieces.segments, sizeof(std::int32_t));
    take(pieces.segment_ends, (most + kLag) * sizeof(std::int32_t));
    take(pieces.chunks, most * sizeof(ChunkWork));
  }
  // A chunk has at least one row of one kv head; packed ones have as many on average.
  std::int64_t most_chunks() const {
    return problem_.heads_kv * std::max<std::int64_t>(kChunksWanted, group_ * plan_.rows_bound + 1);
  }
  // Room for the dS of so many chunks.
  void lay_out_ds(std::int32_t heads, std::int64_t head_tiles, std::int64_t slots,
                  std::int32_t sums_heads) {
    plan_.sums_heads = sums_heads;
    plan_.sums_buffers = sums_heads > 0 ? sums_buffers() : 0;
    plan_.buffer_bytes = sums_bytes(sums_heads);
    take(plan_.pieces.sums, static_cast<std::size_t>(plan_.sums_buffers) * plan_.buffer_bytes);
    plan_.chunk_heads = heads;
    plan_.head_tiles = static_cast<std::int32_t>(head_tiles);
    take(plan_.pieces.ds,
         static_cast<std::size_t>(slots * heads * head_tiles) * std::size_t{kTileBytes});
  }
  // dS tiles for each of a chunk's kv heads.
  std::int64_t tiles_within(std::size_t limit, std::int32_t heads, std::int64_t slots,
                            std::int32_t sums_heads) const {
    const std::size_t taken =
        plan_.pieces.bytes + static_cast<std::size_t>(sums_buffers()) * sums_bytes(sums_heads);
    return limit <= taken ? 0
                          : static_cast<std::int64_t>((limit - taken) / kTileBytes) / slots / heads;
  }

  void add_chunk(std::int32_t heads, std::int32_t first_row, std::int32_t end_row,
                 std::int64_t first_tile) {
    plan_.chunks.push_back({0, heads, first_row, end_row});
    plan_.first_tiles.push_back(static_cast<std::int32_t>(first_tile));
  }
  // The chunks so far are those of the first `heads` kv heads: with those of all, `at_once` groups of heads by turns.
  // There is at least one, if only to write zeros.
  void repeat_for_all_heads(std::int32_t heads, std::int32_t at_once) {
    if (plan_.chunks.empty()) add_chunk(heads, 0, 0, 0);
    const std::vector<Chunk> parts = std::move(plan_.chunks);
    const std::vector<std::int32_t> first_tiles = std::move(plan_.first_tiles);
    plan_.chunks.clear();
    plan_.first_tiles.clear();
    std::int32_t turn = 0;
    for (std::int32_t first = 0; first < all_heads(); first += at_once * heads) {
      const std::int32_t end = std::min(first + at_once * heads, all_heads());
      for (std::size_t i = 0; i < parts.size(); ++i, ++turn) {
        for (std::int32_t head = first; head < end; head += heads) {
          plan_.chunks.push_back({head, std::min(heads, end - head), parts[i].first_row,
                                  parts[i].end_row, first, turn});
          plan_.first_tiles.push_back(first_tiles[i]);
        }
      }
    }
  }

  std::int32_t all_heads() const { return static_cast<std::int32_t>(problem_.heads_kv); }
  // As few kv heads as keep the multiprocessors busy, or all.
  std::int32_t heads_wanted() const {
    std::int32_t heads = 1;
    while (heads < all_heads() && (all_heads() % heads != 0 || !is_enough(heads))) ++heads;
    return heads;
  }
  bool is_enough(std::int32_t heads) const {
    return heads * std::max(1, plan_.sequence_tiles) >= blocks_wanted();
  }
  std::int32_t blocks_wanted() const {
    return std::max(1, static_cast<std::int32_t>(kBlocksWanted * multiprocessors_));
  }

  // Chunks of whole sequences, if as many as are in the workspace at once fit into it.
  bool takes_whole_sequences(std::size_t limit) {
    const std::int32_t heads = heads_wanted();
    std::int32_t at_once = 1;
    // Sequences without queries have no rows to tell chunks apart.
    while (at_once < sequences_ && (sequence_rows() == 0 || !is_enough(heads * at_once))) ++at_once;
    const std::int64_t chunks =
        std::int64_t{all_heads() / heads} * std::max(1, (sequences_ + at_once - 1) / at_once);
    const std::int64_t slots = std::min<std::int64_t>(chunks, kSlots);
    const std::int64_t tiles = group_tiles() * at_once;
    if (tiles > tiles_within(limit, heads, slots, 0)) return false;
    if (is_enough(heads) && chunks < kChunksWanted && cuts_in_parts(limit, heads, chunks)) {
      return true;
    }
    const std::int32_t rows = static_cast<std::int32_t>(group_) * sequence_rows();
    for (std::int32_t first = 0; first < sequences_; first += at_once) {
      add_chunk(heads, first * rows, std::min(first + at_once, sequences_) * rows,
                first * group_tiles());
    }
    repeat_for_all_heads(heads, 1);
    lay_out_ds(heads, tiles, slots, 0);
    return true;
  }
  bool cuts_in_parts(std::size_t limit, std::int32_t heads, std::int64_t chunks) {
    const std::int64_t parts =
        std::min((kChunksWanted + chunks - 1) / chunks, group_ * problem_.seq_q / kQueriesOfPart);
    const std::int64_t tiles = parts > 1 ? tiles_of_part(parts) : 0;
    if (parts <= 1 || tiles > tiles_within(limit, heads, kSlots, sums_heads(heads))) return false;
    cut(heads, tiles);
    return true;
  }

  // Parts of sequences: as few kv heads as keep the multiprocessors busy, since the sums that are handed on grow
  // with them, or fewer.
  bool cuts_sequences(std::size_t limit) {
    for (std::int32_t heads = heads_wanted(); heads > 0; heads = heads == 1 ? 0 : heads / 2) {
      const std::int64_t room = tiles_within(limit, heads, kSlots, sums_heads(heads));
      if (room < largest_row()) continue;
      const std::int64_t parts = (group_tiles() + room - 1) / room;
      cut(heads, std::min(room, tiles_of_part(std::max<std::int64_t>(1, parts))));
      return true;
    }
    return false;
  }
  // Of the largest, where parts are rows of about as many tiles.
  std::int64_t tiles_of_part(std::int64_t parts) const {
    return group_tiles() / parts + largest_row();
  }
  // Whose sums are kept, where chunks of `heads` hand them on.
  std::int32_t sums_heads(std::int32_t heads) const {
    return heads * std::min((all_heads() + heads - 1) / heads, kTurns);
  }
  std::int64_t largest_row() const {
    std::int64_t largest = 1;
    for (std::int32_t row = 0; row < sequence_rows(); ++row) {
      largest = std::max(largest, row_tiles(row));
    }
    return largest;
  }

  // Chunks of at most `tiles` tiles, at least one row each, that end with their sequence.
  void cut(std::int32_t heads, std::int64_t tiles) {
    std::int64_t most = 0, before = 0, in_chunk = 0;
    std::int32_t row = 0, first = 0;
    const auto close = [&] {
      if (row == first) return;
      add_chunk(heads, first, row, before);
      most = std::max(most, in_chunk);
      before += in_chunk;
      in_chunk = 0;
      first = row;
    };
    for (std::int32_t sequence = 0; sequence < sequences_; ++sequence) {
      for (std::int64_t head = 0; head < group_; ++head) {
        for (std::int32_t at = 0; at < sequence_rows(); ++at, ++row) {
          if (in_chunk + row_tiles(at) > tiles) close();
          in_chunk += row_tiles(at);
        }
      }
      close();
    }
    repeat_for_all_heads(heads, sums_heads(heads) / heads);
    const auto chunks = static_cast<std::int64_t>(plan_.chunks.size());
    lay_out_ds(heads, most, std::min<std::int64_t>(chunks, kSlots), sums_heads(heads));
  }

  // Packed: as few kv heads as keep the multiprocessors busy with the longest sequence, or fewer, and as much room as
  // there is. Parts may exceed their share by a row.
  bool packs_parts(std::size_t limit) {
    for (std::int32_t heads = heads_wanted(); heads > 0; --heads) {
      if (all_heads() % heads != 0) continue;
      const std::int64_t room = tiles_within(limit, heads, kSlots, heads * packed_turns(heads));
      if (room < std::min(2 * packed_row(), packed_tiles())) continue;
      lay_out_parts(heads, room);
      return true;
    }
    return false;
  }
  std::int64_t packed_row() const { return std::max(1, kRowUnits * plan_.sequence_tiles); }
  std::int64_t packed_tiles() const { return packed_row() * group_ * plan_.rows_bound; }
  std::int32_t packed_turns(std::int32_t heads) const {
    return all_heads() / heads % kTurns == 0 ? kTurns : 1;
  }
  void lay_out_parts(std::int32_t heads, std::int64_t room) {
    room = std::min(std::max(room, 2 * packed_row()), packed_tiles());
    const std::int64_t groups = all_heads() / heads;
    const std::int64_t wanted = (kChunksWanted + groups - 1) / groups;
    const std::int64_t least = std::max<std::int64_t>(1, room - packed_row());
    const std::int64_t needed = room < packed_tiles() ? (packed_tiles() + least - 1) / least : 1;
    const std::int32_t turns = packed_turns(heads);
    plan_.parts = {heads,
                   turns,
                   static_cast<std::int32_t>(room),
                   static_cast<std::int32_t>(packed_row()),
                   static_cast<std::int32_t>(wanted),
                   blocks_wanted(),
                   static_cast<std::int32_t>(std::max(wanted, needed))};
    lay_out_ds(heads, room, kSlots, heads * turns);
  }

  const AttentionProblem& problem_;
  int multiprocessors_;
  std::int64_t group_;
  // Dense:
  std::int32_t sequences_ = 0;
  std::vector<std::int32_t> unit_tiles_;  // of one query head of a sequence
  BackwardPlan plan_;
};

}  // namespace

BackwardPlan plan_backward(const AttentionProblem& problem, std::size_t limit,
                           int multiprocessors) {
  return Planner(problem, multiprocessors).plan(limit);
}

}  // namespace octet::attention
