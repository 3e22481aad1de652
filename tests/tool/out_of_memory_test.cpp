// The tool with too little address space for its work.
#include "tool/run_tool.hpp"

#include <gtest/gtest.h>

#include <string>

namespace octet::tool {
namespace {

// A sanitizer reserves terabytes of address space.
#ifdef OCTET_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

Outcome check_with(int kilobytes) {
  return run_tool("check gemm --shape 4096x4096x1 --device cpu --threads 1",
                  "ulimit -v " + std::to_string(kilobytes) + ";");
}

// With little space the first tensor does not fit, which octet::Buffer reports; with a little more
// the first allocation of the standard library fails. Where that is depends on the machine.
TEST(OutOfMemory, IsAPlainSentence) {
  if (kSanitized) GTEST_SKIP() << "needs a build without sanitizers";
  const std::string sentence = "octet check gemm: the process is out of memory\n";
  bool said = false;
  for (int kilobytes = 40000; kilobytes < 150000 && !said; kilobytes += 10000) {
    const Outcome outcome = check_with(kilobytes);
    SCOPED_TRACE("ulimit -v " + std::to_string(kilobytes));
    ASSERT_EQ(outcome.status, 1) << outcome.err;
    ASSERT_EQ(outcome.err.find("bad_alloc"), std::string::npos) << outcome.err;
    said = outcome.err == sentence;
    // With the least, not even the command line was read.
    if (!said && outcome.err != "octet: the process is out of memory\n") {
      ASSERT_NE(outcome.err.find("could not be allocated"), std::string::npos) << outcome.err;
    }
  }
  EXPECT_TRUE(said) << "no limit led to \"" << sentence << "\"";
}

}  // namespace
}  // namespace octet::tool
