// Every file parser of the tool on arbitrary bytes: each reads them or throws UsageError.
#include "tool/cases/cases.hpp"
#include "tool/options/parse.hpp"
#include "tool/results/parsed_results.hpp"
#include "tool/suite/tasks.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace {

template <class Call>
void may_refuse(Call call) {
  try {
    call();
  } catch (const octet::tool::UsageError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  may_refuse([&] { octet::tool::parse_cases(text, "fuzz.csv"); });
  may_refuse([&] { octet::tool::parse_shape_cases(text, "fuzz.csv", "BxSxH", true); });
  may_refuse([&] { octet::tool::parse_results(text, "fuzz.csv"); });
  may_refuse([&] {
    for (const octet::tool::Suite& suite : octet::tool::parse_suites(text, "fuzz.yaml")) {
      octet::tool::suite_cases(suite, octet::tool::embedded_case_file("dense84.csv"));
    }
  });
  may_refuse([&] { octet::tool::parse_tasks(text, "fuzz.yaml"); });
  std::int64_t shape[3] = {0, 0, 0};
  octet::tool::parse_shape(text, shape, 3);
  return 0;
}
