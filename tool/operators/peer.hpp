// The peers of --baseline.
#pragma once

#include "tool/operators/layer.hpp"

#include <memory>
#include <string>
#include <vector>

namespace octet::tool {

// openblas: sgemm of the same products, on the CPU.
// cublaslt: the same layer, or with `prequantized` its products, with cuBLASLt multiplying.
std::vector<std::string> peer_names();

// Throws UsageError where the peer is of another device.
void check_peer_fits(const std::string& peer, const Layer& layer);
// Plans a peer of the layer. Throws octet::Error where it does not take it, UsageError where it is
// of another device.
std::unique_ptr<bench::Workload> make_peer(const std::string& peer, const Layer& layer,
                                           bool prequantized, bool accumulate_dw);

}  // namespace octet::tool
