// Models from models.yaml and from a config.json, and the cases that follow from them. The
// configurations here are the published ones, without the keys that no case needs.
#include "refusal.hpp"
#include "results.hpp"
#include "run_tool.hpp"

#include "tool/cases/models.hpp"
#include "tool/cases/suites.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace octet::tool {
namespace {

constexpr const char* kLlama31_8B = R"({
  "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": 4096,
  "intermediate_size": 14336, "max_position_embeddings": 131072, "num_attention_heads": 32,
  "num_key_value_heads": 8, "rope_scaling": {"factor": 8.0}, "vocab_size": 128256})";
constexpr const char* kQwen25_7B = R"({
  "hidden_act": "silu", "hidden_size": 3584, "intermediate_size": 18944,
  "max_position_embeddings": 32768, "num_attention_heads": 28, "num_key_value_heads": 4})";
constexpr const char* kMistral7B = R"({
  "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336, "head_dim": null,
  "max_position_embeddings": 32768, "num_attention_heads": 32, "num_key_value_heads": 8})";
constexpr const char* kLlama2_7B = R"({
  "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 11008,
  "max_position_embeddings": 4096, "num_attention_heads": 32})";
constexpr const char* kMixtral8x7B = R"({
  "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
  "max_position_embeddings": 32768, "num_attention_heads": 32, "num_experts_per_tok": 2,
  "num_key_value_heads": 8, "num_local_experts": 8})";
constexpr const char* kQwen3_30B = R"({
  "decoder_sparse_step": 1, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048,
  "intermediate_size": 6144, "max_position_embeddings": 40960, "mlp_only_layers": [],
  "moe_intermediate_size": 768, "num_attention_heads": 32, "num_experts": 128,
  "num_experts_per_tok": 8, "num_key_value_heads": 4})";
constexpr const char* kDeepSeekV3 = R"({
  "first_k_dense_replace": 3, "hidden_act": "silu", "hidden_size": 7168,
  "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840,
  "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
  "num_attention_heads": 128, "num_experts_per_tok": 8, "num_key_value_heads": 128,
  "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128})";
constexpr const char* kDeepSeekV2Lite = R"({
  "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 2048,
  "intermediate_size": 10944, "kv_lora_rank": 512, "max_position_embeddings": 163840,
  "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2,
  "num_attention_heads": 16, "num_experts_per_tok": 6, "num_key_value_heads": 16,
  "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128})";

Model config(const std::string& text, const std::string& name = "m") {
  return parse_model_config(text, "c.json", name);
}

// "attn_qkv 8192x6144x4096"
std::vector<std::string> texts(const std::vector<LayerCase>& cases) {
  std::vector<std::string> result;
  for (const LayerCase& one : cases) {
    result.push_back(fmt::format("{} {}x{}x{}", one.op, one.m, one.n, one.k));
  }
  return result;
}

using Texts = std::vector<std::string>;

TEST(ModelConfig, OfDenseModelsGivesTheLayersOfTheSuite) {
  const std::pair<const char*, const char*> models[] = {{"Llama-2-7B", kLlama2_7B},
                                                        {"Llama-3.1-8B", kLlama31_8B},
                                                        {"Qwen2.5-7B", kQwen25_7B},
                                                        {"Mistral-7B", kMistral7B}};
  for (const auto& [name, text] : models) {
    const std::vector<LayerCase> suite = select_cases(load_suite("dense84"), {name}, {});
    Model model = config(text);
    if (name == std::string("Mistral-7B")) model.sequence = 4096;  // the suite's; it takes 32768
    EXPECT_EQ(texts(layer_cases(model, {1, 2, 4})), texts(suite)) << name;
  }
}

