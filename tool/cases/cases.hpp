// The cases of a benchmark: linear layers, experts and attention of models, and named shapes. Layers
// and shapes are read from CSV files as well; models.hpp and suites.hpp derive cases from models.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace octet::tool {

// A row with the columns test_id,model,op,mbs,M,N,K in any order.
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

// The cases whose model and mbs are listed; an empty list selects all. Throws UsageError that lists
// the known names if a name matches no case.
std::vector<LayerCase> select_cases(const std::vector<LayerCase>& cases,
                                    const std::vector<std::string>& models,
                                    const std::vector<std::int64_t>& mbs);

// A product of the experts of one rank: `groups` products of n x k weights, over the tokens that
// were routed to them.
struct GroupedCase {
  std::string test_id;
  std::string model;                  // "DeepSeek-V3"
  std::string op;                     // "GateUP", "Down"
  std::int64_t experts = 0;           // of a layer of the model
  std::int64_t expert_parallel = 0;   // ranks that share them
  std::int64_t groups = 0;            // experts of one rank
  std::int64_t tokens_per_group = 0;  // in the mean
  std::int64_t rows = 0;              // tokens of all groups
  std::int64_t n = 0;                 // output features
  std::int64_t k = 0;                 // input features
  std::int64_t top_k = 0;             // experts that a token takes
};

struct AttentionCase {
  std::string test_id;
  std::string model;
  std::int64_t batch = 0;  // sequences
  bool causal = false;
  std::int64_t heads_q = 0;
  std::int64_t heads_kv = 0;
  std::int64_t head_dim_qk = 0;
  std::int64_t head_dim_v = 0;
  std::int64_t seq_q = 0;
  std::int64_t seq_kv = 0;
};

// Numbers the cases from `first` on.
template <class Case>
void number_cases(std::vector<Case>& cases, std::size_t first = 1) {
  for (Case& one : cases) one.test_id = std::to_string(first++);
}

// A case of a memory-bound operator, from cases/<operator>.csv with the columns
// name,shape,cpu_shape and further ones named like the operator's options. A row without a
// cpu_shape is skipped on the CPU, one without a shape is skipped on a GPU.
struct ShapeCase {
  std::string name;
  std::vector<std::int64_t> extents;
  std::map<std::string, std::string> options;  // "head-dim": "128"; only those with a value
};

// Throws UsageError that names `source` and what was wanted.
std::vector<ShapeCase> parse_shape_cases(std::string_view text, std::string_view source,
                                         std::string_view form, bool on_gpu);
// The cases of the file that was embedded when the tool was built.
std::vector<ShapeCase> embedded_shape_cases(std::string op, std::string_view form, bool on_gpu);

// The text of a file of cases/ as it was when the tool was built; empty if there is no such file.
std::string_view embedded_case_file(std::string_view name);

}  // namespace octet::tool
