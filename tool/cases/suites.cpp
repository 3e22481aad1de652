#include "tool/cases/suites.hpp"

#include "tool/cases/yaml_map.hpp"
#include "tool/options/parse.hpp"
#include "tool/results/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace octet::tool {
namespace {

Suite parse_suite(const std::string& name, const YAML::Node& node, std::string_view source) {
  Suite suite;
  suite.name = name;
  YamlKeys keys;
  const auto one = [&](const char* key, auto& field, auto read) {
    keys[key] = [=, &field](const YAML::Node& value) { field = read(value, source, key); };
  };
  const auto list = [&](const char* key, auto& field, auto read) {
    keys[key] = [=, &field](const YAML::Node& values) {
      field = yaml_list(values, source, key,
                        [&](const YAML::Node& value) { return read(value, source, key); });
    };
  };
  const auto whole = [](const YAML::Node& value, std::string_view file, std::string_view key) {
    return yaml_whole(value, file, key);
  };
  one("about", suite.about, yaml_text);
  list("models", suite.models, yaml_text);
  one("from", suite.from, yaml_text);
  list("mbs", suite.mbs, whole);
  one("tokens", suite.tokens, whole);
  list("expert_parallel", suite.expert_parallel, whole);
  list("tokens_per_group", suite.tokens_per_group, whole);
  list("batch", suite.batch, whole);
  list("causal", suite.causal, yaml_bool);
  read_map(node, source, "suite " + name, keys);
  return suite;
}

std::string names_of(const std::vector<Suite>& suites) {
  std::vector<std::string> names;
  names.reserve(suites.size());
  for (const Suite& suite : suites) names.push_back(suite.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

const Suite* find_suite(const std::vector<Suite>& suites, const std::string& name) {
  const auto found = std::find_if(suites.begin(), suites.end(),
                                  [&](const Suite& suite) { return same_name(suite.name, name); });
  return found == suites.end() ? nullptr : &*found;
}

const Suite& known_suite(const std::vector<Suite>& suites, const std::string& name) {
  const Suite* suite = find_suite(suites, name);
  if (suite == nullptr) {
    refuse_usage("no suite is called \"{}\"; there are: {}", name, names_of(suites));
  }
  return *suite;
}

template <class Case>
void append(std::vector<Case>& cases, std::vector<Case> more) {
  cases.insert(cases.end(), more.begin(), more.end());
}

bool looks_like_a_path(const std::string& text) {
  return text.find('/') != std::string::npos || text.find('.') != std::string::npos;
}

const Suites& embedded_suites() {
  static const Suites suites =
      parse_suites(std::string(embedded_case_file("suites.yaml")), "suites.yaml");
  return suites;
}

const std::vector<Model>& embedded_models() {
  static const std::vector<Model> models =
      parse_models(std::string(embedded_case_file("models.yaml")), "models.yaml");
  return models;
}

}  // namespace

Suites parse_suites(const std::string& text, std::string_view source) {
  Suites suites;
  const auto section = [&](const char* title, std::vector<Suite>& list) {
    return [title, source, &list](const YAML::Node& node) {
      for_each_key(node, source, title,
                   [&](const std::string& name, const YAML::Node& key, const YAML::Node& value) {
                     Suite suite = parse_suite(name, value, source);
                     if (!suite.from.empty() && find_suite(list, suite.from) == nullptr) {
                       refuse_at(key, source, "suite {} is from {}, which is not above it", name,
                                 suite.from);
                     }
                     list.push_back(std::move(suite));
                   });
    };
  };
  read_map(load_yaml(text, source), source, "the file",
           {{"layers", section("layers", suites.layers)},
            {"grouped", section("grouped", suites.grouped)},
            {"attention", section("attention", suites.attention)},
            {"random", [&](const YAML::Node& node) {
               read_map(node, source, "random",
                        {{"models", [&](const YAML::Node& names) {
                            suites.random_models =
                                yaml_list(names, source, "models", [&](const YAML::Node& name) {
                                  return yaml_text(name, source, "models");
                                });
                          }}});
             }}});
  return suites;
}

std::vector<LayerCase> layer_suite(const Suites& suites, const std::string& name,
                                   const std::vector<Model>& models) {
  const Suite& suite = known_suite(suites.layers, name);
  std::vector<LayerCase> cases;
  if (suite.from.empty()) {
    for (const std::string& model_name : suite.models) {
      const Model& model = find_model(models, model_name);
      if (model.intermediate == 0) refuse_usage("suite {}: {} has no MLP", name, model.name);
      append(cases, layer_cases(model, suite.mbs));
    }
    number_cases(cases);
  } else {
    cases = select_cases(layer_suite(suites, suite.from, models), suite.models, suite.mbs);
  }
  for (LayerCase& layer : cases) layer.m = suite.tokens.value_or(layer.m);
  return cases;
}

std::vector<GroupedCase> grouped_suite(const Suites& suites, const std::string& name,
                                       const std::vector<Model>& models) {
  const Suite& suite = known_suite(suites.grouped, name);
  std::vector<GroupedCase> cases;
  for (const std::string& model_name : suite.models) {
    const Model& model = find_model(models, model_name);
    for (const std::int64_t ranks : suite.expert_parallel) {
      if (model.experts % ranks != 0) continue;
      append(cases, grouped_cases(model, {ranks}, suite.tokens_per_group));
    }
  }
  number_cases(cases);
  return cases;
}

std::vector<AttentionCase> attention_suite(const Suites& suites, const std::string& name,
                                           const std::vector<Model>& models) {
  const Suite& suite = known_suite(suites.attention, name);
  std::vector<AttentionCase> cases;
  for (const bool causal : suite.causal) {
    using Shape = std::array<std::int64_t, 5>;
    std::set<Shape> seen;
    for (const std::string& model_name : suite.models) {
      const Model& model = find_model(models, model_name);
      const Shape shape{model.heads, model.kv_heads, model.head_dim, model.v_head_dim,
                        model.sequence};
      if (seen.insert(shape).second) append(cases, attention_cases(model, suite.batch, causal));
    }
  }
  number_cases(cases);
  return cases;
}

std::vector<std::int64_t> random_sizes(const Suites& suites, const std::vector<Model>& models) {
  std::set<std::int64_t> sizes;
  for (const std::string& name : suites.random_models) {
    const Model& model = find_model(models, name);
    sizes.insert({model.hidden, model.intermediate, model.expert_intermediate});
  }
  sizes.erase(0);  // a model has an MLP or experts
  return {sizes.begin(), sizes.end()};
}

std::vector<LayerCase> load_suite(const std::string& name_or_path) {
  const Suites& suites = embedded_suites();
  if (find_suite(suites.layers, name_or_path) != nullptr) {
    return layer_suite(suites, name_or_path, embedded_models());
  }
  if (!looks_like_a_path(name_or_path)) {
    refuse_usage("no suite is called \"{}\"; there are: {}; or give a CSV file of cases",
                 name_or_path, names_of(suites.layers));
  }
  return parse_cases(read_text_file("--suite " + name_or_path, name_or_path,
                                    "a CSV file of cases or the name of a suite"),
                     name_or_path);
}

std::vector<GroupedCase> load_grouped_suite(const std::string& name) {
  return grouped_suite(embedded_suites(), name, embedded_models());
}

std::vector<AttentionCase> load_attention_suite(const std::string& name) {
  return attention_suite(embedded_suites(), name, embedded_models());
}

std::vector<std::int64_t> load_random_sizes() {
  return random_sizes(embedded_suites(), embedded_models());
}

const Model& load_model(const std::string& name) { return find_model(embedded_models(), name); }

}  // namespace octet::tool
