// A model of the product's ring of stages, one step of one agent at a time: the producer, the warps
// of the consumers, and the copy engine, which finishes the loads of the stages in any order.
//
// Barriers are modelled as the hardware has them: they count arrivals, and a wait for a parity
// passes while the current phase has the other one, so a role that falls two phases behind is
// misled here as it would be there. The steps are those of cuda_sm90_wgmma.cuh.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

namespace octet::testing {

// Ways to break the protocol, so that tests can show that the model notices.
enum class Fault {
  none,
  release_before_reading,   // a warp frees its stage before its products are done
  one_arrival_short,        // a stage counts as empty one warp too early
  producer_never_restarts,  // the producer goes on in the ring where the consumers restart
  wait_before_release,      // the next stage is awaited first, even where it is the one at hand
  ring_left_open,           // the producer ends without the stage the consumers await last
};

struct Pipeline {
  int stages = 4;
  int slices = 1;  // of a tile
  int tiles = 1;   // of one block of the grid
  int warps = 8;   // of both consumers
  // Every tile begins at stage 0, and nothing is awaited behind the last one; else the ring goes
  // on, and an empty stage closes it.
  bool restarts = true;
  Fault fault = Fault::none;
};

class PipelineModel {
 public:
  static constexpr int kMostStages = 10;
  static constexpr int kMostWarps = 8;

  explicit PipelineModel(const Pipeline& pipeline) : pipeline_(pipeline) {
    if (pipeline.tiles > 0) return;
    state_.producer.done = 1;
    for (Warp& warp : state_.warps) warp.step = kDone;
  }

  // The producer, the warps, and one load per stage.
  int agents() const { return 1 + pipeline_.warps + pipeline_.stages; }

  bool can_step(int agent) const {
    if (agent == 0) {
      const Producer& p = state_.producer;
      return p.done == 0 && passes(state_.empty[at(p.stage)], p.phases >> p.stage & 1);
    }
    if (agent <= pipeline_.warps) {
      const Warp& warp = state_.warps[at(agent - 1)];
      if (warp.step == kDone) return false;
      if (warp.step != kWait || next_stage(warp) < 0) return true;
      return passes(state_.full[at(next_stage(warp))], warp.phases >> next_stage(warp) & 1);
    }
    return state_.ring[at(agent - 1 - pipeline_.warps)].loading != 0;
  }

  void step(int agent) {
    if (agent == 0) {
      load();
    } else if (agent <= pipeline_.warps) {
      advance(state_.warps[at(agent - 1)]);
    } else {
      const int stage = agent - 1 - pipeline_.warps;
      state_.ring[at(stage)].loading = 0;
      arrive(state_.full[at(stage)], 1);
    }
  }

  bool finished() const {
    for (int warp = 0; warp < pipeline_.warps; ++warp) {
      if (state_.warps[at(warp)].step != kDone) return false;
    }
    return state_.producer.done != 0;
  }

  // What went wrong; empty: nothing yet.
  const std::string& violation() const { return violation_; }
  // Equal where two states are.
  std::string key() const { return {reinterpret_cast<const char*>(&state_), sizeof(state_)}; }

 private:
  using Small = std::int8_t;
  enum Step : Small { kWait, kIssue, kRelease, kDone };

  struct Barrier {
    Small arrived = 0;
    Small phase = 0;
  };
  struct Stage {
    Small ticket = -1;   // which slice of all it holds
    Small loading = 0;   // its bytes are on the way
    Small consumed = 0;  // warps that are done with it
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
    std::int16_t ticket = -1;  // at hand; -1: before the first tile
    Small step = kWait;
    Small stage = -1;
  };
  struct State {
    Producer producer;
    std::array<Warp, kMostWarps> warps;
    std::array<Stage, kMostStages> ring;
    std::array<Barrier, kMostStages> full;
    std::array<Barrier, kMostStages> empty;
  };

