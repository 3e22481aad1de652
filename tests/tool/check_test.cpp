// octet check takes exactly the command lines that problems print; octet ops and octet doctor agree
// with the code.
#include "run_tool.hpp"

#include "dispatch/choose.hpp"
#include "ops/gemm/problem.hpp"
#include "ops/quantize/problem.hpp"
#include "bench/report/text_table.hpp"

#include <octet/octet.hpp>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

namespace octet::tool {
namespace {

std::vector<std::string> described_memory_problems() {
  std::vector<std::string> lines;
  RmsNormProblem norm{.rows = 33, .cols = 130};
  lines.push_back(describe(norm));
  norm.residual = norm.one_plus_weight = true;
  norm.dtype = norm.dg_dtype = Dtype::f16;
  norm.weight_dtype = Dtype::f32;
  norm.eps = 1e-5f;
  norm.training = false;
  norm.fp8 = Fp8Output{Dtype::e5m2, kBlock128x128, {}, 1e-4f, true};
  lines.push_back(describe(norm));

  RopeProblem rope{.batch = 2, .seq = 5, .q_heads = 3, .head_dim = 16};
  lines.push_back(describe(rope));
  rope.k_heads = 1;
  rope.rotation = {RopeStyle::interleaved, 8, 9, true, Dtype::bf16, Dtype::i32};
  lines.push_back(describe(rope));

  RmsNormRopeProblem both{.batch = 2, .seq = 5, .q_heads = 3, .head_dim = 16};
  lines.push_back(describe(both));
  both.k_heads = 1;
  both.norm = NormScope::head;
  both.weight_dtype = both.dg_dtype = Dtype::f16;
  both.eps = 1e-5f;
  both.one_plus_weight = true;
  both.training = false;
  both.rotation = rope.rotation;
  lines.push_back(describe(both));

  GatedActivationProblem gated{.rows = 33, .cols = 130};
  lines.push_back(describe(gated));
  gated.activation = GateActivation::relu_squared;
  gated.dtype = Dtype::f32;
  gated.row_weight = true;
  gated.fp8 = Fp8Output{};
  lines.push_back(describe(gated));
  return lines;
}

std::vector<std::string> described_mlps() {
  GatedMlpProblem plain{.m = 9, .f = 33, .k = 40};
  GatedMlpProblem fp8 = plain;
  fp8.fp8 = fp8.down = fp8.unfused = fp8.pow2_scales = fp8.accumulate_dw = true;
  fp8.dtype = fp8.dw_dtype = Dtype::f32;
  fp8.format = fp8.grad_format = Dtype::e5m2;
  fp8.activation = GateActivation::gelu_erf;
  fp8.wgrad_blocks = WgradBlocks::square;
  fp8.amax_floor = 1e-4f;
  fp8.max_multiprocessors = 64;
  GatedMlpProblem rowwise{.m = 9, .f = 33, .k = 40, .down = true, .fp8 = true};
  rowwise.granularity = Granularity::rowwise;
  rowwise.fast_accumulation = true;
  GatedMlpProblem mx = rowwise;
  mx.granularity = Granularity::mxfp8;
  mx.fast_accumulation = false;
  mx.mx_scale = MxScale::even;
  LinearCrossEntropyProblem head{.m = 9, .v = 33, .k = 40};
  head.max_multiprocessors = 64;
  MoeMlpProblem experts{.tokens = 9, .f = 33, .k = 40, .experts = 4, .top_k = 2};
  experts.max_multiprocessors = 64;
  return {describe(plain), describe(fp8),  describe(rowwise),
          describe(mx),    describe(head), describe(experts)};
}

std::vector<std::string> described_grouped_problems() {
  std::vector<std::string> lines;
  GroupedGemmProblem product{.groups = 3, .rows = 50, .n = 33, .k = 130};
  lines.push_back(describe(product));
  product.a = product.b = {Dtype::f16, {}, Major::mn};
  product.tail = GroupTail::untouched;
  product.expected_rows = 40;
  product.max_multiprocessors = 64;
  lines.push_back(describe(product) + " --group-sizes 1,0,30");
  product = {.over = GroupedOver::contraction, .groups = 3, .rows = 50, .n = 33, .k = 40};
  product.a.dtype = Dtype::e5m2;
  product.out_dtype = Dtype::f32;
  product.accumulate = true;
  lines.push_back(describe(product) + " --group-sizes one-hot");

  Fp8GroupedLinearProblem layer;
  layer.groups = 3;
  layer.rows = 50;
  layer.n = 33;
  layer.k = 40;
  lines.push_back(describe(layer));
  layer.dtype = layer.dw_dtype = Dtype::f32;
  layer.grad_format = Dtype::e5m2;
  layer.accumulate_dw = layer.weights_quantized = layer.pow2_scales = true;
  layer.wgrad_blocks = WgradBlocks::square;
  layer.amax_floor = 1e-4f;
  layer.tail = GroupTail::untouched;
  layer.expected_rows = 40;
  layer.max_multiprocessors = 64;
  lines.push_back(describe(layer) + " --group-sizes zipf");
  lines.emplace_back("grouped-gemm --dtype bf16 --groups 3 --shape 50x33x40 --device cpu");
  return lines;
}

std::vector<std::string> described_problems() {
  std::vector<std::string> lines;
  GemmProblem product;
  product.m = 9;
  product.n = 33;
  product.k = 130;
  product.out_dtype = Dtype::f32;
  product.accumulate = true;
  lines.push_back(describe(product));
  product.b.block = kBlock1x128;
  product.b.dtype = Dtype::e5m2;
  product.accumulate = false;
  lines.push_back(describe(product));
  product.a = product.b = {Dtype::f16, {}, Major::mn};
  lines.push_back(describe(product));
  product.a = product.b = {Dtype::f32, {}, Major::k};
  lines.push_back(describe(product));
  product.accumulate = false;
  product.bias_dtype = Dtype::f32;
  product.max_multiprocessors = 64;
  lines.push_back(describe(product));
  product.a = {Dtype::e4m3, kEachRow, Major::k};
  product.b = {Dtype::e5m2, kWholeTensor, Major::k};
  product.fast_accumulation = true;
  lines.push_back(describe(product));

  Fp8LinearProblem layer;
  layer.m = 40;
  layer.n = 33;
  layer.k = 130;
  lines.push_back(describe(layer));
  layer.dtype = Dtype::f32;
  layer.grad_format = Dtype::e5m2;
  layer.dw_dtype = Dtype::f32;
  layer.accumulate_dw = true;
  layer.wgrad_blocks = WgradBlocks::square;
  layer.amax_floor = 1e-4f;
  layer.pow2_scales = true;
  lines.push_back(describe(layer));
  layer.bias_dtype = Dtype::f32;
  layer.dbias_dtype = Dtype::bf16;
  layer.max_multiprocessors = 64;
  lines.push_back(describe(layer));
  layer = {};
  layer.m = 40;
  layer.n = 33;
  layer.k = 130;
  for (const Granularity granularity : {Granularity::tensorwise, Granularity::rowwise}) {
    layer.granularity = granularity;
    layer.fast_accumulation = granularity == Granularity::rowwise;
    lines.push_back(describe(layer));
  }
  layer.granularity = Granularity::mxfp8;
  layer.fast_accumulation = false;
  layer.wgrad_blocks = WgradBlocks::square;
  layer.mx_scale = MxScale::even;
  lines.push_back(describe(layer));
  lines.emplace_back("gemm --dtype bf16 --shape 9x33x40 --max-multiprocessors 64 --device cpu");

  QuantizeProblem cast;
  cast.rows = 33;
  cast.cols = 130;
  lines.push_back(describe(cast));
  cast.block.reset();
  cast.transposed_block = kBlock128x128;
  cast.input_dtype = Dtype::f16;
  cast.format = Dtype::e5m2;
  cast.amax_floor = 0.5f;
  cast.pow2_scales = true;
  lines.push_back(describe(cast));
  cast.batch = 3;
  lines.push_back(describe(cast));
  cast.batch = 0;
  cast.groups = 4;
  cast.source_rows = 9;
  cast.tail = GroupTail::untouched;
  lines.push_back(describe(cast));
  lines.push_back(describe(cast) + " --group-sizes skewed");
  lines.push_back(describe(cast) + " --group-sizes 0,1,0,30");
  for (const std::string& line : described_memory_problems()) lines.push_back(line);
  for (const std::string& line : described_mlps()) lines.push_back(line);
  for (const std::string& line : described_grouped_problems()) lines.push_back(line);
  return lines;
}

TEST(ToolCheck, TakesEveryCommandLineThatAProblemPrints) {
  for (const std::string& line : described_problems()) {
    const Outcome outcome = run_tool("check " + line + " -v");
    EXPECT_EQ(outcome.status, 0) << line << "\n" << outcome.out << outcome.err;
    EXPECT_NE(outcome.out.find("\n  repeat with: octet check " + line + "\n"), std::string::npos)
        << outcome.out;
  }
}

TEST(ToolCheck, PrintsEveryGateWithItsBound) {
  const Outcome outcome =
      run_tool("check gemm --dtype fp8 --granularity blockwise --shape 40x33x130 --verbose");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* wanted :
       {"gate", "G1", "G2", "G5", "G6", "dx", "dw", "> 25 dB", "1 PASS, 0 FAIL"}) {
    EXPECT_NE(outcome.out.find(wanted), std::string::npos) << wanted << "\n" << outcome.out;
  }
}

TEST(ToolCheck, PrintsOneLinePerShapeAfterWhatRunsWhere) {
  const Outcome outcome = run_tool(
      "check quantize --shape 33x130 --shape 4x256 --block 1x128 --device cpu --threads 2");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::vector<std::string> lines;
  std::istringstream stream(outcome.out);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 4u) << outcome.out;
  EXPECT_TRUE(std::regex_match(
      lines[0], std::regex("octet [0-9.]+ \\(.+\\) · cpu: .+, 2 threads, .*AVX.* · cpu_.+")))
      << lines[0];
  EXPECT_EQ(lines[1],
            "PASS  33x130  3 gates  --dtype bf16 --format e4m3 --block 1x128 --device cpu");
  EXPECT_EQ(lines[2],
            "PASS  4x256  3 gates  --dtype bf16 --format e4m3 --block 1x128 --device cpu");
  EXPECT_EQ(lines[3], "2 PASS, 0 FAIL (-v shows every gate, octet check --explain their meaning)");
}

