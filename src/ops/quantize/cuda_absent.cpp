// Stubs for builds without CUDA. Never called: such a build has no CUDA device.
#include "ops/quantize/problem.hpp"

namespace octet {

void launch_sm90_tile(const QuantizeProblem&, const QuantizeArgs&, const RunContext&) {
  fail(ErrorCode::no_device, "quantize: this build of octet has no CUDA");
}

}  // namespace octet
