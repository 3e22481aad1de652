#include "tool/cases/models.hpp"

#include "tool/cases/yaml_map.hpp"
#include "tool/options/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace octet::tool {
namespace {

struct NumberKey {
  const char* name;
  std::int64_t Model::*field;
};
constexpr NumberKey kKeys[] = {
    {"hidden", &Model::hidden},
    {"intermediate", &Model::intermediate},
    {"heads", &Model::heads},
    {"kv_heads", &Model::kv_heads},
    {"head_dim", &Model::head_dim},
    {"v_head_dim", &Model::v_head_dim},
    {"experts", &Model::experts},
    {"top_k", &Model::top_k},
    {"expert_intermediate", &Model::expert_intermediate},
    {"sequence", &Model::sequence},
};

Model parse_model(const std::string& name, const YAML::Node& node, std::string_view source) {
  Model model;
  model.name = name;
  YamlKeys keys;
  for (const NumberKey& key : kKeys) {
    keys[key.name] = [&model, &key, source](const YAML::Node& value) {
      model.*key.field = yaml_whole(value, source, key.name, kMostOfAModel);
    };
  }
  read_map(node, source, "model " + name, keys);
  if (model.v_head_dim == 0) model.v_head_dim = model.head_dim;
  const auto need = [&](std::initializer_list<const char*> wanted) {
    for (const NumberKey& key : kKeys) {
      const bool is_wanted =
          std::find(wanted.begin(), wanted.end(), std::string_view(key.name)) != wanted.end();
      if (is_wanted && model.*key.field == 0) {
        refuse_at(node, source, "model {} has no {}", name, key.name);
      }
    }
  };
  need({"hidden"});
  if (model.heads > 0) need({"kv_heads", "head_dim", "sequence"});
  if (model.experts > 0) need({"top_k", "expert_intermediate"});
  return model;
}

struct Linear {
  const char* op;
  std::int64_t n;  // output features
  std::int64_t k;  // input features
};

std::vector<Linear> attention_projections(const Model& model) {
  const std::int64_t q = model.heads * model.head_dim;
  const std::int64_t v = model.heads * model.v_head_dim;
  std::vector<Linear> layers;
  if (!model.latent) {
    layers.push_back(
        {"attn_qkv", q + model.kv_heads * (model.head_dim + model.v_head_dim), model.hidden});
  } else {
    const auto [q_rank, kv_rank, rope_dim] = *model.latent;
    if (q_rank == 0) {
      layers.push_back({"attn_q", q, model.hidden});
    } else {
      layers.push_back({"attn_q_a", q_rank, model.hidden});
      layers.push_back({"attn_q_b", q, q_rank});
    }
    layers.push_back({"attn_kv_a", kv_rank + rope_dim, model.hidden});
    layers.push_back({"attn_kv_b", q - model.heads * rope_dim + v, kv_rank});
  }
  layers.push_back({"attn_out", model.hidden, v});
  return layers;
}

std::vector<Linear> linear_layers(const Model& model) {
  std::vector<Linear> layers = attention_projections(model);
  if (model.intermediate > 0) {
    layers.push_back({"mlp_gate_up", 2 * model.intermediate, model.hidden});
    layers.push_back({"mlp_down", model.hidden, model.intermediate});
  }
  if (model.shared_intermediate > 0) {
    layers.push_back({"shared_gate_up", 2 * model.shared_intermediate, model.hidden});
    layers.push_back({"shared_down", model.hidden, model.shared_intermediate});
  }
  return layers;
}

std::int64_t product(std::int64_t a, std::int64_t b, const char* what) {
  if (a > std::numeric_limits<std::int64_t>::max() / b) {
    refuse_usage("{} {} of {} tokens have more tokens than 64 bits hold", a, what, b);
  }
  return a * b;
}

}  // namespace

std::vector<Model> parse_models(const std::string& text, std::string_view source) {
  std::vector<Model> models;
  const auto add_model = [&](const std::string& name, const YAML::Node& /*key*/,
                             const YAML::Node& value) {
    models.push_back(parse_model(name, value, source));
  };
  read_map(load_yaml(text, source), source, "the file",
           {{"models",
             [&](const YAML::Node& node) { for_each_key(node, source, "models", add_model); }}});
  return models;
}

const Model& find_model(const std::vector<Model>& models, const std::string& name) {
  std::vector<std::string> names;
  for (const Model& model : models) {
    if (same_name(model.name, name)) return model;
    names.push_back(model.name);
  }
  refuse_usage("no model is called \"{}\"; there are: {}", name, fmt::join(names, ", "));
}

std::int64_t micro_batch_tokens(std::int64_t mbs, std::int64_t sequence) {
  return product(mbs, sequence, "sequences");
}

std::vector<LayerCase> layer_cases(const Model& model, const std::vector<std::int64_t>& mbs) {
  if (model.heads == 0) refuse_usage("{} has no numbers of its attention", model.name);
  std::vector<LayerCase> cases;
  for (const std::int64_t size : mbs) {
    for (const Linear& layer : linear_layers(model)) {
      cases.push_back({"", model.name, layer.op, size, micro_batch_tokens(size, model.sequence),
                       layer.n, layer.k});
    }
  }
  return cases;
}

std::vector<GroupedCase> grouped_cases(const Model& model,
                                       const std::vector<std::int64_t>& expert_parallel,
                                       const std::vector<std::int64_t>& tokens_per_group) {
  if (model.experts == 0) refuse_usage("{} has no experts", model.name);
  std::vector<GroupedCase> cases;
  for (const std::int64_t ranks : expert_parallel) {
    if (model.experts % ranks != 0) {
      refuse_usage("expert parallelism must divide the {} experts of {}, got {}", model.experts,
                   model.name, ranks);
    }
    const std::int64_t groups = model.experts / ranks;
    for (const std::int64_t tokens : tokens_per_group) {
      const std::int64_t rows = product(groups, tokens, "groups");
      const auto add = [&](const Linear& layer) {
        cases.push_back({"", model.name, layer.op, model.experts, ranks, groups, tokens, rows,
                         layer.n, layer.k, model.top_k});
      };
      add({"GateUP", 2 * model.expert_intermediate, model.hidden});
      add({"Down", model.hidden, model.expert_intermediate});
    }
  }
  return cases;
}

std::vector<AttentionCase> attention_cases(const Model& model,
                                           const std::vector<std::int64_t>& batches, bool causal) {
  if (model.heads == 0) refuse_usage("{} has no numbers of its attention", model.name);
  std::vector<AttentionCase> cases;
  cases.reserve(batches.size());
  for (const std::int64_t batch : batches) {
    cases.push_back({"", model.name, batch, causal, model.heads, model.kv_heads, model.head_dim,
                     model.v_head_dim, model.sequence, model.sequence});
  }
  return cases;
}

}  // namespace octet::tool
