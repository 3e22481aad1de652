// A model of the product's ring of stages. It advances one agent by one step at a time: the
// producer, the warps of the consumers, or the copy engine, which may finish loads in any order. A
// cluster has all of these per block, and each producer loads a part of every block's stage.
//
// Barriers behave as in hardware: they count arrivals, and a wait for a parity passes while the
// current phase has the other parity. A role that falls two phases behind is therefore misled here
// as it would be on the device. The steps are those of sm90/loads.cuh, sm90/products.cuh and
// sm90/store_staged.cuh.
#pragma once

#include "ops/gemm/sm90/config.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace octet::testing {

// Ways to break the protocol, to show that the model detects each.
enum class Fault {
  none,
  release_before_reading,   // a warp releases its stage before its products are done
  one_arrival_short,        // a stage counts as empty one warp too early
  only_own_warps,           // a producer waits only for its own block's warps, not the cluster's
  producer_never_restarts,  // the producer continues in the ring where the consumers restart
  wait_before_release,      // waits for the next stage first, even if it is the current one
  ring_left_open,           // the producer ends without the stage that consumers wait for last
  stages_over_products,     // a warp writes results while another still reads the stage
  stages_over_results,      // a warp writes results before those of the tile before were read
  loads_over_results,       // the producer loads the last stage while it holds results
  loads_over_others,        // the same in the other block of a cluster
  out_of_turn,            // a consumer waits for the first stage of its tile before it is its turn
  parities_of_own_tiles,  // a consumer forgets the stages that the other's tile went through
  turn_passed_early,  // a consumer passes its turn before it has waited for the last stage of its tile
};

struct Pipeline {
  int stages = 4;
  int slices = 1;  // of a tile
  int tiles = 1;   // of one block of the grid
  int warps = 8;   // of both consumers
  // Every tile starts at stage 0, and there is no wait after the last one. If false, the ring
  // continues from tile to tile, and an empty stage closes it.
  bool restarts = true;
  Fault fault = Fault::none;
  int blocks = 1;  // of a cluster
  // Over groups: the slices of each tile in turn instead of `slices`, and the slots in which the producer
  // passes on what it knows of a tile, as soon as the previous tile is loaded.
  std::vector<int> slices_in_turn{};
  int slots = 0;
  // Results leave while the next tile is multiplied: all warps write them to the last stage, or to memory of
  // their own, and a warp of its own stores them.
  bool staged = false;
  bool staged_in_ring = true;
  // If false, a stage is released under the products of the next one of its tile, and the first stage of a tile is
  // waited for after the tile before has left.
  bool promoted = true;
  // The consumers, half of the warps each, multiply whole tiles in turn. Not promoted, not staged.
  bool in_turn = false;
};

class PipelineModel {
 public:
  static constexpr int kMostStages = 12;
  static constexpr int kMostWarps = 8;
  static constexpr int kMostBlocks = 2;
  static constexpr int kMostSlots = 8;
  static constexpr int kMostTiles = 30;

  explicit PipelineModel(const Pipeline& pipeline) : pipeline_(pipeline) {
    for (int tile = 0; tile < pipeline.tiles; ++tile) {
      first_[at(tile + 1)] = static_cast<std::int16_t>(first_[at(tile)] + slices_of(tile));
    }
    for (Block& block : state_.blocks) {
      pass_on(block, 0);
      if (pipeline.in_turn) begin_in_turn(block);
    }
    if (pipeline.tiles > 0) return;
    for (Block& block : state_.blocks) {
      block.producer.done = 1;
      for (Warp& warp : block.warps) warp.step = kDone;
    }
  }

  // Agents per block: the producer, the warps, one load per stage and producer, and the storing warp.
  int agents() const { return pipeline_.blocks * agents_of_block(); }

