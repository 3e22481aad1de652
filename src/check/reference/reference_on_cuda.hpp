// for_each_tile of operands on a CUDA device: the device multiplies a batch of tiles, the host's
// threads use them. Needs 48 MiB of device memory and as much on the host.
#pragma once

#include "check/reference/reference.hpp"

namespace octet {

// `rows`: those of a, all listed.
void for_each_tile_on_cuda(const ReferenceProduct& product, const std::vector<std::int64_t>& rows,
                           int threads, const std::function<void(const ReferenceTile&)>& use);

}  // namespace octet
