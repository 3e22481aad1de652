// A model of the Hopper forward's barriers: loader, consumers, the lanes that store, and the copy engine, which
// may finish loads in any order, advance one step at a time in random turns. Every read has to find what it is
// meant to find, and every role has to end. The steps are those of forward_loads.cuh and forward_consumer.cuh.
#include "support/simd.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace octet::testing {
namespace {

enum class Fault { none, early_release, no_wait_for_results, early_slot };

struct Rings {
  int stages;
  int slots;
  int consumers;
  std::vector<int> blocks;  // of each tile
  Fault fault = Fault::none;
};

struct Step {
  enum Kind { wait, arrive, load, read, write } kind;
  std::string place;  // a barrier, or a piece of shared memory
  int value = 0;      // parity, or what is in the memory
  std::string barrier{};
};

std::string at(const char* name, int index, int of = -1) {
  return name + std::to_string(index) + (of < 0 ? "" : "." + std::to_string(of));
}

// Where use number `use` of a ring lies, and its parity.
struct Use {
  int stage, parity;
  Use(int use, int stages) : stage(use % stages), parity(use / stages % 2) {}
};

class Model {
 public:
  explicit Model(const Rings& rings) : rings_(rings) {
    for (int i = 0; i < rings.slots; ++i) {
      count_[at("q_full", i)] = 1 + rings.consumers;  // the loader and its copies
      count_[at("q_empty", i)] = rings.consumers;
      for (int c = 0; c < rings.consumers; ++c) count_[at("out_full", i, c)] = 1;
    }
    for (int i = 0; i < rings.stages; ++i) {
      for (const char* ring : {"k", "v"}) {
        count_[at(ring, i) + " full"] = 2;
        count_[at(ring, i) + " empty"] = rings.consumers;
      }
    }
    roles_.push_back(loader());
    for (int c = 0; c < rings.consumers; ++c) {
      roles_.push_back(consumer(c));
      roles_.push_back(storer(c));
    }
  }

  // "" or what went wrong.
  std::string run(Random& random) {
    std::vector<std::size_t> place(roles_.size());
    for (int idle = 0; idle < 4000;) {
      const std::size_t turn = random() % (roles_.size() + 1);
      ++idle;
      if (turn == roles_.size()) {
        if (copies_.empty()) continue;
        const auto copy = copies_.begin() + static_cast<std::ptrdiff_t>(random() % copies_.size());
        memory_[copy->place] = copy->value;
        arrive(copy->barrier);
        copies_.erase(copy);
        idle = 0;
        continue;
      }
      if (place[turn] == roles_[turn].size()) continue;
      const Step& step = roles_[turn][place[turn]];
      if (step.kind == Step::wait && phase_[step.place] % 2 == step.value) continue;
      if (step.kind == Step::read && memory_[step.place] != step.value) {
        return step.place + " was overwritten";
      }
      if (step.kind == Step::arrive) arrive(step.place);
      if (step.kind == Step::load) copies_.push_back(step);
      if (step.kind == Step::write) memory_[step.place] = step.value;
      ++place[turn];
      idle = 0;
    }
    for (std::size_t i = 0; i < roles_.size(); ++i) {
      if (place[i] != roles_[i].size()) {
        return "role " + std::to_string(i) + " waits for " + roles_[i][place[i]].place;
      }
    }
    return "";
  }

 private:
  using Role = std::vector<Step>;

  void arrive(const std::string& barrier) {
    if (++arrived_[barrier] < count_[barrier]) return;
    arrived_[barrier] = 0;
    ++phase_[barrier];
  }

  Role loader() const {
    Role role;
    int k = 0, v = 0;
    const auto load_ring = [&](const char* ring, int& use) {
      const Use place(use, rings_.stages);
      const std::string memory = at(ring, place.stage);
      role.push_back({Step::wait, memory + " empty", place.parity ^ 1});
      role.push_back({Step::arrive, memory + " full"});
      role.push_back({Step::load, memory, use++, memory + " full"});
    };
    for (int tile = 0; tile <= tiles(); ++tile) {  // the last one says that there is no more work
      const Use slot(tile, rings_.slots);
      role.push_back({Step::wait, at("q_empty", slot.stage), slot.parity ^ 1});
      role.push_back({Step::arrive, at("q_full", slot.stage)});
      for (int c = 0; c < rings_.consumers; ++c) {
        role.push_back(
            {Step::load, at("q", slot.stage, c), queries(tile), at("q_full", slot.stage)});
      }
      if (tile == tiles() || rings_.blocks[static_cast<std::size_t>(tile)] == 0) continue;
      load_ring("k", k);
      for (int n = 1; n < rings_.blocks[static_cast<std::size_t>(tile)]; ++n) {
        load_ring("k", k);
        load_ring("v", v);
      }
      load_ring("v", v);
    }
    return role;
  }