TEST(ModelConfig, OfMixtralHasOnlyExpertsBesideItsAttention) {
  const Model model = config(kMixtral8x7B, "Mixtral-8x7B");
  EXPECT_EQ(texts(layer_cases(model, {1})),
            (Texts{"attn_qkv 8192x6144x4096", "attn_out 8192x4096x4096"}));
  const std::vector<GroupedCase> cases = grouped_cases(model, {8, 2}, {512});
  ASSERT_EQ(cases.size(), 4u);
  EXPECT_EQ(cases[0].op, "GateUP");
  EXPECT_EQ(cases[0].n, 28672);
  EXPECT_EQ(cases[0].k, 4096);
  EXPECT_EQ(cases[0].groups, 1);
  EXPECT_EQ(cases[3].op, "Down");
  EXPECT_EQ(cases[3].n, 4096);
  EXPECT_EQ(cases[3].k, 14336);
  EXPECT_EQ(cases[3].groups, 4);
  EXPECT_EQ(cases[3].rows, 2048);
  EXPECT_EQ(cases[3].top_k, 2);
}

TEST(ModelConfig, OfQwen3MoeHasHeadsOfTheirOwnSizeAndNoDenseMlp) {
  const Model model = config(kQwen3_30B);
  EXPECT_EQ(texts(layer_cases(model, {1})),
            (Texts{"attn_qkv 8192x5120x2048", "attn_out 8192x2048x4096"}));
  const std::vector<GroupedCase> cases = grouped_cases(model, {8}, {1024});
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[0].n, 1536);
  EXPECT_EQ(cases[1].k, 768);
  const std::vector<AttentionCase> attention = attention_cases(model, {2}, true);
  ASSERT_EQ(attention.size(), 1u);
  EXPECT_EQ(attention[0].heads_q, 32);
  EXPECT_EQ(attention[0].heads_kv, 4);
  EXPECT_EQ(attention[0].head_dim_qk, 128);
  EXPECT_EQ(attention[0].head_dim_v, 128);
  EXPECT_EQ(attention[0].seq_kv, 8192);
  EXPECT_TRUE(attention[0].causal);
}

TEST(ModelConfig, OfDeepSeekHasLatentAttentionAndSharedExperts) {
  const Model model = config(kDeepSeekV3);
  EXPECT_EQ(texts(layer_cases(model, {1})),
            (Texts{"attn_q_a 8192x1536x7168", "attn_q_b 8192x24576x1536", "attn_kv_a 8192x576x7168",
                   "attn_kv_b 8192x32768x512", "attn_out 8192x7168x16384",
                   "mlp_gate_up 8192x36864x7168", "mlp_down 8192x7168x18432",
                   "shared_gate_up 8192x4096x7168", "shared_down 8192x7168x2048"}));
  const AttentionCase attention = attention_cases(model, {1}, false).at(0);
  EXPECT_EQ(attention.heads_kv, 128);
  EXPECT_EQ(attention.head_dim_qk, 192);
  EXPECT_EQ(attention.head_dim_v, 128);
  EXPECT_EQ(grouped_cases(model, {32}, {512}).at(0).groups, 8);

  EXPECT_EQ(
      texts(layer_cases(config(kDeepSeekV2Lite), {1})),
      (Texts{"attn_q 8192x3072x2048", "attn_kv_a 8192x576x2048", "attn_kv_b 8192x4096x512",
             "attn_out 8192x2048x2048", "mlp_gate_up 8192x21888x2048", "mlp_down 8192x2048x10944",
             "shared_gate_up 8192x5632x2048", "shared_down 8192x2048x2816"}));
}

TEST(ModelConfig, SequenceIsAtMostWhatTheModelTakes) {
  const std::string model =
      R"({"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128)";
  EXPECT_EQ(config(model + R"(, "max_position_embeddings": 2048})").sequence, 2048);
  EXPECT_EQ(config(model + R"(, "max_position_embeddings": 10485760})").sequence, 8192);
  EXPECT_EQ(config(model + "}").sequence, 8192);
}

