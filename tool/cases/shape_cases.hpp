// Shapes with a name: the cases of an operator that memory bounds, from cases/<operator>.csv with
// the columns name,shape,cpu_shape and further ones named as the operator's options. A row without
// a cpu_shape is none of the CPU's cases, one without a shape none of a GPU's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace octet::tool {

struct ShapeCase {
  std::string name;
  std::vector<std::int64_t> extents;
  std::map<std::string, std::string> options;  // "head-dim": "128"; those with a value
};

// "8x2048x4096" for the form "BxSxH". Throws UsageError that says what was wanted of `what`.
std::vector<std::int64_t> parse_extents(std::string_view what, const std::string& text,
                                        std::string_view form);
// Throws UsageError that names `source` and what was wanted.
std::vector<ShapeCase> parse_shape_cases(std::string_view text, std::string_view source,
                                         std::string_view form, bool on_gpu);
// Of the file the tool was built with.
std::vector<ShapeCase> embedded_shape_cases(std::string op, std::string_view form, bool on_gpu);

}  // namespace octet::tool
