// One call of the C API under the fuzzer. It either succeeds within the arena, or returns a status
// with a message and leaves every byte of the arena unchanged.
#pragma once

#include "fuzz/c_api_input.hpp"

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <memory>

namespace octet::fuzz {

inline constexpr std::size_t kWorkspaceLimit = 1 << 20;
inline constexpr std::int64_t kWorkLimit = 1 << 18;  // multiplications of one call

[[noreturn]] inline void give_up(const char* what) {
  std::fprintf(stderr, "c_api_fuzz: %s: %s\n", what, octet_last_error());
  std::abort();
}

inline void check_status(octet_status status) {
  if (status == OCTET_OK) return;
  if (*octet_last_error() == '\0') give_up("an error without a text");
  if (status < OCTET_OK || status >= OCTET_INTERNAL) give_up("an error of no documented kind");
}

using Plan = std::unique_ptr<octet_plan, decltype(&octet_destroy_plan)>;

// Makes a plan with `make`; null if the problem was refused.
template <class Make>
Plan plan_with(const Make& make) {
  octet_plan* made = nullptr;
  const octet_status status = make(&made);
  check_status(status);
  if ((status == OCTET_OK) != (made != nullptr)) give_up("a plan without success, or none with it");
  if (made != nullptr && *octet_plan_problem(made) == '\0') give_up("a plan that cannot say what");
  return {made, octet_destroy_plan};
}

// A plan of the forward or of the backward pass.
struct PlannedPass {
  Plan plan;  // null if the problem was refused
  bool forward;

  // Runs the plan with the function of its pass or, if spoilt, with the other one. Both take
  // (input, plan, rest...).
  template <class Forward, class Backward, class... Rest>
  void run(Input& input, const Forward& run_forward, const Backward& run_backward,
           Rest&&... rest) const {
    const bool other_plan = input.spoilt();
    if (forward != other_plan) {
      run_forward(input, plan.get(), rest...);
    } else {
      run_backward(input, plan.get(), rest...);
    }
  }
};

template <class Problem, class Options>
using PlanPass = octet_status(const Problem*, const Options*, octet_plan**);

// A plan of an operator with one pass.
template <class Problem>
Plan plan_one(Input& input, const Problem& problem,
              PlanPass<Problem, octet_plan_options>* make_plan) {
  octet_plan_options storage;
  const octet_plan_options* options = input.options(&storage, &octet_plan_options::backend);
  return plan_with([&](octet_plan** out) { return make_plan(&problem, options, out); });
}

template <class Problem, class Options>
PlannedPass plan_pass(Input& input, const Problem& problem, const char* Options::*backend,
                      PlanPass<Problem, Options>* plan_forward,
                      PlanPass<Problem, Options>* plan_backward) {
  Options storage;
  const Options* options = input.options(&storage, backend);
  const bool forward = input.coin();
  return {plan_with([&](octet_plan** out) {
            return (forward ? plan_forward : plan_backward)(&problem, options, out);
          }),
          forward};
}

// The memory of one execution, on the heap so that the sanitizer guards both ends.
class Memory {
 public:
  Memory()
      : arena_(new (std::align_val_t{OCTET_ALIGNMENT}) char[kArenaBytes]), before_(kArenaBytes) {
    for (std::int64_t i = 0; i < kArenaBytes; ++i) arena_[i] = static_cast<char>(i * 7);
  }
  ~Memory() { ::operator delete[](arena_, std::align_val_t{OCTET_ALIGNMENT}); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  char* arena() { return arena_; }

  // Calls `run_plan` with a workspace that is right or nearly right.
  template <class Args>
  void run(Input& input, const octet_plan* plan,
           octet_status (*run_plan)(const octet_plan*, const Args*, void*, std::size_t, void*),
           const Args& args) {
    std::size_t bytes = octet_plan_workspace_bytes(plan);
    if (bytes > kWorkspaceLimit) return;
    std::vector<char> storage(bytes + 2 * OCTET_ALIGNMENT);
    void* start = storage.data();
    std::size_t room = storage.size();
    start = std::align(OCTET_ALIGNMENT, bytes, start, room);
    if (input.spoilt()) start = static_cast<char*>(start) + 8;
    if (input.spoilt()) start = nullptr;
    if (bytes > 0 && input.spoilt()) --bytes;
    std::memcpy(before_.data(), arena_, kArenaBytes);
    const octet_status status = run_plan(plan, &args, start, bytes, nullptr);
    check_status(status);
    if (status != OCTET_OK && std::memcmp(before_.data(), arena_, kArenaBytes) != 0) {
      give_up("a refused call has written");
    }
  }
  // The same with arguments that may have grown.
  template <class Args>
  void run(Input& input, const octet_plan* plan,
           octet_status (*run_plan)(const octet_plan*, const Args*, void*, std::size_t, void*),
           Input::Grown<Args>& args) {
    input.grow(&args);
    run(input, plan, run_plan, args.known);
  }

 private:
  char* arena_;
  std::vector<char> before_;
};

// Whether the product of these extents is too much work for one call. An extent of 0 counts as 1,
// so that huge extents next to it still count.
inline bool is_long(std::initializer_list<std::int64_t> extents) {
  __int128 product = 1;
  for (const std::int64_t extent : extents) {
    product *= std::max<std::int64_t>(extent, 1);
    if (product > kWorkLimit) return true;
  }
  return false;
}

// Reads the training options of an FP8 layer, or of an MLP of such layers.
template <class Problem>
void read_training(Input& input, Problem* problem) {
  problem->training = input.spoilt() ? input.flag() : 1;
  problem->need_dx = input.flag();
  problem->need_dw = input.flag();
  problem->dw_dtype = input.float_dtype();
  problem->accumulate_dw = input.flag();
  problem->wgrad_blocks = input.number(OCTET_WGRAD_ROWS, OCTET_WGRAD_SQUARE);
  problem->amax_floor = input.real();
  problem->pow2_scales = input.flag();
  problem->max_multiprocessors = input.spoilt() ? input.number(-1, 200) : 0;
}

// A struct as a later version of the API might pass it, with further members behind those known.
template <class Struct>
Input::Grown<Struct> with_tail() {
  Input::Grown<Struct> grown;
  std::memset(&grown, 0, sizeof grown);
  OCTET_INIT(&grown.known);
  return grown;
}

// The same of a problem, with the defaults that `init` sets.
template <class Problem>
Input::Grown<Problem> with_tail(void (*init)(Problem*)) {
  Input::Grown<Problem> grown = with_tail<Problem>();
  init(&grown.known);
  return grown;
}

// How scales are shared, of the layers that leave a choice.
template <class Problem>
void read_granularity(Input& input, Problem* p) {
  p->granularity = input.number(OCTET_BLOCKWISE, OCTET_MXFP8);
  if (input.coin()) p->fast_accumulation = input.flag();
  if (input.coin()) p->mx_scale = input.number(OCTET_MX_FLOOR, OCTET_MX_UP);
}

// `block` of a layer that shares scales blockwise.
template <class Problem>
octet_block block_of_granularity(const Problem& p, octet_block block) {
  if (p.granularity == OCTET_TENSORWISE) return octet_block_of(OCTET_ALL, OCTET_ALL);
  return p.granularity == OCTET_ROWWISE ? octet_block_of(1, OCTET_ALL) : block;
}

template <class Problem>
octet_block weight_block(const Problem& p) {
  return block_of_granularity(p, octet_block_of(128, 128));
}

}  // namespace octet::fuzz
