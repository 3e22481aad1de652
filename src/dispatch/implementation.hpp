// One operator, one ordered list of implementations, the reference last. The first that takes the
// problem runs it; each of the others says in a sentence why it does not.
#pragma once

#include "core/message.hpp"
#include "dispatch/choose.hpp"
#include "dispatch/machine.hpp"

#include <octet/plan.hpp>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace octet {

// What one run is given besides its tensors.
struct RunContext {
  Workspace workspace;
  int threads = 1;
  void* stream = nullptr;
};

template <class Problem, class Args>
struct Implementation {
  const char* name;  // <device>_<mechanism>
  // Why the problem is refused; empty: it is taken. A pure function of its arguments.
  std::string (*refuse)(const Problem& problem, const Machine& machine);
  // The printable configuration a run would use: tiles, instruction set.
  std::string (*configuration)(const Problem& problem, const Machine& machine);
  std::size_t (*workspace_bytes)(const Problem& problem, const Machine& machine);
  void (*run)(const Problem& problem, const Args& args, const RunContext& context);
};

// The state behind a plan of one operator.
template <class Problem, class Args>
struct PlanState {
  const Implementation<Problem, Args>* implementation = nullptr;
  int threads = 1;
};

template <class Problem, class Args>
std::vector<Candidate> candidates(std::span<const Implementation<Problem, Args>> list,
                                  const Problem& problem, const Machine& machine) {
  std::vector<Candidate> result;
  for (const auto& entry : list) {
    result.push_back({entry.name, entry.refuse(problem, machine)});
  }
  return result;
}

// The plan of a checked problem.
template <class Problem, class Args>
Plan<Problem> make_plan(std::span<const Implementation<Problem, Args>> list, const Problem& problem,
                        const Request& request, const PlanOptions& options) {
  const Machine machine = this_machine(problem.device, options.threads);
  const Choice choice = choose(request, candidates(list, problem, machine));
  const auto& chosen = list[choice.index];
  Plan<Problem> plan;
  plan.problem = problem;
  plan.implementation = chosen.name;
  plan.configuration = chosen.configuration(problem, machine);
  plan.why = choice.why;
  plan.workspace_bytes = chosen.workspace_bytes(problem, machine);
  plan.state = std::make_shared<PlanState<Problem, Args>>(
      PlanState<Problem, Args>{&chosen, machine.threads});
  return plan;
}

// The refusal every CPU implementation begins with.
inline std::string refuse_off_cpu(Device device) {
  return device.type == DeviceType::cpu ? "" : "the problem is on " + octet::name(device);
}

// The refusal every Hopper implementation begins with.
inline std::string refuse_off_hopper(Device device, const Machine& machine) {
  if (device.type != DeviceType::cuda) return "the problem is on " + octet::name(device);
  if (machine.sm_major == 9 && machine.sm_minor == 0) return "";
  return text("needs compute capability 9.0 (Hopper), the device has ", machine.sm_major, ".",
              machine.sm_minor);
}

// A plan that plan_<operator>() made.
inline void check_plan(std::string_view op, const void* state) {
  if (state == nullptr) {
    refuse_argument(op, ": the plan is empty: plan_", op, "() makes one from a problem");
  }
}

// Runs a plan on checked arguments.
template <class Problem, class Args>
void run_plan(const Plan<Problem>& plan, const Args& args, const Workspace& workspace,
              void* stream) {
  const auto* state = static_cast<const PlanState<Problem, Args>*>(plan.state.get());
  state->implementation->run(plan.problem, args, {workspace, state->threads, stream});
}

// The two above for one pass (forward, backward) over a problem; Pass is struct { Problem problem; }.
template <class Pass, class Problem, class Args>
Plan<Pass> make_pass_plan(std::span<const Implementation<Problem, Args>> list,
                          const Problem& problem, const Request& request,
                          const PlanOptions& options) {
  Plan<Problem> plan = make_plan(list, problem, request, options);
  return {{std::move(plan.problem)}, std::move(plan.implementation), std::move(plan.configuration),
          std::move(plan.why),       plan.workspace_bytes,           std::move(plan.state)};
}

template <class Pass, class Args>
void run_pass(const Plan<Pass>& plan, const Args& args, const Workspace& workspace, void* stream) {
  using State = PlanState<decltype(Pass::problem), Args>;
  const auto* state = static_cast<const State*>(plan.state.get());
  state->implementation->run(plan.problem.problem, args, {workspace, state->threads, stream});
}

}  // namespace octet
