#include "tool/operators/peer.hpp"

namespace octet::tool {

std::vector<std::string> peer_names() { return {"openblas", "cublaslt"}; }

void check_peer_fits(const std::string& peer, const Layer& layer) {
  const bool on_cpu = layer.device().type == DeviceType::cpu;
  if (on_cpu != (peer == "openblas")) {
    refuse_usage("--baseline {} runs on {}, the layer on {}; give --device or another baseline",
                 peer, on_cpu ? "a GPU" : "the CPU", name(layer.device()));
  }
}

std::unique_ptr<bench::Workload> make_peer(const std::string& peer, const Layer& layer,
                                           bool prequantized, bool accumulate_dw) {
  check_peer_fits(peer, layer);
  if (layer.device().type == DeviceType::cpu) {
    return bench::make_openblas_products(layer.shape(), layer.input(), accumulate_dw, layer.data);
  }
  Layer by_peer = layer;
  by_peer.data.gemm_backend = peer;
  return make_workload(by_peer, prequantized);
}

}  // namespace octet::tool
