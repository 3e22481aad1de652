// One operator, one ordered list of implementations, the reference last. The first that takes the
// problem runs it, unless another is forced or tuned; each of the others says in a sentence why it does
// not.
#pragma once

#include "core/message.hpp"
#include "cpu/threads.hpp"
#include "dispatch/choose.hpp"
#include "dispatch/machine.hpp"
#include "dispatch/tuned.hpp"

#include <octet/plan.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace octet {

// What one run is given besides its tensors.
struct RunContext {
  Workspace workspace;
  int threads = 1;
  void* stream = nullptr;
};

// What an implementation decided about a problem: all that its runs need. Nothing is chosen,
// printed or parsed at a launch.
template <class Args>
struct Planned {
  std::string configuration;  // printable: tiles, instruction set
  std::size_t workspace_bytes = 0;
  // Arguments are checked already. Many threads may call it at once.
  std::function<void(const Args& args, const RunContext& context)> run;
};

// A configuration that runs a problem.
struct Alternative {
  std::string configuration;
  double predicted =
      1;  // its time over that of the implementation's own choice; 1 where no model says
};

template <class Problem, class Args>
struct Implementation {
  const char* name;  // <device>_<mechanism>
  // Why the problem is refused; empty: it is taken. A pure function of its arguments.
  std::string (*refuse)(const Problem& problem, const Machine& machine);
  // The plan of a problem that is not refused.
  Planned<Args> (*plan)(const Problem& problem, const Machine& machine);
  // The same with the configuration that has this text, or why it cannot run the problem. Null:
  // every problem has exactly one configuration.
  std::variant<Planned<Args>, Refusal> (*plan_with)(const Problem& problem, const Machine& machine,
                                                    std::string_view configuration) = nullptr;
  // Only run where its name is forced: it does not keep all that octet promises.
  bool only_forced = false;
  // All configurations that run the problem, its own choice among them, for whoever looks for a
  // faster one. Null: that of plan().
  std::vector<Alternative> (*configurations)(const Problem& problem,
                                             const Machine& machine) = nullptr;
};

// The plan of an implementation that has nothing to decide beyond its configuration text.
template <class Args, class Problem>
Planned<Args> planned(
    const Problem& problem, std::string configuration, std::size_t workspace_bytes,
    std::type_identity_t<void (*)(const Problem&, const Args&, const RunContext&)> run) {
  return {
      std::move(configuration), workspace_bytes,
      [problem, run](const Args& args, const RunContext& context) { run(problem, args, context); }};
}

// The refusal every CPU implementation begins with.
inline std::string refuse_off_cpu(Device device) {
  return device.type == DeviceType::cpu ? "" : "the problem is on " + octet::name(device);
}

// The formula of an operator, scalar and without a workspace: the last of its list, which takes
// every problem on the CPU.
template <class Problem, class Args, void (*kRun)(const Problem&, const Args&, const RunContext&)>
constexpr Implementation<Problem, Args> cpu_reference() {
  return {"cpu_reference",
          [](const Problem& problem, const Machine&) { return refuse_off_cpu(problem.device); },
          [](const Problem& problem, const Machine&) {
            return planned<Args>(problem, "scalar", 0, kRun);
          }};
}

// The state behind a plan of one operator.
template <class Args>
struct PlanState {
  std::function<void(const Args& args, const RunContext& context)> run;
  int threads = 1;
};

template <class Problem, class Args>
std::vector<Candidate> candidates(std::span<const Implementation<Problem, Args>> list,
                                  const Problem& problem, const Machine& machine) {
  std::vector<Candidate> result;
  result.reserve(list.size());
  for (const auto& entry : list) {
    result.push_back({entry.name, entry.refuse(problem, machine), entry.only_forced});
  }
  return result;
}

// The plan of an implementation with the configuration that has this text, or why there is none.
template <class Problem, class Args>
std::variant<Planned<Args>, Refusal> plan_configuration(
    const Implementation<Problem, Args>& implementation, const Problem& problem,
    const Machine& machine, const std::string& configuration) {
  if (implementation.plan_with != nullptr) {
    return implementation.plan_with(problem, machine, configuration);
  }
  Planned<Args> only = implementation.plan(problem, machine);
  if (only.configuration == configuration) return only;
  return Refusal{"it has one for this problem, \"" + only.configuration + "\""};
}