  static_assert(std::has_unique_object_representations_v<State>, "states compare as bytes");

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  static bool passes(const Barrier& barrier, int parity) { return barrier.phase % 2 != parity; }
  static void arrive(Barrier& barrier, int wanted) {
    if (++barrier.arrived < wanted) return;
    barrier.arrived = 0;
    ++barrier.phase;
  }

  int tickets() const { return pipeline_.tiles * pipeline_.slices; }

  // Of the slice after the one at hand, of this tile or the next, or of the stage that closes the
  // ring; -1: there is none.
  int next_stage(const Warp& warp) const {
    const int next = warp.ticket + 1;
    if (next == tickets() && pipeline_.restarts) return -1;
    return (pipeline_.restarts ? next % pipeline_.slices : next) % pipeline_.stages;
  }

  void load() {
    Producer& p = state_.producer;
    Stage& stage = state_.ring[at(p.stage)];
    if (stage.loading != 0) violation_ = "a stage is loaded twice at once";
    if (stage.ticket >= 0 && stage.consumed != pipeline_.warps) {
      violation_ = "a stage in use is overwritten";
    }
    stage = {p.ticket, 1, 0};
    if (p.ticket == tickets()) {  // closes the ring: an arrival without bytes
      stage.loading = 0;
      arrive(state_.full[at(p.stage)], 1);
      p.done = 1;
      return;
    }
    p.phases = static_cast<std::uint16_t>(p.phases ^ 1u << p.stage);
    ++p.ticket;
    ++p.slice;
    p.stage = static_cast<Small>(p.stage + 1 == pipeline_.stages ? 0 : p.stage + 1);
    if (p.slice == pipeline_.slices) {
      p.slice = 0;
      if (pipeline_.restarts && pipeline_.fault != Fault::producer_never_restarts) p.stage = 0;
    }
    const bool closes = !pipeline_.restarts && pipeline_.fault != Fault::ring_left_open;
    p.done = p.ticket == tickets() && !closes;
  }

  // A stage a warp reads holds the slice the warp believes it does.
  void read(int stage, int ticket) {
    const Stage& given = state_.ring[at(stage)];
    if (given.loading != 0) violation_ = "a stage is read before it is full";
    if (given.ticket != ticket) violation_ = "a stage is read that holds another slice";
  }

  // Issues the last products of a stage, awaits the next stage and reads its scales, releases the
  // one at hand; in the other order where the next stage is the one at hand.
  void advance(Warp& warp) {
    const int next = next_stage(warp);
    const bool same_stage = next == warp.stage && pipeline_.fault != Fault::wait_before_release;
    const bool early = pipeline_.fault == Fault::release_before_reading;
    switch (warp.step) {
      case kIssue:
        read(warp.stage, warp.ticket);
        if (early) release(warp);
        warp.step = same_stage ? kRelease : kWait;
        break;
      case kWait:
        if (next >= 0) {
          warp.phases = static_cast<std::uint16_t>(warp.phases ^ 1u << next);
          read(next, warp.ticket + 1);
        }
        warp.step = kRelease;
        if (warp.ticket < 0 || same_stage) take_next(warp);
        break;
      case kRelease:
        read(warp.stage, warp.ticket);  // the products read it up to here
        if (!early) release(warp);
        warp.step = kWait;
        if (!same_stage) take_next(warp);
        break;
      default: break;
    }
  }

  void release(const Warp& warp) {
    ++state_.ring[at(warp.stage)].consumed;
    const bool short_count = pipeline_.fault == Fault::one_arrival_short;
    arrive(state_.empty[at(warp.stage)], pipeline_.warps - (short_count ? 1 : 0));
  }

  void take_next(Warp& warp) {
    warp.stage = static_cast<Small>(next_stage(warp));
    ++warp.ticket;
    warp.step = warp.ticket == tickets() ? kDone : kIssue;
  }

  Pipeline pipeline_;
  State state_;
  std::string violation_;
};

}  // namespace octet::testing