TEST(ModelConfig, RefusesWhatItCannotRead) {
  const auto refused = [](const std::string& text) { return refusal([&] { config(text); }); };
  const std::string wanted = "a whole number between 1 and 1073741824";
  EXPECT_EQ(refused(""), "c.json:1:1: not JSON, wanted a Hugging Face config.json");
  EXPECT_EQ(refused("{\n \"a\" 1}"), "c.json:2:6: not JSON, wanted a Hugging Face config.json");
  EXPECT_EQ(refused("{\"a\": 1e999}"),
            "c.json: not JSON that can be read: a number is out of range");
  EXPECT_EQ(refused("[]"),
            "c.json: must be an object with keys such as hidden_size, as a Hugging Face "
            "config.json is");
  EXPECT_EQ(refused("{}"), "c.json: there is no hidden_size; wanted " + wanted);
  const std::pair<const char*, const char*> values[] = {
      {"\"64\"", "\"64\""},
      {"0", "0"},
      {"-4", "-4"},
      {"64.0", "64.0"},
      {"true", "true"},
      {"[64, 64]", "[64,64]"},
      {"1073741825", "1073741825"},
      {"18446744073709551615", "18446744073709551615"},
      {"1e30", "1e+30"},
      {"\"0123456789012345678901234567890123456789\"",
       "\"012345678901234567890123456789012345678…"}};
  for (const auto& [given, got] : values) {
    EXPECT_EQ(refused(fmt::format("{{\"hidden_size\": {}}}", given)),
              fmt::format("c.json: hidden_size must be {}, got {}", wanted, got));
  }
}

TEST(ModelConfig, RefusesNumbersThatDoNotFitEachOther) {
  const auto refused = [](const std::string& more) {
    return refusal([&] { config(R"({"hidden_size": 64, "num_attention_heads": )" + more + "}"); });
  };
  EXPECT_EQ(refused("6"),
            "c.json: there is no head_dim, and hidden_size 64 is no multiple of "
            "num_attention_heads 6; wanted one of the two");
  EXPECT_EQ(refused(R"(4, "num_key_value_heads": 3)"),
            "c.json: num_attention_heads must be a multiple of num_key_value_heads 3, got 4");
  EXPECT_EQ(refused("4"),
            "c.json: there is no intermediate_size; wanted a whole number between 1 and "
            "1073741824");
  EXPECT_EQ(refused(R"(4, "hidden_act": "gelu")"),
            "c.json: hidden_act must be \"silu\", that of a gated MLP, got \"gelu\"");
  EXPECT_EQ(refused(R"(4, "n_routed_experts": 8, "num_experts_per_tok": 9)"),
            "c.json: num_experts_per_tok must be at most n_routed_experts 8, got 9");
  EXPECT_EQ(refused(R"(4, "kv_lora_rank": 512)"),
            "c.json: there is no qk_rope_head_dim; wanted a whole number between 1 and "
            "1073741824");
}

TEST(ModelConfig, IsNamedAfterItsFolder) {
  const Folder folder;
  const auto name_of = [&](const std::string& path) {
    const std::filesystem::path file = folder.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << kLlama31_8B;
    return read_model_config(file.string()).name;
  };
  EXPECT_EQ(name_of("Llama-3.1-8B/config.json"), "Llama-3.1-8B");
  EXPECT_EQ(name_of("llama.json"), "llama");
  EXPECT_EQ(name_of("models--meta-llama--Llama-3.1-8B/snapshots/0e9e39f/config.json"),
            "Llama-3.1-8B");
}

TEST(ModelConfig, IsAFileOrEndsInJson) {
  const Folder folder;
  std::ofstream(folder.file("config")) << "{}";
  EXPECT_TRUE(is_model_config("no/such/config.json"));
  EXPECT_TRUE(is_model_config(folder.file("config")));
  EXPECT_FALSE(is_model_config(folder.path().string()));
  EXPECT_FALSE(is_model_config("Llama-3.1-8B"));
}

