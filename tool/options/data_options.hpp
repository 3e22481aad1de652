// What every operator is asked about its data: --threads, --seed, --distribution.
#pragma once

#include "tool/options/options.hpp"

#include "check/data/random.hpp"

namespace octet::tool {

inline const std::vector<Dtype> kFloats{Dtype::bf16, Dtype::f16, Dtype::f32};
inline const std::vector<Dtype> kFp8{Dtype::e4m3, Dtype::e5m2};

void add_data_options(CLI::App& app, std::int64_t& threads, std::int64_t& seed,
                      std::string& distribution);
Distribution parse_distribution(const std::string& name);

}  // namespace octet::tool
