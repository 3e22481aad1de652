// A step of adamw on a CUDA device, with host tensors.
#pragma once

#include "ops/adamw/case.hpp"
#include "support/on_cuda.hpp"

namespace octet::testing {

// Moves the first element of a view, and adds elements at its end.
inline TensorView moved(TensorView view, std::int64_t elements, std::int64_t longer) {
  view.data = static_cast<char*>(view.data) + elements * size_bytes(view.dtype);
  view.shape[0] += longer;
  return view;
}

// Runs the case on the device; `shift` elements move every tensor off its 16-byte boundary. The
// elements around every tensor travel there and back, so that a write beyond it shows.
inline void run_on_cuda(const AdamWCase& one, std::int64_t shift = 0, const char* backend = "",
                        const AdamWCopies* copies = nullptr) {
  AdamWProblem problem = one.problem;
  problem.device = OnCuda::kDevice;
  OnCuda device;
  AdamWArgs args = one.args;
  const std::int64_t around = shift + AdamWCase::kGuard;
  for (TensorView* view : {&args.w, &args.g, &args.m, &args.v, &args.master}) {
    if (view->data == nullptr) continue;
    *view = moved(device.copy_in(moved(*view, -shift, around)), shift, -around);
  }
  args.grad_scale = device.copy_in(args.grad_scale);
  if (copies != nullptr) {
    args.fp8 = {device.copy_in(copies->out.view()), device.copy_in(copies->transposed.view())};
  }
  const AdamWPlan plan = plan_adamw(problem, {backend});
  const Buffer workspace(plan.workspace_bytes, OnCuda::kDevice);
  run(plan, args, {workspace.data(), workspace.bytes()});
  cuda::synchronize(0);
  for (const auto& [there, here] : {std::pair{args.w, one.args.w},
                                    {args.g, one.args.g},
                                    {args.m, one.args.m},
                                    {args.v, one.args.v},
                                    {args.master, one.args.master}}) {
    if (here.data == nullptr) continue;
    OnCuda::copy_out(moved(there, -shift, around), moved(here, -shift, around));
  }
  if (copies != nullptr) {
    OnCuda::copy_out(args.fp8.out, copies->out.view());
    OnCuda::copy_out(args.fp8.transposed, copies->transposed.view());
  }
}

}  // namespace octet::testing
