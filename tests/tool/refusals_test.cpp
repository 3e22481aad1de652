// Every wrong command line gives one line on stderr that says what was wanted, and status 2.
#include "run_tool.hpp"

#include <algorithm>
#include <array>

namespace octet::tool {
namespace {

struct Refusal {
  const char* name;
  const char* arguments;
  std::array<const char*, 2> wanted;  // in the line
  const char* environment = "";
};

class ToolRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(ToolRefuses, WithOneLineAndStatusTwo) {
  const Refusal& refusal = GetParam();
  const Outcome outcome = run_tool(refusal.arguments, refusal.environment);
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  for (const char* wanted : refusal.wanted) {
    EXPECT_NE(outcome.err.find(wanted), std::string::npos) << outcome.err;
  }
}

constexpr const char* kShape = "three whole numbers between 1 and 9223372036854775807";

INSTANTIATE_TEST_SUITE_P(
    , ToolRefuses,
    testing::Values(
        Refusal{"NoCommand", "", {"bench", "doctor"}},
        Refusal{"UnknownCommand", "bnech", {"bnech", "did you mean bench"}},
        Refusal{"UnknownOperator", "bench gem", {"gem", "did you mean gemm"}},
        Refusal{"NoOperator", "check", {"gemm", "quantize"}},
        Refusal{"UnknownOption",
                "bench gemm --zzz",
                {"there is no --zzz", "octet bench gemm --help lists the options"}},
        Refusal{"SeveralShapes",
                "check gemm --shape 16x16x16 16x16x32",
                {"unexpected argument \"16x16x32\"", "to give several values repeat --shape"}},
        Refusal{"SeveralMicroBatches",
                "bench gemm --model Llama-3.1-8B --mbs 1 2",
                {"unexpected argument \"2\"", "to give several values repeat --model or --mbs"}},
        Refusal{"UnexpectedWord",
                "bench gemm --cold 1",
                {"unexpected argument \"1\"", "octet bench gemm --help lists the options"}},
        Refusal{"UnknownShortOption",
                "report r -O x",
                {"there is no -O", "octet report --help lists the options"}},
        Refusal{"MisspeltOption", "bench gemm --shpe 1x1x1", {"--shpe", "did you mean --shape"}},
        Refusal{"ShapeWithoutK", "bench gemm --shape 12x", {"MxNxK", kShape}},
        Refusal{"ShapeWithTwoFactors", "bench gemm --shape 12x13", {"MxNxK", kShape}},
        Refusal{"ShapeWithFourFactors", "bench gemm --shape 1x2x3x4", {"MxNxK", kShape}},
        Refusal{"ZeroShape", "bench gemm --shape 0x1x1", {"0x1x1", kShape}},
        Refusal{"NegativeShape", "bench gemm --shape=-1x1x1", {"-1x1x1", kShape}},
        Refusal{"EmptyShape", "bench gemm --shape ''", {"MxNxK", kShape}},
        Refusal{"ShapeWithLetters", "bench gemm --shape 1x1xk", {"1x1xk", kShape}},
        Refusal{"ShapeBeyond64Bits",
                "bench gemm --shape 99999999999999999999x1x1",
                {"99999999999999999999x1x1", kShape}},
        Refusal{"ShapeWhoseProductOverflows",
                "bench gemm --shape 4000000000x4000000000x4000000000",
                {"4000000000 x 4000000000", "2^58 elements"}},
        Refusal{"MissingShape", "bench gemm --shape", {"--shape needs a value: MxNxK", "gemm"}},
        Refusal{"MissingOutput", "bench gemm -o", {"--output needs a value: FILE.csv", "gemm"}},
        Refusal{"QuantizeShape", "bench quantize --shape 1x2x3", {"RxC", "1x2x3"}},
        Refusal{"QuantizeBlock", "check quantize --block 7", {"--block", "128x128"}},
        Refusal{"QuantizeNothing",
                "check quantize --block none",
                {"got --block none", "nothing to write"}},
        Refusal{"QuantizeNeitherWay",
                "check quantize --block none --transposed-block none",
                {"got none for both", "nothing to write"}},
        Refusal{"GroupSizesOfNoKind",
                "check quantize --shape 4x4 --groups 2 --group-sizes even",
                {"--group-sizes must be balanced, skewed, zipf", "\"even\""}},
        Refusal{"GroupSizesOfOtherGroups",
                "check quantize --shape 4x4 --groups 3 --group-sizes 1,2",
                {"--group-sizes has 2 sizes", "--groups is 3"}},
        Refusal{"GroupSizesBeyondTheRows",
                "bench quantize --shape 4x4 --group-sizes 3,2",
                {"--group-sizes: the groups have 5 rows together", "the shape has 4"}},
        Refusal{"GroupSizesWithoutGroups",
                "check quantize --shape 4x4 --group-sizes zipf",
                {"--group-sizes zipf goes", "with --groups"}},
        Refusal{"TailWithoutGroups",
                "check quantize --shape 4x4 --tail untouched",
                {"--tail goes", "with --groups"}},
        Refusal{"SourceWithoutGroups",
                "check quantize --shape 4x4 --source-rows 3",
                {"--source-rows goes", "with --groups"}},
        Refusal{"BatchOfGroups",
                "check quantize --shape 4x4 --batch 2 --groups 2",
                {"--batch and --groups", "do not go together"}},
        Refusal{"SquareBlocksOfGroups",
                "check quantize --shape 4x4 --groups 2 --block 128x128",
                {"block must be 1x128 with groups", "got 128x128"}},
        Refusal{"Fp8NeitherWay",
                "check rms-norm --shape 4x256 --fp8 e4m3 --block none --transposed-block none",
                {"got none for both", "nothing to write"}},
        Refusal{"EpsBeyondF32",
                "check rms-norm --shape 4x4 --eps 1e300",
                {"--eps must be 0 or a number between 1.4e-45 and 3.4e+38", "\"1e300\""}},
        Refusal{"FloorBeyondF32",
                "check quantize --shape 4x4 --amax-floor 1e39",
                {"--amax-floor must be 0 or a number between", "\"1e39\""}},
        Refusal{"FloorBelowF32",
                "check gemm --shape 4x4x4 --amax-floor 1e-320",
                {"--amax-floor must be 0 or a number between", "\"1e-320\""}},
        Refusal{"NegativeFloor",
                "check gated-mlp --shape 4x4x4 --amax-floor=-1",
                {"--amax-floor must be 0 or a number between", "\"-1\""}},
        Refusal{"FlagWithAValue",
                "check gemm --pow2-scales=1",
                {"--pow2-scales takes no value", "got \"1\""}},
        Refusal{"NormShape", "bench rms-norm --shape 4", {"RxC, two whole numbers", "\"4\""}},
        Refusal{"RopeShape", "check rope --shape 1x2", {"BxSxH, three whole numbers", "\"1x2\""}},
        Refusal{"HeadsThatDoNotDivide",
                "bench rope --shape 1x2x100 --heads 3",
                {"the H of --shape must be a multiple of --heads 3, got 100", "octet bench rope"}},
        Refusal{"HeadDimThatDoesNotDivide",
                "check rms-norm-rope --shape 1x2x100 --head-dim 64",
                {"the H of --shape must be a multiple of --head-dim 64, got 100", "check"}},
        Refusal{"HeadsAndHeadDim",
                "bench rope --shape 1x2x128 --heads 2 --head-dim 64",
                {"--heads 2 and --head-dim 64", "give one"}},
        Refusal{"OddHeadDim",
                "bench rope --shape 1x2x99 --head-dim 33 --device cpu",
                {"head_dim must be even, got 33", "rope"}},
        Refusal{"TooFewCacheRows",
                "check rope --shape 1x8x128 --cache-rows 7 --device cpu",
                {"cache_rows", "7"}},
        Refusal{"PositionsOfFloats", "bench rope --positions f32", {"i32, i64", "f32"}},
        Refusal{"UnknownActivation",
                "bench gated-activation --activation tanh",
                {"silu, gelu_tanh, gelu_erf, relu_squared", "\"tanh\""}},
        Refusal{"BlockWithoutFp8",
                "bench rms-norm --block 1x128",
                {"--block, --transposed-block", "go with --fp8"}},
        Refusal{"InferenceHasNoBackwardToTime",
                "bench rms-norm --inference",
                {"there is no --inference", "octet bench rms-norm --help lists the options"}},
        Refusal{"MlpShape", "bench gated-mlp --shape 4x4", {"MxFxK, three whole", "\"4x4\""}},
        Refusal{"UnfusedWithoutFp8",
                "bench gated-mlp --dtype bf16 --unfused",
                {"--unfused goes with --dtype fp8", "got --dtype bf16"}},
        Refusal{"UnknownNormBackend",
                "bench rms-norm --shape 4x4 --device cpu --backend cpu_smid",
                {"cpu_smid", "cpu_reference"}},
        Refusal{"UnknownModel", "bench gemm --model GPT-9", {"GPT-9", "Llama-3.1-405B"}},
        Refusal{"MissingModelFile",
                "bench gemm --model no/config.json",
                {"--model no/config.json: No such file", "or a Hugging Face config.json"}},
        Refusal{"ModelFileWithASuite",
                "bench gemm --model x.json --suite quick",
                {"--model x.json has layers of its own", "--suite quick"}},
        Refusal{"DrawnLayersAndNamedOnes",
                "bench gemm --random 3 --shape 1x1x1 --mbs 2",
                {"--random 3 draws the layers", "--shape and --mbs name others: give one of them"}},
        Refusal{"DrawnLayersAndASuite",
                "check gemm --random 3 --suite quick",
                {"--random 3 draws the layers", "--suite names others: give one of them"}},
        Refusal{"NoDrawnLayer", "bench gemm --random 0", {"--random", "between 1 and 100000"}},
        Refusal{"DrawnCasts", "bench quantize --random 3", {"there is no --random", "quantize"}},
        Refusal{"SequenceBeyond64Bits",
                "bench gemm --mbs 2 --seq 9223372036854775807",
                {"2 sequences of 9223372036854775807 tokens", "64 bits"}},
        Refusal{"UnknownMicroBatch", "bench gemm --mbs 3", {"micro-batch of 3", "1, 2, 4"}},
        Refusal{"UnknownSuite", "bench gemm --suite slow", {"slow", "dense84, quick"}},
        Refusal{"MissingFile", "bench gemm --suite no/such.csv", {"no/such.csv", "No such file"}},
        Refusal{"FolderForAFile", "bench gemm --suite /tmp/", {"/tmp/", "folder"}},
        Refusal{"UnknownDevice", "bench gemm --device gpu", {"cpu, cuda or cuda:", "gpu"}},
        Refusal{"AbsentDevice", "bench gemm --shape 1x1x1 --device cuda:99", {"cuda:99", "cpu"}},
        Refusal{"UnknownDtype", "bench gemm --dtype fp4", {"fp8, bf16, f16", "fp4"}},
        Refusal{"UnknownGranularity", "bench gemm --granularity row", {"blockwise", "rowwise"}},
        Refusal{"GranularityOfPlainProducts",
                "bench gemm --dtype bf16 --granularity rowwise",
                {"--granularity goes with --dtype fp8", "got --dtype bf16"}},
        Refusal{"BlocksOfTheWeightGradientWithoutBlocks",
                "check gated-mlp --granularity rowwise --wgrad-blocks 2d",
                {"--wgrad-blocks 2d goes with --granularity blockwise or mxfp8", "got rowwise"}},
        Refusal{
            "OptionsOfFp8InPlainLayers",
            "check gated-mlp --dtype f32 --format hybrid --mx-scale up --fast-accumulation",
            {"--format, --mx-scale, --fast-accumulation go with --dtype fp8", "got --dtype f32"}},
        Refusal{"HybridWithOtherGradients",
                "check gemm --format hybrid --grad-format e4m3",
                {"--format hybrid has gradients in e5m2", "got --grad-format e4m3"}},
        Refusal{"HybridMlpWithOtherGradients",
                "check gated-mlp --format hybrid --grad-format e4m3",
                {"--format hybrid has gradients in e5m2", "got --grad-format e4m3"}},
        Refusal{"UnknownFormat", "bench gemm --format e3m4", {"e4m3, e5m2", "e3m4"}},
        Refusal{"UnknownBaseline", "bench gemm --baseline mkl", {"openblas", "mkl"}},
        Refusal{"BaselineOfAnotherDevice",
                "bench gemm --shape 1x1x1 --device cpu --baseline cublaslt",
                {"cublaslt runs on a GPU", "the layer on cpu"}},
        Refusal{"ShardBeyondTheLast",
                "bench gemm --shape 1x1x1 --num-shards 2 --shard-id 2",
                {"--shard-id", "below --num-shards 2"}},
        Refusal{"NoShards", "bench quantize --num-shards 0", {"--num-shards", "\"0\""}},
        Refusal{"FirstCallOfTheCpu", "doctor --first-call --device cpu", {"CUDA device", "cpu"}},
        Refusal{"DeviceWithoutFirstCall",
                "doctor --device cuda:7",
                {"--device goes with --first-call", "got --device cuda:7"}},
        Refusal{"SummarizeTwoFolders",
                "summarize r s",
                {"\"s\" is an argument too many", "wanted RESULTS"}},
        Refusal{"CompareThreeFiles",
                "compare a b c",
                {"\"c\" is an argument too many", "wanted OLD NEW"}},
        Refusal{"ShowTwoRuns", "history show 1 2", {"\"2\" is an argument too many", "wanted ID"}},
        Refusal{"SummarizeAnEmptyPath", "summarize ''", {"RESULTS", "got nothing"}},
        Refusal{"CompareWithOneFile", "compare a.csv", {"NEW is required: The", "to compare with"}},
        Refusal{"AdviseWithoutAShape", "advise", {"--shape is required", "MxNxK"}},
        Refusal{"AdviseOnTwoExtents", "advise --shape 8x16", {"MxNxK", "8x16"}},
        Refusal{"AdviseForAnUnknownGpu",
                "advise --shape 8x16x32 --gpu Voodoo",
                {"--gpu Voodoo: no published results", "there are: NVIDIA H200"}},
        Refusal{"AdviseForTwoDevices",
                "advise --shape 8x16x32 --gpu H200 --device cpu",
                {"--device is of this machine", "give one"}},
        Refusal{"AdviseIntoOneFile",
                "advise --shape 8x16x32 --gpu H200 -o a --json a",
                {"-o and --json must be two files", "both write a"}},
        Refusal{"AcrossSomethingElse",
                "compare --across backend a.csv",
                {"--across must be one of granularity, wgrad-blocks, dtype", "\"backend\""}},
        Refusal{"AcrossFolders",
                "compare --across dtype /tmp",
                {"--across pairs the rows of CSVs", "/tmp is a folder"}},
        Refusal{"AcrossWithAThreshold",
                "compare --across dtype a.csv b.csv --threshold 3",
                {"--threshold and --any-settings judge", "--across judges none"}},
        Refusal{"SuiteWithoutAFolder", "bench suite", {"-d is required: Where rows", "suite"}},
        Refusal{"CompareWithoutAFile", "compare no/a.csv no/b.csv", {"no/a.csv", "No such file"}},
        Refusal{"CompareAFolderWithAFile",
                "compare /tmp no/b.csv",
                {"/tmp is a folder", "two CSVs or two folders"}},
        Refusal{"NegativeThreshold", "compare a b --threshold=-1", {"--threshold", "-1"}},
        Refusal{"WordForANumber", "bench gemm --iters many", {"--iters", "many"}},
        Refusal{"NegativeNumber", "bench gemm --iters=-1", {"--iters", "-1"}},
        Refusal{"TooManyThreads", "bench gemm --threads 9999", {"--threads", "1024"}},
        Refusal{"InfiniteSeconds", "bench gemm --seconds-per-case inf", {"number", "inf"}},
        Refusal{"OutputInNoFolder",
                "bench gemm --shape 1x1x1 -o /no/such/folder/x.csv",
                {"/no/such/folder/x.csv", "folder that exists"}},
        Refusal{"OutputIsAFolder", "bench gemm --shape 1x1x1 -o /tmp", {"/tmp", "folder"}},
        Refusal{"OutputIsADevice", "bench gemm --shape 1x1x1 -o /dev/null", {"is a device", "-o"}},
        Refusal{"UnknownBackend",
                "bench gemm --shape 1x1x1 --backend nonsense",
                {"nonsense", "cpu_reference"}},
        Refusal{"UnknownBackendInTheEnvironment",
                "bench gemm --shape 128x128x128",
                {"OCTET_GEMM_BACKEND", "cpu_reference"},
                "OCTET_GEMM_BACKEND=nonsense"},
        Refusal{"ThreadsInTheEnvironment",
                "bench gemm --shape 128x128x128",
                {"OCTET_NUM_THREADS", "none"},
                "OCTET_NUM_THREADS=none"},
        Refusal{"PrequantizedWithoutFp8",
                "bench gemm --dtype bf16 --prequantized --shape 1x1x1",
                {"--prequantized", "fp8"}},
        Refusal{"FormatWithoutFp8",
                "bench gemm --dtype bf16 --format e4m3 --shape 1x1x1",
                {"--format", "--dtype bf16"}},
        Refusal{"OneOperand", "check gemm --shape 1x1x1 --a bf16", {"--a", "--b"}},
        Refusal{"UnknownOperand",
                "check gemm --shape 1x1x1 --a e4m3 --b e4m3:1x128",
                {"--a", "128x128"}},
        Refusal{"LayerOptionsOfAProduct",
                "check gemm --shape 16x16x16 --a bf16 --b bf16 --accumulate-dw --dw f32 --dtype "
                "fp8 --format e5m2 --pow2-scales --amax-floor 3 --wgrad-blocks 2d --input f32",
                {"--dtype, --input, --format, --wgrad-blocks, --dw, --accumulate-dw, --amax-floor, "
                 "--pow2-scales go with a layer",
                 "not with --a and --b"}},
        Refusal{"LayerOptionOfAProduct",
                "check gemm --shape 16x16x16 --a bf16 --b bf16 --granularity blockwise",
                {"--granularity goes with a layer", "not with --a and --b"}},
        Refusal{"CastOfAProduct",
                "check gemm --shape 16x16x16 --a bf16 --b bf16 --quantize-backend cpu_reference",
                {"--quantize-backend goes with a layer", "not with --a and --b"}},
        Refusal{"BiasGradientOfAProduct",
                "check gemm --shape 16x16x16 --a bf16 --b bf16 --dbias f32",
                {"--dbias goes with a layer", "not with --a and --b"}},
        Refusal{"BiasGradientOfAPlainLayer",
                "bench gemm --shape 1x1x1 --dtype bf16 --dbias f32",
                {"--dbias goes with --dtype fp8", "got --dtype bf16"}},
        Refusal{"BiasOfAnotherDtype",
                "bench gemm --shape 1x1x1 --bias f16",
                {"f32 or that of y, bf16", "f16"}},
        Refusal{"AccumulateIntoF16",
                "bench gemm --shape 1x1x1 --dw f16 --accumulate-dw",
                {"f32 or bf16", "f16"}}),
    [](const testing::TestParamInfo<Refusal>& refusal) { return std::string(refusal.param.name); });

// A message quotes what was given, which must not reach the terminal as a command.
TEST(Tool, EscapesControlCharactersOfWhatItRefuses) {
  for (const char* place : {"bench gemm --shape ", "bench gemm --zz", "check gemm --shape 1x1x1 ",
                            "", "summarize no/", "bench gemm --shape 1x1x1 --backend "}) {
    const Outcome outcome =
        run_tool(std::string(place) + "\"$(printf '\\033[31mred\\007\\nline')\"");
    SCOPED_TRACE(place);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(outcome.err.find_first_of("\033\007"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("\\x1b[31mred\\x07"), std::string::npos) << outcome.err;
  }
}

TEST(Tool, NamesThePackageOfAMissingBaseline) {
  const Folder folder;
  std::ofstream(folder.file("libopenblas.so.0")) << "not a library";
  const Outcome outcome = run_tool(
      "bench gemm --device cpu --shape 1x1x1 --baseline openblas -o " + folder.file("x.csv"),
      "LD_LIBRARY_PATH=" + folder.path().string());
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("libopenblas0-pthread"), std::string::npos) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(folder.file("x.csv")));
  EXPECT_FALSE(std::filesystem::exists(folder.file("x.csv.partial")));
}

TEST(Tool, RefusesAFileOfCasesByItsRowAndColumn) {
  const Folder folder;
  const std::string path = folder.file("cases.csv");
  std::ofstream(path) << "test_id,model,op,mbs,M,N,K\n1,A,b,1,64,zero,64\n";
  const Outcome outcome = run_tool("bench gemm --suite " + path);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("row 2: N must be a whole number"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace octet::tool
