// FP8 outputs in two steps, on any device: the plain operator into the workspace, then the
// quantiser. The fallback if nothing is fused, and what fused implementations are compared with.
//
// An operator provides a struct of static members:
//
//   QuantizeProblem cast(const Problem&)               what is quantised
//   Args into(const Args&, const TensorView& output)   the same call, written to `output` instead
//   std::span<const Implementation<Problem, Args>> list()
//
// where output is [rows, cols] of cast(). Args has the copies as `fp8`, and the table of groups, if
// the operator has them, as `table`.
#pragma once

#include "core/workspace.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/quantize/problem.hpp"

#include <algorithm>

namespace octet {

// The first of a list that takes the problem; null if none does.
template <class Problem, class Args>
const Implementation<Problem, Args>* first_that_takes(
    std::span<const Implementation<Problem, Args>> list, const Problem& problem,
    const Machine& machine) {
  for (const auto& entry : list) {
    if (entry.refuse(problem, machine).empty()) return &entry;
  }
  return nullptr;
}

template <class Problem>
Problem without_fp8(Problem problem) {
  problem.fp8.reset();
  return problem;
}

template <class Problem, class Args>
bool has_name(std::span<const Implementation<Problem, Args>> list, std::string_view name) {
  return std::any_of(list.begin(), list.end(),
                     [&](const auto& entry) { return entry.name == name; });
}

// A forced name, of OCTET_RMS_NORM_BACKEND or of an argument of octet check and bench, stands for forward and
// backward. What it is for backward: none where only forward has an implementation of it, as it has for
// FP8 outputs that backward does not write.
template <class Problem, class ForwardArgs, class BackwardArgs>
std::string forced_for_backward(const std::string& name,
                                std::span<const Implementation<Problem, ForwardArgs>> forward,
                                std::span<const Implementation<Problem, BackwardArgs>> backward) {
  return has_name(forward, name) && !has_name(backward, name) ? "" : name;
}

// The implementation that a check runs for the output that FP8 outputs are compared with: the one that
// unfused would run. A forced one may write FP8 only.
template <class Problem, class Args>
std::string plain_backend(std::span<const Implementation<Problem, Args>> list,
                          const Problem& problem, int threads) {
  const auto* first =
      first_that_takes(list, without_fp8(problem), this_machine(problem.device, threads));
  return first != nullptr ? first->name : "";
}

template <class Steps, class Problem, class Args>
struct Unfused {
  static std::string refuse(const Problem& problem, const Machine& machine) {
    if (!problem.fp8) return "there is nothing to fuse: no fp8 output is wanted";
    if (first_that_takes(Steps::list(), without_fp8(problem), machine) == nullptr) {
      return "no implementation takes the operator without fp8";
    }
    const QuantizeProblem cast = Steps::cast(problem);
    return first_that_takes(quantize_implementations(), cast, machine) == nullptr
               ? "no implementation takes " + describe(cast)
               : "";
  }

  static Planned<Args> plan(const Problem& problem, const Machine& machine) {
    const Problem plain = without_fp8(problem);
    const QuantizeProblem cast = Steps::cast(problem);
    const auto* first = first_that_takes(Steps::list(), plain, machine);
    const auto* second = first_that_takes(quantize_implementations(), cast, machine);
    Planned<Args> operate = first->plan(plain, machine);
    Planned<QuantizeArgs> quantize = second->plan(cast, machine);
    const auto output_bytes =
        static_cast<std::size_t>(cast.rows * cast.cols * size_bytes(cast.input_dtype));
    Planned<Args> both;
    both.configuration = text(first->name, " (", operate.configuration, ") then quantize ",
                              second->name, " (", quantize.configuration, ")");
    both.workspace_bytes =
        aligned_bytes(output_bytes) + std::max(operate.workspace_bytes, quantize.workspace_bytes);
    both.run = [cast, output_bytes, operate = std::move(operate.run),
                quantize = std::move(quantize.run)](const Args& args, const RunContext& context) {
      WorkspaceCarver workspace(context.workspace);
      const TensorView output = make_view(workspace.take(output_bytes), cast.input_dtype,
                                          {cast.rows, cast.cols}, cast.device);
      const RunContext rest{workspace.rest(), context.threads, context.stream};
      operate(Steps::into(args, output), rest);
      QuantizeArgs copies{output, args.fp8.out, args.fp8.transposed};
      if constexpr (requires { args.table; }) copies.table = args.table;
      quantize(copies, rest);
    };
    return both;
  }

  static constexpr Implementation<Problem, Args> implementation() {
    return {"unfused", refuse, plan};
  }
};

}  // namespace octet