// The plan of the chosen implementation, with the requested configuration, if any.
template <class Problem, class Args>
Planned<Args> plan_chosen(const Implementation<Problem, Args>& chosen, const Problem& problem,
                          const Machine& machine, const Request& request,
                          const std::string& configuration) {
  if (configuration.empty()) return chosen.plan(problem, machine);
  auto result = plan_configuration(chosen, problem, machine, configuration);
  if (const Refusal* refusal = std::get_if<Refusal>(&result)) {
    refuse_configuration(request, chosen.name, configuration, refusal->reason);
  }
  return std::get<Planned<Args>>(std::move(result));
}

// The plan that a table's entry asks for. Nothing where it cannot be made; then the entry says why.
template <class Problem, class Args>
std::optional<Planned<Args>> plan_entry(std::span<const Implementation<Problem, Args>> list,
                                        const std::vector<Candidate>& candidates,
                                        const Problem& problem, const Machine& machine,
                                        TableEntry& entry) {
  if (!entry.refusal.empty()) return std::nullopt;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].name != entry.implementation) continue;
    entry.refusal = candidates[i].refusal;
    if (!entry.refusal.empty()) return std::nullopt;
    try {
      auto result = plan_configuration(list[i], problem, machine, entry.configuration);
      if (auto* planned = std::get_if<Planned<Args>>(&result)) return std::move(*planned);
      entry.refusal = std::get<Refusal>(result).reason;
    } catch (const Error& error) {
      // Libraries of others find out while they plan that they cannot run a problem.
      if (error.code() != ErrorCode::unsupported) throw;
      entry.refusal = error.what();
    }
    return std::nullopt;
  }
  entry.refusal = "no implementation has this name";
  return std::nullopt;
}

// The same run with IEEE arithmetic, whatever the caller's floating-point environment is: also what
// an implementation computes outside its parallel loops.
template <class Args>
std::function<void(const Args&, const RunContext&)> with_ieee_arithmetic(
    std::function<void(const Args&, const RunContext&)> run) {
  return [run = std::move(run)](const Args& args, const RunContext& context) {
    const IeeeArithmetic ieee;
    run(args, context);
  };
}

// The plan of a checked problem.
template <class Pass = ForwardPass, class Problem, class Args>
Plan<Problem, Pass> make_plan(std::span<const Implementation<Problem, Args>> list,
                              const Problem& problem, const Request& request,
                              const PlanOptions& options) {
  constexpr bool kBackward = std::is_same_v<Pass, BackwardPass>;
  log_call(request, kBackward);
  const Machine machine = this_machine(problem.device, options.threads);
  const std::vector<Candidate> all = candidates(list, problem, machine);
  std::optional<TableEntry> entry;
  std::optional<Planned<Args>> tuned;
  if (!request.is_forced() && options.configuration.empty()) {
    if (const auto table = process_table()) {
      entry = find_tuned(
          *table, tuning_key(request.op, request.problem, kBackward, problem.device, machine));
    }
    if (entry) tuned = plan_entry(list, all, problem, machine, *entry);
  }
  Choice choice = choose(request, all, entry ? &*entry : nullptr);
  const auto& chosen = list[choice.index];
  Planned<Args> decided =
      tuned ? *std::move(tuned)
            : plan_chosen(chosen, problem, machine, request, options.configuration);
  if (problem.device.type == DeviceType::cpu) {
    decided.run = with_ieee_arithmetic<Args>(std::move(decided.run));
  }
  Plan<Problem, Pass> plan;
  plan.problem = problem;
  plan.implementation = chosen.name;
  plan.configuration = std::move(decided.configuration);
  plan.why = std::move(choice.why);
  plan.workspace_bytes = decided.workspace_bytes;
  plan.state =
      std::make_shared<PlanState<Args>>(PlanState<Args>{std::move(decided.run), machine.threads});
  return plan;
}

// The refusal every Hopper implementation begins with.
inline std::string refuse_off_hopper(Device device, const Machine& machine) {
  if (device.type != DeviceType::cuda) return "the problem is on " + octet::name(device);
  if (machine.sm_major == 9 && machine.sm_minor == 0) return "";
  return text("needs compute capability 9.0 (Hopper), the device has ", machine.sm_major, ".",
              machine.sm_minor);
}

// Checks that plan_<operator>() made the plan.
inline void check_plan(std::string_view op, const void* state) {
  if (state == nullptr) {
    refuse_argument(op, ": the plan is empty: plan_", op, "() makes one from a problem");
  }
}

// Runs a plan on checked arguments.
template <class Problem, class Pass, class Args>
void run_plan(const Plan<Problem, Pass>& plan, const Args& args, const Workspace& workspace,
              void* stream) {
  const auto* state = static_cast<const PlanState<Args>*>(plan.state.get());
  state->run(args, {workspace, state->threads, stream});
}

}  // namespace octet