  bool can_step(int agent) const {
    const Block& block = state_.blocks[at(agent / agents_of_block())];
    const int role = agent % agents_of_block();
    if (role == 0) {
      const Producer& p = block.producer;
      return p.done == 0 && passes(block.ring[at(p.stage)].empty, p.phases >> p.stage & 1) &&
             last_stage_is_free(p, agent / agents_of_block());
    }
    if (role <= pipeline_.warps) {
      const Warp& warp = block.warps[at(role - 1)];
      if (warp.step == kDone) return false;
      if (warp.step == kAwaitStored) {
        return pipeline_.fault == Fault::stages_over_results ||
               passes(block.storer.stored, warp.stored_parity);
      }
      if (warp.step == kStage) {
        return !pipeline_.staged_in_ring || pipeline_.fault == Fault::stages_over_products ||
               block.finished == pipeline_.warps;
      }
      if (warp.step == kAwaitTurn) {
        return pipeline_.fault == Fault::out_of_turn ||
               block.turns[at(consumer_of(role - 1))].phase > warp.turns;
      }
      if (warp.step != kWait || next_stage(warp) < 0) return true;
      return passes(block.ring[at(next_stage(warp))].full, warp.phases >> next_stage(warp) & 1);
    }
    if (role == storing_role()) {
      const Storer& storer = block.storer;
      return pipeline_.staged && storer.tile < pipeline_.tiles &&
             (storer.sent != 0 || block.written == pipeline_.warps);
    }
    const Stage& stage = block.ring[at(load_of(role) / pipeline_.blocks)];
    return stage.parts[at(load_of(role) % pipeline_.blocks)].loading != 0;
  }

  void step(int agent) {
    Block& block = state_.blocks[at(agent / agents_of_block())];
    const int role = agent % agents_of_block();
    if (role == 0) {
      load(block, agent / agents_of_block());
    } else if (role <= pipeline_.warps) {
      advance(block, block.warps[at(role - 1)], role - 1);
    } else if (role == storing_role()) {
      store(block, agent / agents_of_block());
    } else {
      Stage& stage = block.ring[at(load_of(role) / pipeline_.blocks)];
      stage.parts[at(load_of(role) % pipeline_.blocks)].loading = 0;
      ++stage.landed;
      fill(stage);
    }
  }

  bool finished() const {
    for (int b = 0; b < pipeline_.blocks; ++b) {
      const Block& block = state_.blocks[at(b)];
      for (int warp = 0; warp < pipeline_.warps; ++warp) {
        if (block.warps[at(warp)].step != kDone) return false;
      }
      if (block.producer.done == 0) return false;
      if (pipeline_.staged && block.storer.tile < pipeline_.tiles) return false;
    }
    return true;
  }

  // The violation that was found; empty if none yet.
  const std::string& violation() const { return violation_; }
  // Equal for equal states.
  std::string key() const {
    return {reinterpret_cast<const char*>(&state_), at(pipeline_.blocks) * sizeof(Block)};
  }

 private:
  using Small = std::int8_t;
  enum Step : Small {
    kWait,
    kIssue,
    kRelease,
    kStore,
    kAwaitStored,
    kFinish,
    kStage,
    kDone,
    kReleaseBefore,  // not promoted: the stage before the one at hand
    kAwaitTurn,      // in turn: until the other consumer has waited for the last stage of its tile
    kPassTurn,
  };

