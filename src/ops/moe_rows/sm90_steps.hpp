// The steps of moe_permute and moe_unpermute on Hopper, and the implementation of a pass, which
// runs one of them.
#pragma once

#include "ops/moe_rows/rows.hpp"

namespace octet {

// What the steps of a call have in common. Arguments are checked already.
struct RowsCall {
  std::int64_t tokens, top_k, rows, cols;
  GroupTail tail;
  Device device;
  TensorView row_of;
  TensorView source;  // empty where a step does not need it
  void* stream;

  template <class Problem>
  RowsCall(const Problem& problem, const TensorView& row_of_, const TensorView& source_,
           const RunContext& context)
      : tokens(problem.tokens),
        top_k(problem.top_k),
        rows(problem.rows),
        cols(problem.cols),
        tail(problem.tail),
        device(problem.device),
        row_of(row_of_),
        source(source_),
        stream(context.stream) {}
};

// One number per slot or row; empty: none.
struct SlotNumbers {
  TensorView slots;  // [tokens, top_k], f32
  TensorView rows;   // [rows], f32
};

// The launchers queue one kernel. They throw Error if CUDA reports one.
//
// grouped[r, :] = from[token, :], and numbers.rows[r] = numbers.slots[slot].
void launch_sm90_copy_rows(const RowsCall& call, const TensorView& from, const TensorView& grouped,
                           const SlotNumbers& numbers);
// A SumStep, and numbers.slots[t, k] = numbers.rows[row], or 0.
void launch_sm90_sum_rows(const RowsCall& call, const SumStep& step, const SlotNumbers& numbers);
// A SpreadStep with weights, and a DotStep of the same dout.
void launch_sm90_scale_rows(const RowsCall& call, const SpreadStep& spread, const DotStep& dot);

// Why the kernels do not take a problem of these extents; empty: they do.
std::string refuse_sm90_rows(std::int64_t tokens, std::int64_t top_k, std::int64_t rows,
                             std::int64_t cols);

// The implementation of a pass, for which its operator has launch_sm90(problem, args, context).
template <class Problem, class Args>
void run_sm90(const Problem& problem, const Args& args, const RunContext& context) {
  launch_sm90(problem, args, context);
}
template <class Problem, class Args>
constexpr Implementation<Problem, Args> cuda_sm90_vectors() {
  return {"cuda_sm90_vectors",
          [](const Problem& problem, const Machine& machine) {
            if (std::string refusal = refuse_off_hopper(problem.device, machine);
                !refusal.empty()) {
              return refusal;
            }
            return refuse_sm90_rows(problem.tokens, problem.top_k, problem.rows, problem.cols);
          },
          [](const Problem& problem, const Machine&) {
            return planned<Args>(problem, "eights", 0, run_sm90<Problem, Args>);
          }};
}

}  // namespace octet
