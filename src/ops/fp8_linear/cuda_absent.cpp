// A stub for builds without CUDA. Never called: such a build has no CUDA device.
#include "core/message.hpp"
#include "ops/fp8_linear/bias_gradient.hpp"

namespace octet {

void launch_bias_gradient(const BiasGradientArgs&, void*) {
  fail(ErrorCode::no_device, "fp8_linear: this build of octet has no CUDA");
}

}  // namespace octet