  struct Barrier {
    Small arrived = 0;
    Small phase = 0;
  };
  struct Part {
    Small ticket = -1;  // index of its slice among all slices
    Small loading = 0;  // its bytes are in flight
  };
  struct Stage {
    std::array<Part, kMostBlocks> parts;  // by the producer they come from
    Barrier full;                         // arrived: its producer expects this stage's bytes
    Barrier empty;
    Small landed = 0;    // parts of the current phase, even before they are expected
    Small expected = 0;  // by its producer
    Small consumed = 0;  // warps of the block that are done with slice `of`
    Small of = -1;
  };
  struct Producer {
    std::uint16_t phases = 0xFFFF;  // the first wait for each stage returns at once
    Small ticket = 0;
    Small slice = 0;
    Small stage = 0;
    Small done = 0;
  };
  struct Warp {
    std::uint16_t phases = 0;
    std::int16_t ticket = -1;  // current slice; -1: before the first tile
    Small step = kWait;
    Small stage = -1;
    Small stored_parity = 1;  // the first wait returns at once
    Small turns = 0;          // in turn: those it has had
  };
  struct Storer {
    Barrier stored;
    Small tile = 0;  // at hand
    Small sent = 0;  // its results are being read
  };
  struct Block {
    Producer producer;
    std::array<Warp, kMostWarps> warps;
    std::array<Stage, kMostStages> ring;
    std::array<Small, kMostSlots> slots{-1, -1, -1, -1, -1, -1, -1, -1};  // the tile in each
    Storer storer;
    Small finished = 0;  // warps whose products of a tile are done
    Small written = 0;   // warps that have written its results
    std::array<Small, kMostBlocks>
        stored_before{};           // tiles that have left the last stage, by block
    std::array<Barrier, 2> turns;  // of each consumer
  };
  struct State {
    std::array<Block, kMostBlocks> blocks;
  };

  static_assert(std::has_unique_object_representations_v<State>, "states compare as bytes");

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  static bool passes(const Barrier& barrier, int parity) { return barrier.phase % 2 != parity; }
  static void arrive(Barrier& barrier, int wanted) {
    if (++barrier.arrived < wanted) return;
    barrier.arrived = 0;
    ++barrier.phase;
  }

  int agents_of_block() const { return storing_role() + 1; }
  int storing_role() const { return 1 + pipeline_.warps + pipeline_.stages * pipeline_.blocks; }
  int load_of(int role) const { return role - 1 - pipeline_.warps; }

  int slices_of(int tile) const {
    const std::vector<int>& turn = pipeline_.slices_in_turn;
    return turn.empty() ? pipeline_.slices : turn[at(tile) % turn.size()];
  }
  int tickets() const { return first_[at(pipeline_.tiles)]; }
  // Behind the last tile: the number of tiles.
  int tile_of(int ticket) const {
    int tile = 0;
    while (tile < pipeline_.tiles && first_[at(tile + 1)] <= ticket) ++tile;
    return tile;
  }
  bool ends_tile(int ticket) const { return first_[at(tile_of(ticket) + 1)] == ticket + 1; }
  bool begins_tile(int ticket) const { return first_[at(tile_of(ticket))] == ticket; }

  // The slot of a tile is written.
  void pass_on(Block& block, int tile) {
    if (pipeline_.slots > 0 && tile < pipeline_.tiles) {
      block.slots[at(tile % pipeline_.slots)] = static_cast<Small>(tile);
    }
  }
  void read_slot(const Block& block, int tile) {
    if (pipeline_.slots > 0 && block.slots[at(tile % pipeline_.slots)] != tile) {
      violation_ = "a slot is read that holds another tile";
    }
  }

  // In turn: the first warps are the first consumer's, and it has the first tile.
  int consumer_of(int warp) const { return warp * 2 / pipeline_.warps; }
  int readers() const { return pipeline_.in_turn ? pipeline_.warps / 2 : pipeline_.warps; }

  void begin_in_turn(Block& block) {
    block.turns[0].phase = 1;
    for (int i = 0; i < pipeline_.warps; ++i) {
      Warp& warp = block.warps[at(i)];
      warp.step = pipeline_.tiles > consumer_of(i) ? kAwaitTurn : kDone;
      if (consumer_of(i) == 1) leave_out(warp, 0);
    }
  }

  // The tile of the other consumer: its stages change their parity as often as it uses them.
  void leave_out(Warp& warp, int tile) {
    if (tile >= pipeline_.tiles) return;
    warp.ticket = static_cast<std::int16_t>(first_[at(tile + 1)] - 1);
    if (pipeline_.fault == Fault::parities_of_own_tiles) return;
    warp.phases =
        static_cast<std::uint16_t>(warp.phases ^ flipped_stages(pipeline_.stages, slices_of(tile)));
  }

