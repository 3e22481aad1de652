// Models from the config.json that Hugging Face keeps beside their weights.
#include "tool/cases/models.hpp"
#include "tool/options/parse.hpp"
#include "tool/results/files.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <initializer_list>

namespace octet::tool {
namespace {

using Json = nlohmann::json;

// "x.json:3:14", where a parser stopped after so many bytes.
std::string place(std::string_view text, std::size_t bytes, std::string_view source) {
  const std::string_view read = text.substr(0, std::max<std::size_t>(bytes, 1) - 1);
  const auto line = std::count(read.begin(), read.end(), '\n') + 1;
  const std::size_t column = read.size() - (read.rfind('\n') + 1) + 1;  // npos + 1 is 0
  return fmt::format("{}:{}:{}", source, line, column);
}

Json parse_object(std::string_view text, std::string_view source) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    refuse_usage("{}: not JSON, wanted a Hugging Face config.json",
                 place(text, error.byte, source));
  } catch (const Json::exception&) {  // a number beyond the range of a double
    refuse_usage("{}: not JSON that can be read: a number is out of range", source);
  }
  if (!json.is_object()) {
    refuse_usage(
        "{}: must be an object with keys such as hidden_size, as a Hugging Face config.json is",
        source);
  }
  return json;
}

// The keys of a configuration. A key that is null counts as missing: that is how transformers writes
// a default.
class Config {
 public:
  Config(std::string_view text, std::string_view source)
      : json_(parse_object(text, source)), source_(source) {}

  const Json* value(const char* key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }

  // 0 if it is missing.
  std::int64_t number_if_any(const char* key, std::int64_t least = 1) const {
    const Json* given = value(key);
    if (given == nullptr) return 0;
    // A number beyond 63 bits is unsigned or a float, and is_number_integer() is true of unsigned.
    if (!given->is_number_integer() || *given < least || *given > kMostOfAModel) {
      refuse("{} must be {}, got {}", key, wanted(least), shortened(*given));
    }
    return given->get<std::int64_t>();
  }

  std::int64_t number(const char* key) const {
    const std::int64_t given = number_if_any(key);
    if (given == 0) refuse("there is no {}; wanted {}", key, wanted(1));
    return given;
  }

  // The first of several spellings that is there.
  const char* first_of(std::initializer_list<const char*> keys) const {
    const auto* found =
        std::find_if(keys.begin(), keys.end(), [&](const char* key) { return value(key); });
    return found == keys.end() ? nullptr : *found;
  }

  template <class... Parts>
  [[noreturn]] void refuse(fmt::format_string<Parts...> format, Parts&&... parts) const {
    refuse_usage("{}: {}", source_, fmt::format(format, std::forward<Parts>(parts)...));
  }

  static std::string shortened(const Json& json) {
    constexpr std::size_t kMost = 40;
    const std::string text = json.dump(-1, ' ', true);
    return text.size() <= kMost ? text : text.substr(0, kMost) + "…";
  }

 private:
  static std::string wanted(std::int64_t least) {
    return fmt::format("a whole number between {} and {}", least, kMostOfAModel);
  }

  Json json_;
  std::string source_;
};

void read_latent_attention(const Config& config, Model& model) {
  LatentAttention latent;
  latent.kv_rank = config.number("kv_lora_rank");
  latent.q_rank = config.number_if_any("q_lora_rank");
  latent.rope_dim = config.number("qk_rope_head_dim");
  model.head_dim = config.number("qk_nope_head_dim") + latent.rope_dim;
  model.v_head_dim = config.number("v_head_dim");
  model.kv_heads = model.heads;
  model.latent = latent;
}

void read_plain_attention(const Config& config, Model& model) {
  const std::int64_t kv_heads = config.number_if_any("num_key_value_heads");
  model.kv_heads = kv_heads > 0 ? kv_heads : model.heads;
  if (model.heads % model.kv_heads != 0) {
    config.refuse("num_attention_heads must be a multiple of num_key_value_heads {}, got {}",
                  model.kv_heads, model.heads);
  }
  model.head_dim = config.number_if_any("head_dim");
  if (model.head_dim == 0) {
    if (model.hidden % model.heads != 0) {
      config.refuse(
          "there is no head_dim, and hidden_size {} is no multiple of "
          "num_attention_heads {}; wanted one of the two",
          model.hidden, model.heads);
    }
    model.head_dim = model.hidden / model.heads;
  }
  model.v_head_dim = model.head_dim;
}

