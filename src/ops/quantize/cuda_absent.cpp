// Stubs for builds without CUDA. Never called: such a build has no CUDA device.
#include "ops/quantize/launches.hpp"

namespace octet {

namespace {

[[noreturn]] void refuse() {
  fail(ErrorCode::no_device, "quantize: this build of octet has no CUDA");
}

}  // namespace

void launch_sm90_tile(const QuantizeProblem&, const QuantizeArgs&, const RunContext&) { refuse(); }
void launch_sm90_batch(const QuantizeProblem&, const QuantizeArgs&, const RunContext&) { refuse(); }
void launch_sm90_lines(const QuantizeProblem&, const QuantizeArgs&, const RunContext&) { refuse(); }
void launch_sm90_rows(const QuantizeProblem&, const QuantizeArgs&, const RunContext&) { refuse(); }
void launch_sm90_mx(const QuantizeProblem&, const QuantizeArgs&, const RunContext&) { refuse(); }
void launch_sm90_groups(const QuantizeProblem&, const QuantizeArgs&, const RunContext&) {
  refuse();
}

}  // namespace octet