  // Whether a consumer passes its turn behind this slice: the last of its tile.
  bool passes_turn(int ticket) const {
    const int last = first_[at(tile_of(ticket) + 1)] - 1;
    const bool early = pipeline_.fault == Fault::turn_passed_early && !begins_tile(last);
    return pipeline_.in_turn && ticket == (early ? last - 1 : last);
  }

  // Behind a tile of its own.
  void take_turn(Warp& warp) {
    const int tile = tile_of(warp.ticket);
    warp.step = tile + 2 < pipeline_.tiles ? kAwaitTurn : kDone;
    if (warp.step == kAwaitTurn) leave_out(warp, tile + 1);
  }

  // The stage of the slice after the current one, in this tile or the next, or the stage that
  // closes the ring; -1: there is none.
  int next_stage(const Warp& warp) const {
    const int next = warp.ticket + 1;
    if (!pipeline_.restarts) return next % pipeline_.stages;
    if (next >= tickets()) return -1;
    return (next - first_[at(tile_of(next))]) % pipeline_.stages;
  }

  // A stage is full once its producer expects bytes and all of them have landed.
  static void fill(Stage& stage) {
    if (stage.full.arrived == 0 || stage.landed != stage.expected) return;
    stage.full.arrived = 0;
    stage.landed = 0;
    ++stage.full.phase;
  }

  static void expect(Stage& stage, int parts) {
    stage.full.arrived = 1;
    stage.expected = static_cast<Small>(parts);
    fill(stage);
  }

  // Whether the producer of block `rank` may load its next slice as far as results go.
  bool last_stage_is_free(const Producer& p, int rank) const {
    const bool waits = pipeline_.staged && pipeline_.staged_in_ring;
    if (!waits || p.slice != pipeline_.stages - 1) return true;
    if (pipeline_.fault == Fault::loads_over_results) return true;
    const Block& block = state_.blocks[at(rank)];
    for (int other = 0; other < pipeline_.blocks; ++other) {
      if (other != rank && pipeline_.fault == Fault::loads_over_others) continue;
      if (block.stored_before[at(other)] < tile_of(p.ticket)) return false;
    }
    return true;
  }

  // A warp writes its results to the last stage.
  void write_results(Block& block) {
    const Stage& stage = block.ring[at(pipeline_.stages - 1)];
    const int tile = block.storer.tile;
    for (int from = 0; pipeline_.staged_in_ring && from < pipeline_.blocks; ++from) {
      const Part& part = stage.parts[at(from)];
      if (part.ticket >= first_[at(tile + 1)]) violation_ = "results overwrite a loaded stage";
      if (part.ticket >= 0 && (stage.of != part.ticket || stage.consumed != readers())) {
        violation_ = "results overwrite a stage in use";
      }
    }
    if (block.storer.sent != 0 || block.written == pipeline_.warps) {
      violation_ = "results overwrite those of the tile before";
    }
    ++block.written;
  }

  // The storing warp sends the results of a tile, and then they have been read.
  void store(Block& block, int rank) {
    Storer& storer = block.storer;
    if (storer.sent == 0) {
      read_slot(block, storer.tile);
      storer.sent = 1;
      return;
    }
    storer.sent = 0;
    ++storer.tile;
    block.written = 0;
    block.finished = 0;
    for (int to = 0; to < pipeline_.blocks; ++to) {
      state_.blocks[at(to)].stored_before[at(rank)] = storer.tile;
    }
    arrive(storer.stored, 1);
  }

  // The part from producer `from` is now in flight, to a stage of this or another block.
  void send(Stage& stage, int from, Small ticket) {
    Part& part = stage.parts[at(from)];
    if (part.loading != 0) violation_ = "a stage is loaded twice at once";
    if (part.ticket >= 0 && (stage.of != part.ticket || stage.consumed != readers())) {
      violation_ = "a stage in use is overwritten";
    }
    part = {ticket, 1};
  }

