// Layers of real models, from CSV with the columns test_id,model,op,mbs,M,N,K in any order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace octet::tool {

struct LayerCase {
  std::string test_id;
  std::string model;     // "Llama-2-7B"; empty for a shape from the command line
  std::string op;        // "attn_qkv"
  std::int64_t mbs = 0;  // sequences per micro-batch; 0: does not apply
  std::int64_t m = 0;    // tokens
  std::int64_t n = 0;    // output features
  std::int64_t k = 0;    // input features

  // "Llama-2-7B attn_qkv"
  std::string name() const;
};

// Throws UsageError that names `source`, the row, the column and what was wanted there.
std::vector<LayerCase> parse_cases(std::string_view text, std::string_view source);

// A whole number of decimal digits in [least, most]; false for anything else.
bool parse_whole(std::string_view text, std::int64_t least, std::int64_t most, std::int64_t& value);

// "MxNxK" or "RxC": as many factors as `factors` has, each at least 1.
bool parse_shape(std::string_view text, std::int64_t* factors, int count);

// Names are compared without regard to case.
bool same_name(std::string_view a, std::string_view b);

// The cases whose model and mbs are listed; an empty list takes all. Throws UsageError that lists
// what there is where a name is in no case.
std::vector<LayerCase> select_cases(const std::vector<LayerCase>& cases,
                                    const std::vector<std::string>& models,
                                    const std::vector<std::int64_t>& mbs);

}  // namespace octet::tool