TEST(ToolCheck, TakesTheNumberOfGroupsFromTheirSizes) {
  const Outcome outcome =
      run_tool("check quantize --shape 400x200 --group-sizes 0,1,127,128,129 --device cpu");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* wanted :
       {"PASS  400x200  6 gates  --groups 5 --dtype bf16 --format e4m3 --block 1x128 "
        "--transposed-block 1x128 --device cpu --group-sizes 0,1,127,128,129",
        "--transposed-block 128x128 --device cpu --group-sizes 0,1,127,128,129",
        "2 PASS, 0 FAIL"}) {
    EXPECT_NE(outcome.out.find(wanted), std::string::npos) << wanted << "\n" << outcome.out;
  }
}

TEST(ToolCheck, NamesTheShapeOfTheBuffersWhereRowsAreLeftBehindTheLastGroup) {
  const Outcome outcome = run_tool(
      "check grouped-gemm --shape 42x24x32 --group-sizes 0,1,30 --dtype bf16 --device cpu");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("PASS  42x24x32  "), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("31x24x32"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("--shape"), std::string::npos) << outcome.out;  // the label has it
}

TEST(ToolCheck, TakesHybridFormatsOfEveryLayer) {
  for (const char* layer :
       {"gemm --shape 8x40x24", "gated-mlp --shape 8x40x24", "linear-cross-entropy --shape 8x40x24",
        "grouped-gemm --groups 2 --shape 16x40x24", "moe-mlp --shape 16x40x24 --experts 4"}) {
    const Outcome outcome =
        run_tool("check " + std::string(layer) + " --format hybrid --device cpu");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("--grad-format e5m2"), std::string::npos) << outcome.out;
  }
}