  void load(Block& block, int rank) {
    Producer& p = block.producer;
    Stage& own = block.ring[at(p.stage)];
    if (p.ticket == tickets()) {  // closes the ring: an arrival without bytes
      for (Part& part : own.parts) part.ticket = p.ticket;
      expect(own, 0);
      p.done = 1;
      return;
    }
    expect(own, pipeline_.blocks);
    for (int to = 0; to < pipeline_.blocks; ++to) {
      Block& other = state_.blocks[at(to)];
      send(other.ring[at(p.stage)], rank, p.ticket);
      if (pipeline_.staged_in_ring && p.stage == pipeline_.stages - 1 && other.written > 0) {
        violation_ = "a stage that holds results is overwritten";
      }
    }
    p.phases = static_cast<std::uint16_t>(p.phases ^ 1u << p.stage);
    ++p.ticket;
    ++p.slice;
    p.stage = static_cast<Small>(p.stage + 1 == pipeline_.stages ? 0 : p.stage + 1);
    if (p.slice == slices_of(tile_of(p.ticket - 1))) {
      p.slice = 0;
      pass_on(block, tile_of(p.ticket - 1) + 1);
      if (pipeline_.restarts && pipeline_.fault != Fault::producer_never_restarts) p.stage = 0;
    }
    const bool closes = !pipeline_.restarts && pipeline_.fault != Fault::ring_left_open;
    p.done = p.ticket == tickets() && !closes;
  }

  // Checks that the stage a warp reads holds the slice that the warp expects.
  void read(const Block& block, int stage, int ticket) {
    for (int from = 0; from < pipeline_.blocks; ++from) {
      const Part& given = block.ring[at(stage)].parts[at(from)];
      if (given.loading != 0) violation_ = "a stage is read before it is full";
      if (given.ticket != ticket) violation_ = "a stage is read that holds another slice";
    }
  }

  // Issues the last products of a stage, waits for the next stage and reads its scales, then
  // releases the current stage. If the next stage is the current one, releases before it waits.
  // Products issued ahead read the next stage at the same point as its scales.
  void advance(Block& block, Warp& warp, int index) {
    if (!pipeline_.promoted) return advance_unpromoted(block, warp, index);
    const int next = next_stage(warp);
    const bool same_stage = next == warp.stage && pipeline_.fault != Fault::wait_before_release;
    const bool early = pipeline_.fault == Fault::release_before_reading;
    switch (warp.step) {
      case kIssue:
        if (begins_tile(warp.ticket)) read_slot(block, tile_of(warp.ticket));
        read(block, warp.stage, warp.ticket);
        if (early) release(block, warp.stage, warp.ticket);
        warp.step = same_stage ? kRelease : kWait;
        break;
      case kWait:
        if (next >= 0) {
          warp.phases = static_cast<std::uint16_t>(warp.phases ^ 1u << next);
          read(block, next, warp.ticket + 1);
        }
        warp.step = kRelease;
        if (warp.ticket < 0 || same_stage) take_next(warp);
        break;
      case kRelease:
        read(block, warp.stage, warp.ticket);  // the products read it until here
        if (!early) release(block, warp.stage, warp.ticket);
        warp.step = kWait;
        if (!same_stage) take_next(warp);
        break;
      case kStore:
        read_slot(block, tile_of(warp.ticket - 1));
        warp.step = pipeline_.staged ? kAwaitStored : after_tile(warp.ticket);
        break;
      default: leave(block, warp, warp.ticket); break;
    }
  }

