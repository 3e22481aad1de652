// --json: the rows of the CSV as objects.
#include "results.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <fstream>

namespace octet::tool {
namespace {

using Json = nlohmann::json;

const std::string kOne = "bench gemm --device cpu --shape 8x16x32 --warmup 1 --iters 3 ";

TEST(ToolJson, HasTheRowsOfTheCsvWithNumbersAsNumbers) {
  const Folder folder;
  const std::string cases = folder.file("cases.csv");
  std::ofstream(cases) << "test_id,model,op,mbs,M,N,K\n007,123,up,2,8,16,32\n8,b,up,1,8,16,33\n";
  const std::string both = "-o " + folder.file("x.csv") + " --json " + folder.file("x.json");
  ASSERT_EQ(
      run_tool("bench gemm --device cpu --suite " + cases + " --warmup 1 --iters 3 " + both).status,
      0);
  const Json json = Json::parse(read_file(folder.file("x.json")));
  EXPECT_EQ(json.at("op"), "gemm");
  EXPECT_TRUE(json.at("score").is_number());
  EXPECT_FALSE(json.at("commit").get<std::string>().empty());
  EXPECT_EQ(json.at("time").get<std::string>().size(), 20u);
  const Results results = read_results(folder.file("x.csv"));
  ASSERT_EQ(json.at("rows").size(), results.records.size());
  for (std::size_t r = 0; r < results.records.size(); ++r) {
    const Json& row = json.at("rows")[r];
    ASSERT_EQ(row.size(), results.header.size());
    for (const auto& [column, field] : results.records[r]) {
      const Json& value = row.at(column);
      if (field.empty()) {
        EXPECT_TRUE(value.is_null()) << column;
      } else if (value.is_number()) {
        EXPECT_DOUBLE_EQ(value.get<double>(), number_in(results.records[r], column)) << column;
      } else {
        EXPECT_EQ(value.get<std::string>(), field) << column;
      }
    }
    for (const char* number : {"MBS", "M", "Forward Time (ms)", "Backward TFLOPS", "Seed"}) {
      EXPECT_TRUE(row.at(number).is_number()) << number;
    }
    for (const char* text : {"Commit", "Case", "Check", "Command"}) {
      EXPECT_TRUE(row.at(text).is_string()) << text;
    }
    EXPECT_EQ(row.at("Device Sources").is_string(), !kernels_of("gemm").empty());
  }
  EXPECT_EQ(json.at("rows")[0].at("TestID"), "007");
  EXPECT_EQ(json.at("rows")[1].at("TestID"), 8);
}

TEST(ToolJson, NeedsNoCsv) {
  const Folder folder;
  const std::string path = folder.file("q.json");
  const std::string command =
      "bench quantize --device cpu --shape 8x16 --warmup 1 --iters 5 --json " + path;
  for (int i = 0; i < 2; ++i) {  // its own file may be replaced
    ASSERT_EQ(run_tool(command).status, 0);
    EXPECT_EQ(Json::parse(read_file(path)).at("rows").size(), 2u);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(ToolJson, ADashIsTheStandardOutput) {
  const Folder folder;
  const std::string rows = folder.file("x.csv");
  const Outcome outcome =
      run_tool(kOne + "--json - -o " + rows, "cd " + folder.path().string() + ";");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Json json = Json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << "only JSON, got: " << outcome.out;
  EXPECT_EQ(json.at("rows").size(), 1u);
  EXPECT_NE(outcome.err.find("1 PASS, 0 FAIL, 0 ERROR"), std::string::npos) << outcome.err;
  EXPECT_EQ(read_results(rows).records.size(), 1u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1)
      << "no file is called -";
  const Outcome full = run_tool(kOne + "--json - >/dev/full");
  EXPECT_EQ(full.status, 2);
  EXPECT_NE(full.err.find("--json -: No space left on device"), std::string::npos) << full.err;
}

// The score is the same quantity as in the history and in compare, in the unit of its operator.
TEST(ToolJson, SaysTheUnitOfTheScore) {
  const std::string brief = " --device cpu --warmup 1 --iters 5 --json -";
  for (const auto& [command, unit, column] : std::vector<std::array<std::string, 3>>{
           {"bench gemm --shape 8x16x32", "TFLOPS", "Combined Step TFLOPS"},
           {"bench quantize --shape 64x256 --block 1x128", "TB/s", "GB/s"},
           {"bench rms-norm --shape 16x256", "TB/s", "Combined Step GB/s"}}) {
    const Json json = Json::parse(run_tool(command + brief).out);
    EXPECT_EQ(json.at("score_unit"), unit);
    EXPECT_EQ(json.at("score_column"), column);
    ASSERT_EQ(json.at("rows").size(), 1u) << command;
    const double per_unit = unit == "TB/s" ? 1000 : 1;
    EXPECT_NEAR(json.at("score").get<double>() * per_unit,
                json.at("rows")[0].at(column).get<double>(), 1e-9)
        << command;
  }
}

TEST(ToolJson, ReplacesNothingElse) {
  const Folder folder;
  const std::string path = folder.file("x.json");
  const std::string rows = folder.file("x.csv");
  for (const std::string text : {"[1, 2]\n", "{\"mine\": 1}", "no JSON"}) {
    std::ofstream(path) << text;
    const Outcome outcome = run_tool(kOne + "--json " + path + " -o " + rows);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_NE(outcome.err.find("does not hold results"), std::string::npos) << outcome.err;
    EXPECT_EQ(read_file(path), text);
    EXPECT_FALSE(std::filesystem::exists(rows));
  }
  for (const std::string place : {"/no/such/folder/x.json", "/tmp", "/dev/full"}) {
    const Outcome outcome = run_tool(kOne + "--json " + place + " -o " + rows);
    EXPECT_EQ(outcome.status, 2) << place;
    EXPECT_NE(outcome.err.find("--json " + place), std::string::npos) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(rows)) << "nothing has been run";
  }
}

TEST(ToolJson, IsNoFileOfTheCsv) {
  const Folder folder;
  std::filesystem::create_directory_symlink(folder.path(), folder.file("link"));
  std::filesystem::create_symlink("target.csv", folder.file("dangling.csv"));
  const std::string here = folder.path().string();
  struct Pair {
    std::string rows;
    std::string json;
  };
  for (const Pair& pair :
       std::vector<Pair>{{"q.csv", "q.csv"},
                         {"q.csv", "./q.csv"},
                         {"q.csv", here + "/q.csv"},
                         {"dangling.csv", "target.csv"},
                         {"./q.csv", "link/../" + here.substr(here.rfind('/') + 1) + "/q.csv"},
                         {"q.csv", "link/q.csv"},
                         {"q.csv", "q.csv.partial"},
                         {"q.csv", "./q.csv.new"},
                         {"q.json.new", "q.json"}}) {
    const Outcome outcome =
        run_tool(kOne + "-o " + pair.rows + " --json " + pair.json, "cd " + here + ";");
    EXPECT_EQ(outcome.status, 2) << pair.rows << " " << pair.json;
    EXPECT_NE(outcome.err.find("-o and --json must be two files, got -o " + pair.rows +
                               " and --json " + pair.json),
              std::string::npos)
        << outcome.err;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2)
      << "nothing but the links";
}

}  // namespace
}  // namespace octet::tool
