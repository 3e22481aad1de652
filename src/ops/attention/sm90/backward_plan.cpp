#include "ops/attention/sm90/backward_plan.hpp"

#include "core/checks.hpp"
#include "core/workspace.hpp"

#include <algorithm>

namespace octet::attention {
namespace {

// With fewer blocks than this many per multiprocessor, a chunk leaves too many of them idle at its end.
constexpr double kBlocksWanted = 1.9;

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
      unit_tiles_.assign(static_cast<std::size_t>(plan_.rows_bound) * kRowUnits,
                         plan_.sequence_tiles);
      sequences_ = 1;
    } else {
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
  }

  BackwardPlan plan(std::size_t limit) {
    lay_out_tables();
    if (!fits_at_once(limit) && !fits_in_chunks(limit)) cut(1, 0);
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
  // Of one kv head of one sequence, or of all packed ones.
  std::int64_t group_tiles() const {
    std::int64_t tiles = 0;
    for (std::int32_t row = 0; row < sequence_rows(); ++row) tiles += row_tiles(row);
    return tiles * group_;
  }
  std::size_t sums_bytes(std::int32_t heads) const {
    return static_cast<std::size_t>(heads) * static_cast<std::size_t>(plan_.sequence_tiles) *
           kTile * static_cast<std::size_t>(problem_.dim_qk + problem_.dim_v) * sizeof(float);
  }

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
  }
  void lay_out_ds(std::int32_t heads, std::int64_t head_tiles, int sums) {
    BackwardPieces& pieces = plan_.pieces;
    for (int i = 0; i < sums; ++i) take(pieces.sums[i], sums_bytes(heads));
    if (sums == 1) pieces.sums[1] = pieces.sums[0];
    plan_.head_tiles = static_cast<std::int32_t>(head_tiles);
    take(pieces.ds,
         static_cast<std::size_t>(heads) * static_cast<std::size_t>(head_tiles) * kTileBytes);
  }
  std::int64_t tiles_within(std::size_t limit, std::int32_t heads, int sums) const {
    const std::size_t taken =
        plan_.pieces.bytes + static_cast<std::size_t>(sums) * aligned_bytes(sums_bytes(heads));
    return limit <= taken ? 0 : static_cast<std::int64_t>((limit - taken) / kTileBytes) / heads;
  }

  void add_chunks(std::int32_t heads, std::int32_t first_row, std::int32_t end_row,
                  std::int64_t first_tile) {
    plan_.chunks.push_back({0, heads, first_row, end_row});
    plan_.first_tiles.push_back(static_cast<std::int32_t>(first_tile));
  }
  // The chunks so far are those of the first `heads` kv heads: the others follow.
  void repeat_for_all_heads(std::int32_t heads) {
    const std::size_t count = plan_.chunks.size();
    for (auto first = heads; first < problem_.heads_kv; first += heads) {
      for (std::size_t i = 0; i < count; ++i) {
        Chunk chunk = plan_.chunks[i];
        chunk.first_head = first;
        chunk.heads = std::min(heads, static_cast<std::int32_t>(problem_.heads_kv) - first);
        plan_.chunks.push_back(chunk);
        plan_.first_tiles.push_back(plan_.first_tiles[i]);
      }
    }
  }

  bool fits_at_once(std::size_t limit) {
    const auto heads = static_cast<std::int32_t>(problem_.heads_kv);
    const std::int64_t tiles = group_tiles() * sequences_;
    if (tiles > tiles_within(limit, heads, 0)) return false;
    lay_out_ds(heads, tiles, 0);
    add_chunks(heads, 0, static_cast<std::int32_t>(group_) * sequences_ * sequence_rows(), 0);
    return true;
  }

  // As many kv heads and whole sequences as fit, if they keep the multiprocessors busy. Else as few heads as do, and
  // a part of a sequence: the sums that chunks hand on grow with the heads.
  bool fits_in_chunks(std::size_t limit) {
    const auto all = static_cast<std::int32_t>(problem_.heads_kv);
    const std::int32_t blocks =
        problem_.offsets_dtype ? plan_.key_tiles_bound : std::max(1, plan_.sequence_tiles);
    const std::int64_t tiles = std::max<std::int64_t>(1, group_tiles());
    const std::int64_t groups = tiles_within(limit, 1, 0) / tiles;
    if (groups > 0 && static_cast<double>(groups * blocks) >= kBlocksWanted * multiprocessors_) {
      std::int32_t heads = 1;
      for (std::int32_t i = 1; i <= all && i <= groups; ++i) {
        if (all % i == 0) heads = i;
      }
      take_whole_sequences(
          heads, static_cast<std::int32_t>(std::min<std::int64_t>(groups / heads, sequences_)));
      return true;
    }
    std::int32_t heads = 1;
    while (heads < all && (all % heads != 0 || heads * blocks < kBlocksWanted * multiprocessors_)) {
      ++heads;
    }
    for (; heads > 0; heads = heads == 1 ? 0 : heads / 2) {
      const std::int64_t room = tiles_within(limit, heads, sums());
      if (room < largest_row()) continue;
      cut(heads, room);
      return true;
    }
    return false;
  }
  int sums() const { return problem_.offsets_dtype ? 2 : 1; }
  std::int64_t largest_row() const {
    std::int64_t largest = 1;
    for (std::int32_t row = 0; row < sequence_rows(); ++row) {
      largest = std::max(largest, row_tiles(row));
    }
    return largest;
  }

  void take_whole_sequences(std::int32_t heads, std::int32_t at_once) {
    const std::int32_t rows = static_cast<std::int32_t>(group_) * sequence_rows();
    lay_out_ds(heads, group_tiles() * at_once, 0);
    for (std::int32_t first = 0; first < sequences_; first += at_once) {
      add_chunks(heads, first * rows, std::min(first + at_once, sequences_) * rows,
                 first * group_tiles());
    }
    repeat_for_all_heads(heads);
  }

  // Chunks of at most `tiles` tiles, at least one row each, that end with their sequence.
  void cut(std::int32_t heads, std::int64_t tiles) {
    std::int64_t most = 0, before = 0, in_chunk = 0;
    std::int32_t row = 0, first = 0;
    const auto close = [&] {
      if (row == first) return;
      add_chunks(heads, first, row, before);
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
    if (plan_.chunks.empty()) add_chunks(heads, 0, 0, 0);
    lay_out_ds(heads, most, sums());
    repeat_for_all_heads(heads);
  }

  const AttentionProblem& problem_;
  int multiprocessors_;
  std::int64_t group_;
  std::int32_t sequences_;                // whose rows are alike; packed: one, of all rows
  std::vector<std::int32_t> unit_tiles_;  // of one query head of such a sequence
  BackwardPlan plan_;
};

}  // namespace

BackwardPlan plan_backward(const AttentionProblem& problem, std::size_t limit,
                           int multiprocessors) {
  return Planner(problem, multiprocessors).plan(limit);
}

}  // namespace octet::attention
