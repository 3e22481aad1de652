// octet check --explain names every gate that octet check can print, with the bounds it has.
#include "run_tool.hpp"

#include "tool/options/gate_legend.hpp"

#include "check/gates.hpp"

#include <algorithm>
#include <regex>
#include <set>

namespace octet::tool {
namespace {

TEST(GateLegend, IsPrintedWithAndWithoutAnOperator) {
  for (const std::string arguments : {"check --explain", "check gemm --explain"}) {
    const Outcome outcome = run_tool(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    for (const GateText& text : gate_texts()) {
      EXPECT_NE(outcome.out.find("\n  " + text.gate + " "), std::string::npos) << text.gate;
    }
  }
}

// Small problems whose reports have every gate and, as far as a CPU can show them, every bound.
std::vector<GateResult> reported_gates() {
  std::vector<GateResult> all;
  const auto add = [&](const GateReport& report) {
    all.insert(all.end(), report.results.begin(), report.results.end());
  };
  const DataOptions data;
  for (const Dtype format : {Dtype::e4m3, Dtype::e5m2}) {
    for (const Dtype dtype : {Dtype::bf16, Dtype::f32}) {
      Fp8LinearProblem layer;
      layer.m = layer.n = layer.k = 64;
      layer.format = format;
      layer.dtype = layer.dw_dtype = dtype;
      add(check_fp8_linear(layer, data));
      layer.granularity = Granularity::mxfp8;
      add(check_fp8_linear(layer, data));
      GatedMlpProblem mlp;
      mlp.m = mlp.f = mlp.k = 64;
      mlp.down = true;
      mlp.format = format;
      mlp.dtype = mlp.dw_dtype = dtype;
      for (const bool fp8 : {false, true}) {
        mlp.fp8 = fp8;
        add(check_gated_mlp(mlp, data));
      }
      Fp8GroupedLinearProblem groups;
      groups.groups = 2;
      groups.rows = groups.n = groups.k = 64;
      groups.format = format;
      groups.dtype = groups.dw_dtype = dtype;
      add(check_fp8_grouped_linear(groups, data));
      RmsNormProblem norm;
      norm.rows = norm.cols = 64;
      norm.residual = true;
      norm.dtype = dtype;
      add(check_rms_norm(norm, data));
    }
  }
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
    AttentionProblem attention;
    attention.seq_q = attention.seq_kv = 64;
    attention.heads_q = attention.heads_kv = 1;
    attention.dim_qk = 32;
    attention.dtype = dtype;
    add(check_attention(attention, data));
  }
  return all;
}

TEST(GateLegend, HasEveryGateAndItsBounds) {
  const std::vector<GateResult> reported = reported_gates();
  for (const GateText& text : gate_texts()) {
    EXPECT_TRUE(std::any_of(reported.begin(), reported.end(), [&](const GateResult& result) {
      return result.gate == text.gate;
    })) << text.gate;
  }
  for (const GateResult& result : reported) {
    const auto text = std::find_if(gate_texts().begin(), gate_texts().end(),
                                   [&](const GateText& one) { return one.gate == result.gate; });
    ASSERT_NE(text, gate_texts().end()) << result.gate;
    static const std::regex number(R"((> \d+ dB|<= [\d.e-]+) )");
    const std::string bound = result.bound + " ";
    for (std::sregex_iterator found(bound.begin(), bound.end(), number), end; found != end;
         ++found) {
      if ((*found)[1] == "<= 1") continue;  // of a bound that is not a number of its own
      EXPECT_NE(text->bound.find((*found)[1].str()), std::string::npos)
          << result.gate << " " << result.bound << ": " << text->bound;
    }
  }
}

// Gates that these problems do not have would go unseen above.
TEST(GateLegend, HasEveryGateOfTheSources) {
  static const std::regex named("\"([A-Z][0-9]?)\",\\s*(?:tensor|name)");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           std::filesystem::path(OCTET_SOURCE_DIR) / "src/check")) {
    if (!entry.is_regular_file()) continue;
    const std::string text = read_file(entry.path());
    for (std::sregex_iterator found(text.begin(), text.end(), named), end; found != end; ++found) {
      names.insert((*found)[1]);
    }
  }
  std::set<std::string> explained;
  for (const GateText& text : gate_texts()) explained.insert(text.gate);
  EXPECT_EQ(names, explained);
}

}  // namespace
}  // namespace octet::tool
