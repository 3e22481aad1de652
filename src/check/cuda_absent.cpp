// The gates in a build without CUDA.
#include "check/cuda_gates.hpp"
#include "core/message.hpp"

namespace octet::cuda {
namespace {

[[noreturn]] void refuse() { fail(ErrorCode::no_device, "check: this build of octet has no CUDA"); }

}  // namespace

void fill_random(const TensorView&, Distribution, RandomStream) { refuse(); }
void multiply_tiles(const TileBatch&) { refuse(); }
void fill(const Rectangle&, unsigned char) { refuse(); }
std::int64_t count_equal(const Rectangle&, std::uint32_t, int) { refuse(); }
std::int64_t count_not_finite(const Rectangle&) { refuse(); }
OutputDifferences compare_whole_outputs(const TensorView&, const TensorView&) { refuse(); }
double largest_finite(const TensorView&) { refuse(); }
void copy(const Rectangle&, const Rectangle&) { refuse(); }
void copy_matrix(const TensorView&, const TensorView&) { refuse(); }
void gather_rows(const TensorView&, const std::int64_t*, const TensorView&) { refuse(); }

}  // namespace octet::cuda
