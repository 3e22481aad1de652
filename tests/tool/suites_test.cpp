// The suites: those that are built in against the lists of cases/, and the parser of suites.yaml.
#include "refusal.hpp"
#include "run_tool.hpp"

#include "tool/cases/suites.hpp"
#include "tool/results/files.hpp"

#include <gtest/gtest.h>

#include <set>

namespace octet::tool {
namespace {

// The rows of cases/<name>.csv below its header.
std::vector<bench::Row> list_of(const std::string& name) {
  const std::filesystem::path path =
      std::filesystem::path(OCTET_SOURCE_DIR) / "cases" / (name + ".csv");
  std::vector<bench::Row> rows = parse_csv(read_file(path), name);
  if (rows.empty()) throw std::runtime_error("there is no list in " + path.string());
  rows.erase(rows.begin());
  return rows;
}

bench::Row row_of(const LayerCase& one) {
  return {one.test_id,
          one.model,
          one.op,
          std::to_string(one.mbs),
          std::to_string(one.m),
          std::to_string(one.n),
          std::to_string(one.k)};
}

bench::Row row_of(const GroupedCase& one) {
  return {one.test_id,
          one.model,
          one.op,
          std::to_string(one.experts),
          std::to_string(one.expert_parallel),
          std::to_string(one.groups),
          std::to_string(one.tokens_per_group),
          std::to_string(one.rows),
          std::to_string(one.n),
          std::to_string(one.k),
          std::to_string(one.top_k)};
}

bench::Row row_of(const AttentionCase& one) {
  return {one.test_id,
          std::to_string(one.batch),
          one.causal ? "True" : "False",
          std::to_string(one.heads_q),
          std::to_string(one.heads_kv),
          std::to_string(one.head_dim_qk),
          std::to_string(one.head_dim_v),
          std::to_string(one.seq_q),
          std::to_string(one.seq_kv)};
}

template <class Case>
void expect_list(const std::vector<Case>& cases, const std::string& name, std::size_t count) {
  const std::vector<bench::Row> list = list_of(name);
  EXPECT_EQ(list.size(), count);
  ASSERT_EQ(cases.size(), list.size());
  for (std::size_t i = 0; i < list.size(); ++i) EXPECT_EQ(row_of(cases[i]), list[i]);
}

TEST(Suites, Dense84IsItsList) { expect_list(load_suite("dense84"), "dense84", 84); }

TEST(Suites, Grouped288IsItsList) {
  expect_list(load_grouped_suite("grouped288"), "grouped288", 288);
}

TEST(Suites, Attention78IsItsList) {
  expect_list(load_attention_suite("attention78"), "attention78", 78);
}

TEST(Suites, QuickIsTheSixteenLayersOfTheSmallModelsAtSixtyFourTokens) {
  const std::vector<LayerCase> cases = load_suite("quick");
  const std::vector<LayerCase> dense84 = load_suite("dense84");
  ASSERT_EQ(cases.size(), 16u);
  std::set<std::string> models;
  for (const LayerCase& layer : cases) {
    EXPECT_EQ(layer.m, 64);
    EXPECT_EQ(layer.mbs, 1);
    const LayerCase& same = dense84.at(std::stoul(layer.test_id) - 1);
    EXPECT_EQ(layer.name(), same.name());
    EXPECT_EQ(layer.n, same.n);
    EXPECT_EQ(layer.k, same.k);
    models.insert(layer.model);
  }
  EXPECT_EQ(models,
            (std::set<std::string>{"Llama-2-7B", "Llama-3.1-8B", "Mistral-7B", "Qwen2.5-7B"}));
}

TEST(Suites, ModelsAreFoundWhateverTheirCase) {
  EXPECT_EQ(select_cases(load_suite("Dense84"), {"llama-2-7b"}, {4}).size(), 4u);
}

TEST(Suites, UnknownOnesAreRefusedWithTheNamesOfTheirKind) {
  EXPECT_EQ(refusal([] { load_suite("grouped288"); }),
            "no suite is called \"grouped288\"; there are: dense84, quick; or give a CSV file of "
            "cases");
  EXPECT_EQ(refusal([] { load_grouped_suite("dense84"); }),
            "no suite is called \"dense84\"; there are: grouped288");
  EXPECT_EQ(refusal([] { load_attention_suite("x"); }),
            "no suite is called \"x\"; there are: attention78");
}

TEST(Suites, RefuseWhatIsNoListOfSuites) {
  const auto refused = [](const std::string& text) {
    return refusal([&] { parse_suites(text, "s.yaml"); });
  };
  EXPECT_EQ(refused("[1]"), "s.yaml:1:1: the file must be a map");
  EXPECT_EQ(refused("groups: {}"),
            "s.yaml:1:1: the file has the unknown key \"groups\"; there are: attention, grouped, "
            "layers, random");
  EXPECT_EQ(refused("layers: {a: 1}"), "s.yaml:1:13: suite a must be a map");
  EXPECT_EQ(refused("layers: {a: {mbs: [0]}}"),
            "s.yaml:1:20: mbs must be a whole number between 1 and 9223372036854775807");
  EXPECT_EQ(refused("layers: {a: {models: y}}"), "s.yaml:1:22: models must be a list");
  EXPECT_EQ(refused("layers: {a: {from: b}, b: {}}"),
            "s.yaml:1:10: suite a is from b, which is not above it");
  EXPECT_EQ(refused("attention: {a: {causal: [2]}}"), "s.yaml:1:26: causal must be true or false");
  EXPECT_EQ(refused("grouped: {a: {m: y}}"),
            "s.yaml:1:15: suite a has the unknown key \"m\"; there are: about, batch, causal, "
            "expert_parallel, from, mbs, models, tokens, tokens_per_group");
  EXPECT_EQ(refused("layers: {a: ["), "s.yaml:1:14: not YAML: end of sequence flow not found");
  for (const std::string second : {"---\nlayers: {}\n", "--- # only a comment\n", "...\n---\n"}) {
    const std::string line = second[0] == '.' ? "5" : "4";
    EXPECT_EQ(refused("---\n# one\nlayers: {a: {about: x}}\n" + second),
              "s.yaml:" + line + ":1: a second document begins here, wanted one");
  }
}

TEST(Suites, OneDocumentMayHaveItsMarks) {
  const std::string text = "# one\n---\nlayers: {a: {about: '---'}}\n...\n# the end\n";
  EXPECT_EQ(parse_suites(text, "s.yaml").layers.size(), 1u);
}

std::vector<Model> two_models() {
  return parse_models(
      "models:\n"
      "  A: {hidden: 6, heads: 3, kv_heads: 1, head_dim: 2, intermediate: 5, sequence: 32}\n"
      "  B: {hidden: 8, heads: 2, kv_heads: 2, head_dim: 4, experts: 6, top_k: 2,\n"
      "      expert_intermediate: 7, sequence: 16}\n",
      "m.yaml");
}

TEST(Suites, SelectFromOthersAndTokensReplaceM) {
  const Suites suites = parse_suites(
      "layers: {all: {models: [A], mbs: [1, 2]}, some: {from: all, mbs: [2], tokens: 7}}",
      "s.yaml");
  const std::vector<LayerCase> all = layer_suite(suites, "all", two_models());
  ASSERT_EQ(all.size(), 8u);
  EXPECT_EQ(row_of(all[0]), (bench::Row{"1", "A", "attn_qkv", "1", "32", "10", "6"}));
  const std::vector<LayerCase> some = layer_suite(suites, "some", two_models());
  ASSERT_EQ(some.size(), 4u);
  EXPECT_EQ(row_of(some[3]), (bench::Row{"8", "A", "mlp_down", "2", "7", "6", "5"}));
}

TEST(Suites, RanksThatDoNotDivideTheExpertsAreSkipped) {
  const Suites suites = parse_suites(
      "grouped: {g: {models: [B], expert_parallel: [4, 3], tokens_per_group: [10]}}", "s.yaml");
  const std::vector<GroupedCase> cases = grouped_suite(suites, "g", two_models());
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(row_of(cases[0]),
            (bench::Row{"1", "B", "GateUP", "6", "3", "2", "10", "20", "14", "8", "2"}));
  EXPECT_EQ(row_of(cases[1]),
            (bench::Row{"2", "B", "Down", "6", "3", "2", "10", "20", "8", "7", "2"}));
}

TEST(Suites, NameModelsThatHaveWhatTheyNeed) {
  const Suites suites = parse_suites(
      "layers: {l: {models: [B], mbs: [1]}, m: {models: [C]}}\n"
      "grouped: {g: {models: [A], expert_parallel: [1]}}",
      "s.yaml");
  EXPECT_EQ(refusal([&] { layer_suite(suites, "l", two_models()); }), "suite l: B has no MLP");
  EXPECT_EQ(refusal([&] { layer_suite(suites, "m", two_models()); }),
            "no model is called \"C\"; there are: A, B");
  EXPECT_EQ(refusal([&] { grouped_suite(suites, "g", two_models()); }), "A has no experts");
}

}  // namespace
}  // namespace octet::tool
