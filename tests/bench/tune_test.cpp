// The search of tune(), with kernels whose times are made up.
#include "bench/tune/tune_search.hpp"
#include "support/refusal.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

namespace octet::bench {
namespace {

// A file that is removed with the test.
class CacheFile {
 public:
  CacheFile() {
    static int count = 0;
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("octet_tune_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(folder_);
  }
  ~CacheFile() { std::filesystem::remove_all(folder_); }
  CacheFile(const CacheFile&) = delete;
  CacheFile& operator=(const CacheFile&) = delete;

  std::string path() const { return (folder_ / "cache").string(); }
  void write(const std::string& content) const { std::ofstream(path()) << content; }
  std::string read() const {
    std::ifstream file(path());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }

 private:
  std::filesystem::path folder_;
};

// Times by "block". A kernel without a time throws; one listed in `wrong` fails its gate.
class FakeKernel {
 public:
  FakeKernel(std::initializer_list<std::pair<const std::int64_t, double>> seconds)
      : seconds_(seconds) {}

  Tuned tune(const TuneRequest& request) {
    return search(
        request, device, "-",
        [this](const Configuration& configuration, std::int64_t) {
          last_ = configuration["block"];
          if (!seconds_.contains(last_)) throw std::runtime_error("block is too large");
        },
        [this](const std::function<void()>& run) {
          run();
          Verdict verdict;
          verdict.pass = last_ != wrong;
          if (!verdict.pass) verdict.note = "SNR 3 dB, wanted > 50 dB";
          return verdict;
        },
        [this](const Part& first, const Part& second) {
          ++comparisons;
          first(0);
          const double first_seconds = seconds_.at(last_);
          second(0);
          return seconds_.at(last_) / first_seconds;
        },
        [this] {
          if (synchronize) synchronize();
        });
  }

  std::int64_t wrong = -1;
  std::string device = "H200";
  std::function<void()> synchronize;  // after a kernel threw
  int comparisons = 0;