TEST(Models, RefuseWhatIsNoListOfModels) {
  const auto refused = [](const std::string& text) {
    return refusal([&] { parse_models(text, "m.yaml"); });
  };
  EXPECT_EQ(refused("models: {A: {hidden: 0}}"),
            "m.yaml:1:22: hidden must be a whole number between 1 and 1073741824");
  EXPECT_EQ(refused("models: {A: {hidden: 1, layers: 2}}"),
            "m.yaml:1:25: model A has the unknown key \"layers\"; there are: "
            "expert_intermediate, experts, head_dim, heads, hidden, intermediate, kv_heads, "
            "sequence, top_k, v_head_dim");
  EXPECT_EQ(refused("models: {A: {heads: 1}}"), "m.yaml:1:13: model A has no hidden");
  EXPECT_EQ(refused("models: {A: {hidden: 1, heads: 1}}"), "m.yaml:1:13: model A has no kv_heads");
  EXPECT_EQ(refused("models: {A: {hidden: 1, experts: 1}}"), "m.yaml:1:13: model A has no top_k");
}

TEST(Models, CasesNeedExpertsThatRanksDivideAndTokensOf64Bits) {
  const Model dense = config(kLlama31_8B, "Llama");
  const Model mixtral = config(kMixtral8x7B, "Mixtral");
  EXPECT_EQ(refusal([&] { grouped_cases(dense, {1}, {512}); }), "Llama has no experts");
  EXPECT_EQ(refusal([&] { grouped_cases(mixtral, {16}, {512}); }),
            "expert parallelism must divide the 8 experts of Mixtral, got 16");
  EXPECT_EQ(refusal([&] { grouped_cases(mixtral, {1}, {INT64_MAX / 4}); }),
            "8 groups of 2305843009213693951 tokens have more tokens than 64 bits hold");
  EXPECT_EQ(refusal([&] { layer_cases(dense, {INT64_MAX}); }),
            "9223372036854775807 sequences of 8192 tokens have more tokens than 64 bits hold");
}

constexpr const char* kTiny = R"({"hidden_size": 64, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 96, "max_position_embeddings": 16})";

TEST(ToolBench, DerivesTheLayersOfAConfig) {
  const Folder folder;
  std::ofstream(folder.file("Tiny.json")) << kTiny;
  const std::string path = folder.file("x.csv");
  const Outcome outcome = run_tool("bench gemm --device cpu --warmup 1 --iters 2 --mbs 2 --model " +
                                   folder.file("Tiny.json") + " -o " + path);
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  Texts rows;
  for (const Fields& record : read_results(path).records) {
    rows.push_back(fmt::format("{} {} {} {}x{}x{}", record.at("TestID"), record.at("Case"),
                               record.at("MBS"), record.at("M"), record.at("N"), record.at("K")));
  }
  EXPECT_EQ(rows, (Texts{"1 Tiny attn_qkv 2 32x128x64", "2 Tiny attn_out 2 32x64x64",
                         "3 Tiny mlp_gate_up 2 32x192x64", "4 Tiny mlp_down 2 32x64x96"}));
}

TEST(ToolBench, SequencesOfAnotherLengthChangeM) {
  const Folder folder;
  std::ofstream(folder.file("Tiny.json")) << kTiny;
  std::ofstream(folder.file("cases.csv")) << "test_id,model,op,mbs,M,N,K\n41,A,up,3,8,16,32\n";
  for (const std::string& cases :
       {"--mbs 3 --model " + folder.file("Tiny.json"), "--suite " + folder.file("cases.csv")}) {
    const std::string path = folder.file("x.csv");
    const Outcome outcome = run_tool(
        "bench gemm --device cpu --fresh --warmup 1 --iters 2 --seq 5 " + cases + " -o " + path);
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_EQ(read_results(path).records.at(0).at("M"), "15") << cases;
  }
}

}  // namespace
}  // namespace octet::tool