  // Waits for a stage and issues its products; then those of the stage before are done, and it is released. The last
  // stage of a tile is released when its own are.
  void advance_unpromoted(Block& block, Warp& warp, int index) {
    const bool early = pipeline_.fault == Fault::release_before_reading;
    const auto after_turn = [&] { return ends_tile(warp.ticket) ? kRelease : kWait; };
    const auto after_release = [&] { return passes_turn(warp.ticket) ? kPassTurn : after_turn(); };
    switch (warp.step) {
      case kAwaitTurn:
        ++warp.turns;
        warp.step = kWait;
        break;
      case kPassTurn:
        if (tile_of(warp.ticket) + 1 < pipeline_.tiles) {
          arrive(block.turns[at(1 - consumer_of(index))], readers());
        }
        warp.step = after_turn();
        break;
      case kWait: {
        const int next = next_stage(warp);
        warp.phases = static_cast<std::uint16_t>(warp.phases ^ 1u << next);
        warp.stage = static_cast<Small>(next);
        ++warp.ticket;
        read(block, warp.stage, warp.ticket);
        if (early) release(block, warp.stage, warp.ticket);
        if (begins_tile(warp.ticket)) read_slot(block, tile_of(warp.ticket));
        warp.step = begins_tile(warp.ticket) ? after_release() : kReleaseBefore;
        break;
      }
      case kReleaseBefore: {
        const int before = (warp.stage + pipeline_.stages - 1) % pipeline_.stages;
        read(block, before, warp.ticket - 1);
        if (!early) release(block, before, warp.ticket - 1);
        warp.step = after_release();
        break;
      }
      case kRelease:
        read(block, warp.stage, warp.ticket);
        if (!early) release(block, warp.stage, warp.ticket);
        read_slot(block, tile_of(warp.ticket));
        warp.step = pipeline_.staged ? kAwaitStored : after_tile(warp.ticket + 1);
        if (pipeline_.in_turn) take_turn(warp);
        break;
      default: leave(block, warp, warp.ticket + 1); break;
    }
  }

  Step after_tile(int next_ticket) const {
    if (next_ticket == tickets()) return kDone;
    return pipeline_.promoted ? kIssue : kWait;
  }

  // The steps with which the results of a tile leave.
  void leave(Block& block, Warp& warp, int next_ticket) {
    switch (warp.step) {
      case kAwaitStored:
        warp.stored_parity = static_cast<Small>(warp.stored_parity ^ 1);
        warp.step = kFinish;
        break;
      case kFinish:
        ++block.finished;
        warp.step = kStage;
        break;
      case kStage:
        write_results(block);
        warp.step = after_tile(next_ticket);
        break;
      default: break;
    }
  }

  // Releases the stage in every block whose producer writes to this one.
  void release(Block& block, int at_stage, int ticket) {
    Stage& stage = block.ring[at(at_stage)];
    if (stage.of != ticket) stage.consumed = 0;
    stage.of = static_cast<Small>(ticket);
    ++stage.consumed;
    const bool short_count = pipeline_.fault == Fault::one_arrival_short;
    const bool own_only = pipeline_.fault == Fault::only_own_warps;
    const int wanted = (own_only ? 1 : pipeline_.blocks) * readers() - (short_count ? 1 : 0);
    for (int to = 0; to < pipeline_.blocks; ++to) {
      Block& other = state_.blocks[at(to)];
      if (own_only && &other != &block) continue;
      arrive(other.ring[at(at_stage)].empty, wanted);
    }
  }

  void take_next(Warp& warp) {
    warp.stage = static_cast<Small>(next_stage(warp));
    ++warp.ticket;
    warp.step = warp.ticket == tickets() ? kDone : kIssue;
    // A tile is stored when its last stage has been released, and its slot is read for that.
    const bool ends_tile =
        warp.ticket > 0 && (warp.ticket == tickets() || begins_tile(warp.ticket));
    if ((pipeline_.slots > 0 || pipeline_.staged) && ends_tile) warp.step = kStore;
  }

  Pipeline pipeline_;
  std::array<std::int16_t, kMostTiles + 1>
      first_{};  // ticket of each tile, and the one behind the last
  State state_;
  std::string violation_;
};

}  // namespace octet::testing
