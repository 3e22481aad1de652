// Stubs for builds without CUDA. Never called: such a build has no CUDA device.
#include "ops/dequantize/problem.hpp"

namespace octet {

void launch_sm90_dequantize(const DequantizeProblem&, const DequantizeArgs&, const RunContext&) {
  fail(ErrorCode::no_device, "dequantize: this build of octet has no CUDA");
}

}  // namespace octet
