#include "ops/gemm/sm90/config.hpp"

#include "core/message.hpp"

namespace octet {

std::string name(const Sm90GemmConfig& c) {
  const char* blocks = c.promotion == Promotion::one_by_one ? "1x128.1x128" : "1x128.128x128";
  return text(c.tile_m, "x", c.tile_n, "x", c.stages, " ", blocks, " ", name(c.a), ".", name(c.b),
              c.columns == Columns::paired ? " paired" : "", c.cluster == 2 ? " cluster" : "");
}

std::optional<Sm90GemmConfig> parse_sm90_gemm_config(std::string_view text) {
  for (const Sm90GemmConfig& config : kSm90GemmConfigs) {
    if (name(config) == text) return config;
  }
  return std::nullopt;
}

}  // namespace octet