  Role consumer(int index) const {
    Role role;
    int k = 0, v = 0;
    const auto issue = [&](const char* ring, int use) {
      const Use place(use, rings_.stages);
      role.push_back({Step::wait, at(ring, place.stage) + " full", place.parity});
      role.push_back({Step::read, at(ring, place.stage), use});
    };
    const auto finish = [&](const char* ring, int& use) {
      const Use place(use, rings_.stages);
      const Step read{Step::read, at(ring, place.stage), use++};
      const Step release{Step::arrive, at(ring, place.stage) + " empty"};
      const bool early = rings_.fault == Fault::early_release;
      role.push_back(early ? release : read);
      role.push_back(early ? read : release);
    };
    for (int tile = 0; tile < tiles(); ++tile) {
      const Use slot(tile, rings_.slots);
      role.push_back({Step::wait, at("q_full", slot.stage), slot.parity});
      for (int n = 0; n < rings_.blocks[static_cast<std::size_t>(tile)]; ++n) {
        issue("k", k);
        if (n > 0) issue("v", v);
        role.push_back({Step::read, at("q", slot.stage, index), queries(tile)});
        finish("k", k);
        if (n > 0) finish("v", v);
      }
      if (rings_.blocks[static_cast<std::size_t>(tile)] > 0) {
        issue("v", v);
        finish("v", v);
      }
      role.push_back({Step::write, at("q", slot.stage, index), results(tile)});
      role.push_back({Step::arrive, at("out_full", slot.stage, index)});
    }
    return role;
  }

  Role storer(int index) const {
    Role role;
    for (int tile = 0; tile < tiles(); ++tile) {
      const Use slot(tile, rings_.slots);
      role.push_back({Step::wait, at("q_full", slot.stage), slot.parity});
      if (rings_.fault != Fault::no_wait_for_results) {
        role.push_back({Step::wait, at("out_full", slot.stage, index), slot.parity});
      }
      const Step read{Step::read, at("q", slot.stage, index), results(tile)};
      if (rings_.fault != Fault::early_slot) role.push_back(read);
      role.push_back({Step::arrive, at("q_empty", slot.stage)});
      if (rings_.fault == Fault::early_slot) role.push_back(read);
    }
    return role;
  }

  // What a consumer's part of a slot holds: queries, and later the results in their place.
  static int queries(int tile) { return 2 * tile; }
  static int results(int tile) { return 2 * tile + 1; }
  int tiles() const { return static_cast<int>(rings_.blocks.size()); }

  Rings rings_;
  std::vector<Role> roles_;
  std::map<std::string, int> count_, arrived_, phase_, memory_;
  std::vector<Step> copies_;
};

const Rings kCases[] = {{2, 2, 2, {3, 1, 0, 5, 2}},
                        {2, 1, 2, {3, 1, 0, 5, 2}},
                        {3, 2, 3, {1, 1, 4, 0, 0, 7}},
                        {2, 2, 2, {}}};

TEST(AttentionForwardRing, EveryRoleEndsAndReadsWhatItIsMeantTo) {
  Random random(1);
  for (const Rings& rings : kCases) {
    for (int i = 0; i < 60; ++i) ASSERT_EQ(Model(rings).run(random), "");
  }
}

TEST(AttentionForwardRing, TheModelSeesFaults) {
  Random random(2);
  for (const Fault fault : {Fault::early_release, Fault::no_wait_for_results, Fault::early_slot}) {
    Rings rings{2, 1, 2, {5, 5, 5, 5}, fault};
    bool seen = false;
    for (int i = 0; i < 200 && !seen; ++i) seen = !Model(rings).run(random).empty();
    EXPECT_TRUE(seen) << static_cast<int>(fault);
  }
}

}  // namespace
}  // namespace octet::testing
