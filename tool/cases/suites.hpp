// Suites: named lists of cases, each a sweep over models. cases/suites.yaml defines them.
#pragma once

#include "tool/cases/cases.hpp"
#include "tool/cases/models.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace octet::tool {

struct Suite {
  std::string name;
  std::string about;
  std::vector<std::string> models;
  // Of layers.
  std::string from;  // the suite it selects from; empty: its cases are derived from the models
  std::vector<std::int64_t> mbs;
  std::optional<std::int64_t> tokens;  // replaces M
  // Of experts.
  std::vector<std::int64_t> expert_parallel;
  std::vector<std::int64_t> tokens_per_group;
  // Of attention.
  std::vector<std::int64_t> batch;
  std::vector<bool> causal;
};

struct Suites {
  std::vector<Suite> layers;
  std::vector<Suite> grouped;
  std::vector<Suite> attention;
  std::vector<std::string> random_models;  // whose sizes layers drawn at random have
};

// Throws UsageError that names `source`, the place and what was wanted.
Suites parse_suites(const std::string& text, std::string_view source);

// The numbered cases of the suite called `name`. They throw UsageError that lists the known suites,
// or the known models.
std::vector<LayerCase> layer_suite(const Suites& suites, const std::string& name,
                                   const std::vector<Model>& models);
std::vector<GroupedCase> grouped_suite(const Suites& suites, const std::string& name,
                                       const std::vector<Model>& models);
std::vector<AttentionCase> attention_suite(const Suites& suites, const std::string& name,
                                           const std::vector<Model>& models);
// The hidden and intermediate sizes of random_models, those of experts included: each once, ascending.
std::vector<std::int64_t> random_sizes(const Suites& suites, const std::vector<Model>& models);

// The same from the files that were embedded when the tool was built. A suite of layers may also be
// the path of a CSV file.
std::vector<LayerCase> load_suite(const std::string& name_or_path);
std::vector<GroupedCase> load_grouped_suite(const std::string& name);
std::vector<AttentionCase> load_attention_suite(const std::string& name);
std::vector<std::int64_t> load_random_sizes();
// A model of models.yaml.
const Model& load_model(const std::string& name);

}  // namespace octet::tool