TEST(ToolCheck, GivesPlainLayersWeightGradientsOfTheirDtype) {
  for (const char* layer : {"gated-mlp", "linear-cross-entropy"}) {
    const std::string check = "check " + std::string(layer) + " --shape 8x40x24 --device cpu ";
    EXPECT_EQ(run_tool(check + "--dtype f16").out.find("--dw"), std::string::npos) << layer;
    const Outcome other = run_tool(check + "--dtype f16 --dw bf16");
    EXPECT_EQ(other.status, 0) << other.err;
    EXPECT_NE(other.out.find("--dw bf16"), std::string::npos) << other.out;
  }
}

TEST(ToolCheck, TakesEveryFormOfQuantize) {
  for (const char* options :
       {"--block 1xall --transposed-block 1xall", "--block allxall --transposed-block allxall",
        "--block allx1 --given-scales", "--block 1x32 --transposed-block 32x32 --mx-scale even",
        "--block 1x128 --transposed-block 128x128 --mx-scale up --fold-mx"}) {
    const Outcome outcome =
        run_tool(std::string("check quantize --shape 140x150 ") + options + " --device cpu");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find(std::string("--format e4m3 ") + options + " --device cpu"),
              std::string::npos)
        << outcome.out;
    EXPECT_NE(outcome.out.find("1 PASS, 0 FAIL"), std::string::npos) << outcome.out;
  }
}