 private:
  std::map<std::int64_t, double> seconds_;
  std::int64_t last_ = 0;
};

TuneRequest request_of(std::vector<std::int64_t> blocks, const std::string& cache = "") {
  TuneRequest request{.problem = "saxpy --n 8", .version = "1", .space = {{"block", blocks}}};
  request.cache = cache;
  request.warn = [](const std::string& message) { FAIL() << message; };
  return request;
}

TEST(Tune, ChoosesTheFastest) {
  FakeKernel kernel{{64, 3}, {128, 1}, {256, 2}};
  const Tuned tuned = kernel.tune(request_of({64, 128, 256}));
  EXPECT_EQ(describe(tuned.chosen), "block=128");
  EXPECT_FALSE(tuned.from_cache);
  ASSERT_EQ(tuned.candidates.size(), 3u);
  EXPECT_DOUBLE_EQ(tuned.candidates[1].speedup, 3) << "over the best before it";
  EXPECT_DOUBLE_EQ(tuned.candidates[2].speedup, 0.5);
}

TEST(Tune, EqualsDoNotReplaceTheBestSoFar) {
  FakeKernel kernel{{64, 1}, {128, 0.985}, {256, 0.97}};
  EXPECT_EQ(describe(kernel.tune(request_of({64, 128})).chosen), "block=64") << "1.5 % is a tie";
  EXPECT_EQ(describe(kernel.tune(request_of({64, 128, 256})).chosen), "block=256");
}

TEST(Tune, WhatFailsItsGateIsNeverTimedNorChosen) {
  FakeKernel kernel{{64, 1}, {128, 0.1}};
  kernel.wrong = 128;
  const Tuned tuned = kernel.tune(request_of({128, 64, 512}));
  EXPECT_EQ(describe(tuned.chosen), "block=64");
  EXPECT_EQ(kernel.comparisons, 0);
  EXPECT_FALSE(tuned.candidates[0].verdict.pass);
  EXPECT_EQ(tuned.candidates[2].verdict.note, "block is too large") << "what it threw";
}

TEST(Tune, ListsEveryReasonWhereNothingPasses) {
  FakeKernel kernel{{64, 1}};
  kernel.wrong = 64;
  EXPECT_EQ(refusal(
                [&] {
                  kernel.tune(request_of({64, 512}));
                },
                ErrorCode::unsupported),
            "tune: no configuration passes its gate\n"
            "  problem: saxpy --n 8\n"
            "  block=64: SNR 3 dB, wanted > 50 dB\n"
            "  block=512: block is too large");
}

TEST(Tune, KeepsChoicesByProblemDeviceAndVersion) {
  const CacheFile cache;
  FakeKernel kernel{{64, 2}, {128, 1}};
  TuneRequest request = request_of({64, 128}, cache.path());
  EXPECT_FALSE(kernel.tune(request).from_cache);
  const Tuned again = kernel.tune(request);
  EXPECT_TRUE(again.from_cache);
  EXPECT_EQ(describe(again.chosen), "block=128");
  EXPECT_EQ(kernel.comparisons, 1) << "the second time measured nothing";
  EXPECT_EQ(cache.read(),
            "octet tuning table 2, entries: 1\nsaxpy --n 8\tH200\t-\t1\tkernel\tblock=128\n");
  EXPECT_EQ(cache.files(), 1) << "nothing is left beside it";

  request.version = "2";
  EXPECT_FALSE(kernel.tune(request).from_cache);
  request.problem = "saxpy --n 9";
  EXPECT_FALSE(kernel.tune(request).from_cache);
  kernel.device = "H100";
  EXPECT_FALSE(kernel.tune(request).from_cache);
  EXPECT_TRUE(kernel.tune(request).from_cache);
}

TEST(Tune, MeasuringAgainKeepsTheChoiceUnlessItIsBeaten) {
  const CacheFile cache;
  cache.write("octet tuning table 2, entries: 1\nsaxpy --n 8\tH200\t-\t1\tkernel\tblock=128\n");
  TuneRequest request = request_of({64, 128}, cache.path());
  request.again = true;
  EXPECT_EQ(describe(FakeKernel{{64, 0.99}, {128, 1}}.tune(request).chosen), "block=128");
  EXPECT_EQ(describe(FakeKernel{{64, 0.9}, {128, 1}}.tune(request).chosen), "block=64");
  EXPECT_EQ(cache.read(),
            "octet tuning table 2, entries: 1\nsaxpy --n 8\tH200\t-\t1\tkernel\tblock=64\n");
}

TEST(Tune, AKeptChoiceOfAnotherSpaceIsMeasuredAgain) {
  const CacheFile cache;
  cache.write("octet tuning table 2, entries: 1\nsaxpy --n 8\tH200\t-\t1\tkernel\tblock=32\n");
  const Tuned tuned = FakeKernel{{64, 1}}.tune(request_of({64}, cache.path()));
  EXPECT_FALSE(tuned.from_cache);
  EXPECT_EQ(describe(tuned.chosen), "block=64");
}

TEST(Tune, AKeptChoiceThatNoLongerPassesIsReported) {
  const CacheFile cache;
  cache.write("octet tuning table 2, entries: 1\nsaxpy --n 8\tH200\t-\t1\tkernel\tblock=128\n");
  TuneRequest request = request_of({64, 128}, cache.path());
  std::string warning;
  request.warn = [&](const std::string& message) { warning = message; };
  FakeKernel kernel{{64, 2}, {128, 1}};
  kernel.wrong = 128;
  EXPECT_EQ(describe(kernel.tune(request).chosen), "block=64");
  EXPECT_EQ(warning,
            "block=128 of " + cache.path() + " no longer passes: SNR 3 dB, wanted > 50 dB");
}

TEST(Tune, BrokenLinesAreReportedAndTheOthersKept) {
  const CacheFile cache;
  cache.write(
      "octet tuning table 2, entries: 3\n"
      "other\tH200\t-\t1\tkernel\tblock=1\n"
      "saxpy --n 8\tH200\t-\t1\tkernel\n"
      "cut sho");
  TuneRequest request = request_of({64}, cache.path());
  std::vector<std::string> warnings;
  request.warn = [&](const std::string& message) { warnings.push_back(message); };
  EXPECT_EQ(describe(FakeKernel{{64, 1}}.tune(request).chosen), "block=64");
  EXPECT_EQ(warnings,
            (std::vector<std::string>{
                cache.path() + ": line 3 has 5 fields separated by tabs, wanted 6; what "
                               "is missing is measured again",
                cache.path() + ": line 4 has no end of line; what is missing is measured again"}));
  EXPECT_EQ(cache.read(),
            "octet tuning table 2, entries: 2\nother\tH200\t-\t1\tkernel\tblock=1\nsaxpy --n "
            "8\tH200\t-\t1\tkernel\tblock=64\n");
}

TEST(Tune, AFileThatWasCutIsReportedAndTheRestKept) {
  const CacheFile cache;
  cache.write("octet tuning table 2, entries: 2\nother\tH200\t-\t1\tkernel\tblock=1\n");
  TuneRequest request = request_of({64}, cache.path());
  std::string warning;
  request.warn = [&](const std::string& message) { warning = message; };
  EXPECT_EQ(describe(FakeKernel{{64, 1}}.tune(request).chosen), "block=64");
  EXPECT_EQ(warning, cache.path() +
                         ": has 1 entry, its first line says 2; what is missing is measured again");
  EXPECT_TRUE(cache.read().starts_with("octet tuning table 2, entries: 2\nother\t"))
      << cache.read();
}

TEST(Tune, AFileThatIsSomethingElseIsReportedAndNotChanged) {
  const CacheFile cache;
  for (const std::string first : {"my thesis", "", "octet tuning table 3, entries: 0"}) {
    const std::string content = first + "\n";
    cache.write(content);
    TuneRequest request = request_of({64}, cache.path());
    std::vector<std::string> warnings;
    request.warn = [&](const std::string& message) { warnings.push_back(message); };
    EXPECT_EQ(describe(FakeKernel{{64, 1}}.tune(request).chosen), "block=64");
    EXPECT_EQ(
        warnings,
        (std::vector<std::string>{
            cache.path() + ": the first line must be \"octet tuning table 2, entries: N\", got \"" +
            first + "\"; it is not changed: remove it or give another file"}));
    EXPECT_EQ(cache.read(), content);
  }
  cache.write("");
  FakeKernel{{64, 1}}.tune(request_of({64}, cache.path()));
  EXPECT_EQ(cache.read(),
            "octet tuning table 2, entries: 1\nsaxpy --n 8\tH200\t-\t1\tkernel\tblock=64\n")
      << "an empty file is an empty cache";
}

TEST(Tune, APipeIsNoCache) {
  const CacheFile cache;
  ASSERT_EQ(mkfifo(cache.path().c_str(), 0600), 0);  // opening it would wait for a writer
  TuneRequest request = request_of({64}, cache.path());
  std::string warning;
  request.warn = [&](const std::string& message) { warning = message; };
  EXPECT_EQ(describe(FakeKernel{{64, 1}}.tune(request).chosen), "block=64");
  EXPECT_NE(warning.find("is not a file and is not changed"), std::string::npos) << warning;
  EXPECT_TRUE(std::filesystem::is_fifo(cache.path()));
}

// As after an illegal address on a GPU: the default would be kept as the best of what was never timed.
TEST(Tune, ABrokenDeviceEndsTheSearchAndKeepsNothing) {
  const CacheFile cache;
  FakeKernel kernel{{64, 1}};
  kernel.synchronize = [] { throw Error(ErrorCode::device_error, "cuda: an illegal address"); };
  EXPECT_EQ(refusal(
                [&] {
                  kernel.tune(request_of({64, 128, 256}, cache.path()));
                },
                ErrorCode::device_error),
            "cuda: an illegal address");
  EXPECT_EQ(cache.files(), 0);
}

TEST(Tune, ACacheThatCannotBeWrittenCostsAWarning) {
  TuneRequest request = request_of({64}, "/nonexistent/folder/cache");
  std::string warning;
  request.warn = [&](const std::string& message) { warning = message; };
  EXPECT_EQ(describe(FakeKernel{{64, 1}}.tune(request).chosen), "block=64");
  EXPECT_EQ(
      warning,
      "the choice is not kept: cannot write /nonexistent/folder/cache: No such file or directory");
}

TEST(TuneThreads, ManyWritersNeverBreakTheFile) {
  const CacheFile cache;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&, writer] {
      for (int i = 0; i < 20; ++i) {
        TuneRequest request = request_of({64}, cache.path());
        request.problem = "problem " + std::to_string(writer) + " " + std::to_string(i);
        FakeKernel{{64, 1}}.tune(request);  // no warning: the file it reads is complete
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(cache.files(), 1);
  const std::string content = cache.read();
  EXPECT_EQ(content.rfind("octet tuning table 2, entries: ", 0), 0u);
  EXPECT_EQ(content.back(), '\n');
}

TEST(TuneSpace, TheLastParameterChangesFirst) {
  const std::vector<Configuration> all =
      combinations({{"block", {64, 128}}, {"stages", {2, 3, 4}}});
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(describe(all[0]), "block=64 stages=2");
  EXPECT_EQ(describe(all[1]), "block=64 stages=3");
  EXPECT_EQ(describe(all[5]), "block=128 stages=4");
  EXPECT_EQ(all[5]["stages"], 4);
  EXPECT_EQ(refusal([&] { (void)all[5]["warps"]; }),
            "tune: there is no parameter warps in block=128 stages=4");
}

TEST(TuneSpace, ConfigurationsAreReadAsTheyAreWritten) {
  for (const Configuration& each : combinations({{"a_1", {-5, 0}}, {"B", {1LL << 40}}})) {
    EXPECT_EQ(parse_configuration(describe(each)), each);
  }
  for (const char* broken : {"", " ", "a", "a=", "=1", "a=1x", "a=1,b=2", "a b=1", "a=1  b=2"}) {
    EXPECT_FALSE(parse_configuration(broken)) << broken;
  }
}

TEST(TuneSpace, RefusesWhatCannotBeMeant) {
  EXPECT_EQ(refusal([] { combinations({}); }),
            "tune: the space is empty; wanted at least one parameter");
  EXPECT_EQ(refusal([] { combinations({{"block", {}}}); }), "tune: parameter block has no values");
  EXPECT_EQ(refusal([] {
              combinations({{"a", {1}}, {"b", {1}}, {"a", {2}}});
            }),
            "tune: there are two parameters called a");
  EXPECT_EQ(refusal([] {
              combinations({{"a", {1, 2, 1}}});
            }),
            "tune: parameter a has the value 1 twice");
  EXPECT_EQ(refusal([] {
              combinations({{"a b", {1}}});
            }),
            "tune: the name of a parameter must be letters, digits and _, got \"a b\"");
  std::vector<std::int64_t> hundred(100);
  for (int i = 0; i < 100; ++i) hundred[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(refusal([&] {
              combinations({{"a", hundred}, {"b", hundred}, {"c", {1, 2}}});
            }),
            "tune: the space has more than 10000 combinations");
}

TEST(TuneSpace, RefusesKeysThatWouldBreakTheFile) {
  TuneRequest request = request_of({64});
  request.problem = "a\tb";
  EXPECT_EQ(refusal([&] {
              FakeKernel{{64, 1}}.tune(request);
            }),
            "tune: problem must be one line without tabs, got \"a\tb\"");
  request.problem = "";
  EXPECT_EQ(refusal([&] { FakeKernel{{64, 1}}.tune(request); }), "tune: problem is empty");
}

}  // namespace
}  // namespace octet::bench