// The cases are those of a gated MLP. All models whose keys are read here have one, with silu.
void require_gated_mlp(const Config& config) {
  const Json* activation = config.value("hidden_act");
  if (activation != nullptr && *activation != "silu") {
    config.refuse("hidden_act must be \"silu\", that of a gated MLP, got {}",
                  Config::shortened(*activation));
  }
}

// Whether a model with experts has layers with a plain MLP as well.
bool has_dense_layers(const Config& config) {
  const Json* dense_layers = config.value("mlp_only_layers");  // Qwen3-MoE: a list of layers
  return config.number_if_any("first_k_dense_replace", 0) > 0 ||
         config.number_if_any("decoder_sparse_step") > 1 ||
         (dense_layers != nullptr && !dense_layers->empty());
}

void read_experts(const Config& config, const char* experts, Model& model) {
  model.experts = config.number(experts);
  model.top_k = config.number("num_experts_per_tok");
  if (model.top_k > model.experts) {
    config.refuse("num_experts_per_tok must be at most {} {}, got {}", experts, model.experts,
                  model.top_k);
  }
  model.expert_intermediate = config.number_if_any("moe_intermediate_size");
  if (model.expert_intermediate == 0) {  // Mixtral: every MLP is an expert
    model.expert_intermediate = config.number("intermediate_size");
  } else if (has_dense_layers(config)) {
    model.intermediate = config.number("intermediate_size");
  }
  model.shared_intermediate = config.number_if_any("shared_expert_intermediate_size", 0);
  if (model.shared_intermediate == 0) {
    model.shared_intermediate =
        config.number_if_any("n_shared_experts", 0) * model.expert_intermediate;
  }
}

// "Llama-3.1-8B" of models/Llama-3.1-8B/config.json, llama.json as llama, and the repository's name
// of hub/models--meta-llama--Llama-3.1-8B/snapshots/0e9e39f/config.json.
std::string model_name(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path file = std::filesystem::absolute(path, ignored).lexically_normal();
  if (file.stem() != "config") return file.stem().string();
  std::filesystem::path folder = file.parent_path();
  if (folder.parent_path().filename() == "snapshots") folder = folder.parent_path().parent_path();
  const std::string name = folder.filename().string();
  const std::size_t owner_end = name.rfind("--");
  if (name.rfind("models--", 0) == 0) return name.substr(owner_end + 2);
  return name.empty() ? "config" : name;
}

}  // namespace

bool is_model_config(const std::string& name_or_path) {
  constexpr std::string_view kEnding = ".json";
  std::error_code ignored;
  return (name_or_path.size() >= kEnding.size() &&
          name_or_path.compare(name_or_path.size() - kEnding.size(), kEnding.size(), kEnding) ==
              0) ||
         std::filesystem::is_regular_file(name_or_path, ignored);
}

Model parse_model_config(std::string_view text, std::string_view source, std::string name) {
  const Config config(text, source);
  Model model;
  model.name = std::move(name);
  model.hidden = config.number("hidden_size");
  model.heads = config.number("num_attention_heads");
  if (config.value("kv_lora_rank") != nullptr) {
    read_latent_attention(config, model);
  } else {
    read_plain_attention(config, model);
  }
  require_gated_mlp(config);
  const char* experts = config.first_of({"num_experts", "num_local_experts", "n_routed_experts"});
  if (experts != nullptr) {
    read_experts(config, experts, model);
  } else {
    model.intermediate = config.number("intermediate_size");
  }
  const std::int64_t longest = config.number_if_any("max_position_embeddings");
  model.sequence = longest > 0 ? std::min(longest, kLongestSequence) : kLongestSequence;
  return model;
}

Model read_model_config(const std::string& path) {
  return parse_model_config(
      read_text_file("--model " + path, path, "the name of a model or a Hugging Face config.json"),
      path, model_name(path));
}

}  // namespace octet::tool