TEST(ToolOps, NamesEveryImplementation) {
  const Outcome outcome = run_tool("ops --wide");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const auto& entry : gemm_implementations()) {
    EXPECT_NE(outcome.out.find(entry.name), std::string::npos) << entry.name;
  }
  for (const auto& entry : quantize_implementations()) {
    EXPECT_NE(outcome.out.find(entry.name), std::string::npos) << entry.name;
  }
  EXPECT_NE(outcome.out.find("no: blocks of a must be 1x128"), std::string::npos) << outcome.out;
  // Every device would refuse such a row.
  EXPECT_EQ(outcome.out.find("128x128 . 128x128"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("octet check says of any other whether it runs."), std::string::npos);
}

TEST(ToolOps, FitsATerminalAndGivesTheReasonsBelow) {
  const Outcome outcome = run_tool("ops", "COLUMNS=100");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(std::regex_search(outcome.out, std::regex("quantize +128x1 .* no \\(1\\)\n")))
      << outcome.out;
  EXPECT_NE(outcome.out.find("\n(1) takes bf16 and f16, the problem has f32"), std::string::npos);
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line) && line.rfind("(1)", 0) != 0;) {
    EXPECT_LE(bench::width_of(line), 100u) << line;
  }
}

TEST(ToolOps, MarkdownHasOneCellPerColumnInEveryRow) {
  const Outcome outcome = run_tool("ops --markdown");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::string line;
  std::getline(lines, line);
  const auto bars = std::count(line.begin(), line.end(), '|');
  EXPECT_GT(bars, 5);
  int rows = 0;
  for (; std::getline(lines, line) && !line.empty(); ++rows) {
    EXPECT_EQ(std::count(line.begin(), line.end(), '|'), bars) << line;
  }
  EXPECT_GT(rows, 10);
}

TEST(ToolDoctor, SaysWhatThisMachineHas) {
  const Outcome outcome = run_tool("doctor", "OCTET_NUM_THREADS=3");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* wanted :
       {"octet 0.", "device sources", "AVX2", "AVX-512", "memory", "CUDA driver", "GPUs",
        "OpenBLAS", "cuBLASLt", "cuDNN", "NVML", "OCTET_NUM_THREADS"}) {
    EXPECT_NE(outcome.out.find(wanted), std::string::npos) << wanted << "\n" << outcome.out;
  }
}

// The variables of octet that the sources read: those named in calls of getenv, and the variable
// that forces an implementation, for each operator that has a list of them.
std::set<std::string> variables_that_are_read() {
  const std::filesystem::path root = OCTET_SOURCE_DIR;
  const std::regex named("(?:getenv|environment)\\(\"(OCTET_[A-Z_]+)\"\\)");
  std::set<std::string> result;
  for (const char* folder : {"src", "tool"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file()) continue;
      const std::string text = read_file(entry.path());
      for (std::sregex_iterator match(text.begin(), text.end(), named), end; match != end;
           ++match) {
        result.insert((*match)[1]);
      }
      const auto path = entry.path().lexically_relative(root / "src" / "ops");
      if (*path.begin() != ".." && text.find("make_request(") != std::string::npos) {
        result.insert(backend_variable(path.begin()->string()));
      }
    }
  }
  return result;
}

TEST(ToolDoctor, NamesEveryVariableThatIsRead) {
  std::set<std::string> named;
  std::istringstream lines(run_tool("doctor").out);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("OCTET_", 0) == 0) named.insert(line.substr(0, line.find(' ')));
  }
  EXPECT_EQ(named, variables_that_are_read());
}

TEST(ToolDoctor, ShowsWhatIsWrongAndGoesOn) {
  const Outcome outcome = run_tool("doctor", "OCTET_NUM_THREADS=abc");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* wanted : {"threads of a run", "between 1 and 1024, got \"abc\"", "NVML"}) {
    EXPECT_NE(outcome.out.find(wanted), std::string::npos) << wanted << "\n" << outcome.out;
  }
}

TEST(Tool, PrintsItsVersionAndItsHelp) {
  EXPECT_EQ(run_tool("--version").status, 0);
  const Outcome help = run_tool("bench gemm --help", "COLUMNS=100");
  EXPECT_EQ(help.status, 0);
  for (const char* wanted : {"--shape", "--suite", "--baseline", "--prequantized", "--output",
                             "0 takes OCTET_NUM_THREADS, or one per core"}) {
    EXPECT_NE(help.out.find(wanted), std::string::npos) << wanted;
  }
}

}  // namespace
}  // namespace octet::tool
