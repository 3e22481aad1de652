// The cases of a benchmark: layers of real models and named shapes, read from CSV files, and
// suites, which are named lists of layers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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

// A list of layers, defined in cases/suites.yaml.
struct Suite {
  std::string name;
  std::string about;
  std::string source;               // a CSV file of cases/
  std::vector<std::string> models;  // empty: all
  std::vector<std::int64_t> mbs;    // empty: all
  std::optional<std::int64_t> tokens;
};

// Throws UsageError that names `source` and what was wanted.
std::vector<Suite> parse_suites(const std::string& text, std::string_view source);

// The cases of a suite, selected from the text of its source.
std::vector<LayerCase> suite_cases(const Suite& suite, std::string_view source_text);

// The cases of a suite by name, or of a CSV file by path. Throws UsageError that lists the known
// suites.
std::vector<LayerCase> load_suite(const std::string& name_or_path);

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
