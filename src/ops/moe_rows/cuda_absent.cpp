// Stubs for builds without CUDA. Never called: such a build has no CUDA device.
#include "ops/moe_rows/sm90_steps.hpp"

namespace octet {
namespace {

[[noreturn]] void fail_without_cuda() {
  fail(ErrorCode::no_device, "moe_permute: this build of octet has no CUDA");
}

}  // namespace

void launch_sm90_copy_rows(const RowsCall&, const TensorView&, const TensorView&,
                           const SlotNumbers&) {
  fail_without_cuda();
}
void launch_sm90_sum_rows(const RowsCall&, const SumStep&, const SlotNumbers&) {
  fail_without_cuda();
}
void launch_sm90_scale_rows(const RowsCall&, const SpreadStep&, const DotStep&) {
  fail_without_cuda();
}

}  // namespace octet
