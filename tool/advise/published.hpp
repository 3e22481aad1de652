// What the published results say of a layer: the rows of results/ that are built into the tool.
#pragma once

#include "tool/advise/precisions.hpp"

#include <optional>
#include <string>
#include <vector>

namespace octet::tool {

// A layer further away than this, as the product of the ratios of its extents, says too little.
inline constexpr double kFarthestLayer = 4;

struct PublishedLayer {
  LayerCost cost;              // of the asked shape, at the rates of the published one
  std::string layer;           // "Llama-3.1-8B attn_qkv 8192x6144x4096"
  bool other_kernels = false;  // it was measured with other kernels than this build has
};

// The names of the GPUs that have rows.
std::vector<std::string> published_gpus();

// The row of this precision and GPU with the nearest shape that passed, nullopt if there is none
// within kFarthestLayer.
std::optional<PublishedLayer> published_layer(const Precision& precision, const LayerShape& shape,
                                              const std::string& gpu);

}  // namespace octet::tool
