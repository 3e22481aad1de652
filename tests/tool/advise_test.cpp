// octet advise: what its figures are, and that each says where it comes from. On the CPU; figures of
// an H200 are those that are published or calculated.
#include "results.hpp"
#include "tool/advise/measured.hpp"
#include "tool/advise/precisions.hpp"
#include "tool/advise/published.hpp"

#include <octet/ops/fp8_linear.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <set>
#include <tuple>

namespace octet::tool {
namespace {

using Json = nlohmann::json;

constexpr const char* kH200 = "NVIDIA H200";
// Llama-3.1-8B attn_qkv with a micro-batch of one, as in the suite dense84.
constexpr LayerShape kPublished{8192, 6144, 4096};

const Precision& precision(const std::string& name) {
  for (const Precision& one : precisions()) {
    if (one.name == name) return one;
  }
  throw std::runtime_error("no precision is called " + name);
}

std::map<std::string, Json> rows_of(const Outcome& outcome) {
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::map<std::string, Json> rows;
  const Json document = Json::parse(outcome.out);
  for (const Json& row : document.at("rows")) {
    rows.emplace(row.at("Precision").get<std::string>(), row);
  }
  return rows;
}

TEST(Advise, HasEveryPrecisionWithTheOptionsOfTheBenchmark) {
  std::set<std::string> options;
  for (const Precision& one : precisions()) {
    std::string text;
    for (const std::string& word : one.options) text += word + " ";
    options.insert(text);
    EXPECT_EQ(one.options.size() % 2, 0u) << one.name << ": names and values";
  }
  EXPECT_EQ(options,
            (std::set<std::string>{
                "--dtype bf16 ", "--dtype fp8 --granularity blockwise --wgrad-blocks 1d ",
                "--dtype fp8 --granularity blockwise --wgrad-blocks 2d ",
                "--dtype fp8 --granularity tensorwise ", "--dtype fp8 --granularity rowwise ",
                "--dtype fp8 --granularity mxfp8 --wgrad-blocks 1d ",
                "--dtype fp8 --granularity mxfp8 --wgrad-blocks 2d "}));
}

TEST(Advise, ASmallLayerIsCheckedAndTimedHere) {
  const auto rows = rows_of(run_tool("advise --shape 96x64x160 --device cpu --json -"));
  ASSERT_EQ(rows.size(), precisions().size());
  for (const auto& [name, row] : rows) {
    if (row.at("Forward Source").is_null()) {
      EXPECT_FALSE(row.at("Note").is_null()) << name << " has no times and no reason";
      continue;
    }
    for (const char* source : {"Forward Source", "Backward Source", "Step Source", "SNR Source"}) {
      EXPECT_EQ(row.at(source), "measured here") << name << " " << source;
    }
    EXPECT_GT(row.at("Forward Time (ms)"), 0) << name;
    EXPECT_GT(row.at("SNR (dB)"), name == "bf16" ? 45 : 25) << name;
    EXPECT_LT(row.at("SNR (dB)"), name == "bf16" ? 70 : 35) << name;
    const double ms =
        row.at("Forward Time (ms)").get<double>() + row.at("Backward Time (ms)").get<double>();
    EXPECT_NEAR(row.at("Combined Step TFLOPS").get<double>() * ms * 1e-3 * 1e12,
                6.0 * 96 * 64 * 160, 600)
        << name;
  }
  for (const char* name : {"bf16", "fp8 blockwise 1d", "fp8 blockwise 2d"}) {
    EXPECT_FALSE(rows.at(name).at("Forward Source").is_null()) << rows.at(name);
  }
  EXPECT_EQ(rows.at("bf16").at("Step Ratio to bf16"), 1);
}

TEST(Advise, ALayerThatTakesTooLongIsScaledUpFromASample) {
  const auto rows =
      rows_of(run_tool("advise --shape 65536x65536x65536 --device cpu --max-seconds 300 --json -"));
  for (const char* name : {"bf16", "fp8 blockwise 1d", "fp8 blockwise 2d"}) {
    const Json& row = rows.at(name);
    EXPECT_EQ(row.at("Forward Source"), "calculated") << name;
    EXPECT_EQ(row.at("Step Source"), "calculated") << name;
    EXPECT_EQ(row.at("SNR Source"), "measured here") << name << ": of the sample";
    const auto note = row.at("Note").get<std::string>();
    EXPECT_NE(note.find("at the rate of 256x256x2048, measured here"), std::string::npos) << note;
  }
}

// The second layer, too: a share of the time is of all of them.
TEST(Advise, NothingBeginsAfterMaxSeconds) {
  const Json document = Json::parse(
      run_tool("advise --shape 64x64x64 --shape 96x64x64 --device cpu --max-seconds 0 --json -")
          .out);
  ASSERT_EQ(document.at("rows").size(), 2 * precisions().size());
  for (const Json& row : document.at("rows")) {
    EXPECT_TRUE(row.at("Forward Time (ms)").is_null()) << row;
    EXPECT_TRUE(row.at("SNR (dB)").is_null()) << row;
    EXPECT_EQ(row.at("Note"), "not measured: --max-seconds reached");
  }
}

TEST(Advise, WithoutMeasuringACpuHasNoTimes) {
  const auto rows = rows_of(run_tool("advise --shape 64x64x64 --device cpu --no-measure --json -"));
  for (const auto& [name, row] : rows) {
    EXPECT_TRUE(row.at("Forward Time (ms)").is_null()) << name;
    EXPECT_TRUE(row.at("Forward Source").is_null()) << name;
    EXPECT_TRUE(row.at("SNR (dB)").is_null()) << name;
    EXPECT_EQ(row.at("Saved Bytes Source"), "calculated") << name;
  }
}

TEST(Advise, SavedBytesAreThoseOfTheLayer) {
  const std::tuple<const char*, Granularity, WgradBlocks> layers[] = {
      {"fp8 blockwise 1d", Granularity::blockwise, WgradBlocks::rows},
      {"fp8 blockwise 2d", Granularity::blockwise, WgradBlocks::square},
      {"fp8 tensorwise", Granularity::tensorwise, WgradBlocks::rows},
      {"fp8 rowwise", Granularity::rowwise, WgradBlocks::rows},
      {"mxfp8 1d", Granularity::mxfp8, WgradBlocks::rows},
      {"mxfp8 2d", Granularity::mxfp8, WgradBlocks::square}};
  for (const LayerShape& shape : {LayerShape{4096, 1024, 512}, LayerShape{33, 130, 257}}) {
    Fp8LinearProblem problem{.m = shape.m, .n = shape.n, .k = shape.k};
    for (const auto& [name, granularity, blocks] : layers) {
      problem.granularity = granularity;
      problem.wgrad_blocks = blocks;
      const Fp8LinearSavedLayout layout = fp8_linear_saved_layout(problem);
      EXPECT_EQ(saved_bytes(precision(name), shape),
                static_cast<double>(layout.x_t.bytes + layout.w_t.bytes))
          << name << " " << shape.text();
    }
  }
  EXPECT_EQ(saved_bytes(precision("bf16"), {4096, 1024, 512}), 2.0 * 4096 * 512) << "x itself";
}

TEST(Advise, CalculatesOperationsOverRatesAndBytesOverBandwidth) {
  const double operations = 2.0 * 8192 * 6144 * 4096;
  const LayerCost plain = calculated_cost(precision("bf16"), kPublished, kH200);
  EXPECT_DOUBLE_EQ(plain.forward_seconds.value, operations / 670e12);
  EXPECT_DOUBLE_EQ(plain.backward_seconds.value, 2 * operations / 670e12);
  EXPECT_FALSE(plain.cast_seconds.known());
  // x and w: two bytes read, two copies of a byte written; rows read twice.
  const double inputs = 8192.0 * 4096 + 6144.0 * 4096;
  const LayerCost blocks = calculated_cost(precision("fp8 blockwise 1d"), kPublished, kH200);
  EXPECT_NEAR(blocks.forward_seconds.value, operations / 1237e12 + 4 * inputs / 3.77e12, 1e-12);
  EXPECT_NEAR(blocks.backward_seconds.value,
              operations / 1237e12 + operations / 972e12 + 4 * 8192.0 * 6144 / 3.77e12, 1e-12);
  const LayerCost rows = calculated_cost(precision("fp8 rowwise"), kPublished, kH200);
  EXPECT_NEAR(rows.cast_seconds.value, 6 * (inputs + 8192.0 * 6144) / 3.77e12, 1e-12);
  EXPECT_EQ(rows.forward_seconds.source, Source::calculated);
  EXPECT_EQ(rows.snr_db.source, Source::calculated);
  EXPECT_NEAR(rows.snr_db.value, 28.5, 0.1);
  EXPECT_FALSE(plain.snr_db.known()) << "its products round to 16 bits only";
  EXPECT_FALSE(
      calculated_cost(precision("bf16"), kPublished, "Another GPU").forward_seconds.known());
}

TEST(Advise, AFewTokensTakeAsLongAsTheirLaunchesOrTheWeights) {
  EXPECT_DOUBLE_EQ(calculated_cost(precision("bf16"), {1, 1, 1}, kH200).forward_seconds.value,
                   3.44e-6);
  // Three casts that read twice, in launches of their own.
  EXPECT_DOUBLE_EQ(calculated_cost(precision("fp8 rowwise"), {1, 1, 1}, kH200).cast_seconds.value,
                   6 * 3.44e-6);
  const LayerCost weights = calculated_cost(precision("bf16"), {8, 16384, 16384}, kH200);
  EXPECT_NEAR(weights.forward_seconds.value, 2.0 * 16384 * 16384 / 3.77e12, 2e-6);
}

// The row of the published file, read as a user's script would.
Fields published_fields(const std::string& file) {
  for (const Fields& row :
       read_results(std::string(OCTET_SOURCE_DIR) + "/results/h200/" + file).records) {
    if (row.at("M") == "8192" && row.at("N") == "6144" && row.at("K") == "4096") return row;
  }
  throw std::runtime_error(file + " has no such layer");
}

TEST(Advise, APublishedLayerHasItsOwnTimes) {
  for (const auto& [name, file] : {std::pair{"fp8 blockwise 1d", "dense84.csv"},
                                   std::pair{"fp8 blockwise 2d", "dense84_2d.csv"}}) {
    const auto layer = published_layer(precision(name), kPublished, kH200);
    ASSERT_TRUE(layer.has_value()) << name;
    const Fields row = published_fields(file);
    EXPECT_EQ(layer->layer, row.at("Case") + " 8192x6144x4096");
    EXPECT_NEAR(layer->cost.forward_seconds.value * 1e3, number_in(row, "Forward Time (ms)"), 1e-5);
    EXPECT_NEAR(layer->cost.backward_seconds.value * 1e3, number_in(row, "Backward Time (ms)"),
                1e-5);
    EXPECT_EQ(layer->cost.forward_seconds.source, Source::published);
    EXPECT_EQ(layer->cost.snr_db.value,
              std::min({number_in(row, "Forward G1 SNR (dB)"), number_in(row, "dX G1 SNR (dB)"),
                        number_in(row, "dW G1 SNR (dB)")}));
  }
}

TEST(Advise, ALayerNearbyLendsItsRateAndOneFarAwayDoesNot) {
  const Precision& blocks = precision("fp8 blockwise 1d");
  const auto exact = published_layer(blocks, kPublished, kH200);
  const auto near = published_layer(blocks, {8192, 6144, 4224}, kH200);
  ASSERT_TRUE(exact && near);
  EXPECT_EQ(near->layer, exact->layer);
  EXPECT_NEAR(near->cost.forward_seconds.value / exact->cost.forward_seconds.value, 4224.0 / 4096,
              1e-6);
  EXPECT_FALSE(published_layer(blocks, {64, 512, 512}, kH200)) << "no layer of the suite is small";
  EXPECT_FALSE(published_layer(blocks, kPublished, "Another GPU"));
}

TEST(Advise, AGpuThatIsNotHereHasPublishedAndCalculatedFigures) {
  const auto rows = rows_of(run_tool("advise --shape 8192x6144x4096 --gpu h200 --json -"));
  EXPECT_EQ(rows.at("fp8 blockwise 2d").at("Forward Source"), "published");
  EXPECT_EQ(rows.at("fp8 blockwise 2d").at("Device"), kH200);
  EXPECT_EQ(rows.at("fp8 blockwise 2d").at("Casts Source"), "calculated");
  for (const auto& [name, row] : rows) {
    EXPECT_GT(row.at("Forward Time (ms)"), 0) << name;
    EXPECT_NE(row.at("Forward Source"), "measured here") << name;
    EXPECT_GT(row.at("Step Ratio to bf16"), name == "bf16" ? 0.99 : 1.1) << name;
  }
}

TEST(Advise, PrintsALetterBehindEveryFigureAndWritesCsv) {
  const Folder folder;
  const std::string path = folder.file("advice.csv");
  const std::string command =
      "advise --shape 8192x6144x4096 --shape 64x512x512 --gpu H200 -o " + path;
  const Outcome outcome = run_tool(command);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* text : {"NVIDIA H200, not this machine", "p: published, c: calculated",
                           "fp8 blockwise 1d", "Llama-3.1-8B attn_qkv 8192x6144x4096"}) {
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text << "\n" << outcome.out;
  }
  const Results rows = read_results(path);
  ASSERT_EQ(rows.records.size(), 2 * precisions().size());
  for (const Fields& row : rows.records) {
    for (const auto& [value, source] :
         {std::pair{"Forward Time (ms)", "Forward Source"},
          std::pair{"Backward Time (ms)", "Backward Source"},
          std::pair{"Casts Time (ms)", "Casts Source"},
          std::pair{"Combined Step TFLOPS", "Step Source"},
          std::pair{"Step Ratio to bf16", "Step Ratio Source"},
          std::pair{"Saved Bytes", "Saved Bytes Source"}, std::pair{"SNR (dB)", "SNR Source"}}) {
      EXPECT_EQ(row.at(value).empty(), row.at(source).empty()) << value;
    }
  }
  EXPECT_EQ(run_tool(command).status, 0) << "advice is replaced";
  std::ofstream(path) << "something else\n";
  const Outcome refused = run_tool(command);
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("does not hold advice of octet"), std::string::npos) << refused.err;
  const Outcome unwritable =
      run_tool("advise --shape 8x8x8 --gpu H200 -o " + folder.file("no/x.csv"));
  EXPECT_EQ(unwritable.status, 2);
  EXPECT_EQ(unwritable.out, "");
  EXPECT_NE(unwritable.err.find("wanted a file in a folder that exists"), std::string::npos)
      << unwritable.err;
}

}  // namespace
}  // namespace octet::tool
