// Models by the numbers of their configuration, and the cases that follow from these. The numbers
// come from cases/models.yaml, or from a config.json as Hugging Face publishes them.
#pragma once

#include "tool/cases/cases.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace octet::tool {

// Of a number of a configuration. Sums of three products of two such numbers fit 64 bits.
inline constexpr std::int64_t kMostOfAModel = std::int64_t{1} << 30;

// Attention whose k and v, and mostly q, are expanded from a few features per token (MLA).
struct LatentAttention {
  std::int64_t q_rank = 0;  // features that q is expanded from; 0: q has one plain projection
  std::int64_t kv_rank = 0;
  std::int64_t rope_dim = 0;  // rotated features of a head; k's are the same in all heads
};

// A number of 0: the model has none.
struct Model {
  std::string name;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;  // of q and k
  std::int64_t v_head_dim = 0;
  std::optional<LatentAttention> latent;
  std::int64_t intermediate = 0;  // of the MLP of layers without experts
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t expert_intermediate = 0;
  std::int64_t shared_intermediate = 0;  // of the experts that every token takes, together
  std::int64_t sequence = 0;             // tokens per sequence in the cases
};

// models.yaml. Throws UsageError that names `source`, the place and what was wanted.
std::vector<Model> parse_models(const std::string& text, std::string_view source);
// Throws UsageError that lists the known names.
const Model& find_model(const std::vector<Model>& models, const std::string& name);

// Whether a --model names a config.json rather than a model: it ends in .json, or is a file.
bool is_model_config(const std::string& name_or_path);
// The model of a config.json, with the keys of Llama, Mistral, Qwen2, Qwen3, Mixtral, Qwen3-MoE,
// DeepSeek-V2 and DeepSeek-V3. Throws UsageError that names `source`, the key, what was given and
// what was wanted. `sequence` is what the model takes, but at most kLongestSequence.
Model parse_model_config(std::string_view text, std::string_view source, std::string name);
inline constexpr std::int64_t kLongestSequence = 8192;
// The same from a file, named after it or, for a config.json, after its folder.
Model read_model_config(const std::string& path);

// Tokens of `mbs` sequences. Throws UsageError if they pass 64 bits.
std::int64_t micro_batch_tokens(std::int64_t mbs, std::int64_t sequence);

// The cases of a model, not numbered. Those of one model are in the order of the arguments.

// The linear layers that see every token: attention's projections, the MLP and the shared experts.
// Left out: routed experts (see below), their router, and the head.
std::vector<LayerCase> layer_cases(const Model& model, const std::vector<std::int64_t>& mbs);
// Both products of the routed experts. Throws UsageError if there are none, or if their number is no
// multiple of an `expert_parallel`.
std::vector<GroupedCase> grouped_cases(const Model& model,
                                       const std::vector<std::int64_t>& expert_parallel,
                                       const std::vector<std::int64_t>& tokens_per_group);
// Self-attention over whole sequences. Latent attention has as many heads of k and v as of q, as it
// is computed in training.
std::vector<AttentionCase> attention_cases(const Model& model,
                                           const std::vector<std::int64_t>& batches, bool causal);

}  // namespace octet::tool
