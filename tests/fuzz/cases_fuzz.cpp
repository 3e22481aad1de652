// Every file parser of the tool on arbitrary bytes: each reads them or throws UsageError. And that of tuning
// tables, which skips lines; what it has read it reads again from what is written of it.
#include "tool/cases/suites.hpp"
#include "tool/options/parse.hpp"
#include "tool/results/parsed_results.hpp"
#include "tool/suite/tasks.hpp"

#include "dispatch/tuning_table.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

template <class Call>
void may_refuse(Call call) {
  try {
    call();
  } catch (const octet::tool::UsageError&) {
  }
}

const std::vector<octet::tool::Model>& embedded_models() {
  static const auto models = octet::tool::parse_models(
      std::string(octet::tool::embedded_case_file("models.yaml")), "models.yaml");
  return models;
}

void every_case_of(const octet::tool::Model& model) {
  may_refuse([&] { octet::tool::layer_cases(model, {1, INT64_MAX}); });
  may_refuse([&] { octet::tool::grouped_cases(model, {1, 2}, {512, INT64_MAX}); });
  may_refuse([&] { octet::tool::attention_cases(model, {1}, true); });
}

void read_table_again(const std::string& text) {
  const auto skip = [](const std::string&) {};
  const auto entries = octet::parse_table(text, skip);
  if (entries && octet::parse_table(octet::table_text(*entries), skip) != entries) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  may_refuse([&] { octet::tool::parse_cases(text, "fuzz.csv"); });
  may_refuse([&] { octet::tool::parse_shape_cases(text, "fuzz.csv", "BxSxH", true); });
  may_refuse([&] { octet::tool::parse_results(text, "fuzz.csv"); });
  may_refuse([&] {
    const octet::tool::Suites suites = octet::tool::parse_suites(text, "fuzz.yaml");
    const std::vector<octet::tool::Model>& models = embedded_models();
    may_refuse([&] { octet::tool::random_sizes(suites, models); });
    for (const auto& one : suites.layers) octet::tool::layer_suite(suites, one.name, models);
    for (const auto& one : suites.grouped) octet::tool::grouped_suite(suites, one.name, models);
    for (const auto& one : suites.attention) octet::tool::attention_suite(suites, one.name, models);
  });
  may_refuse([&] {
    for (const auto& model : octet::tool::parse_models(text, "fuzz.yaml")) every_case_of(model);
  });
  may_refuse([&] { every_case_of(octet::tool::parse_model_config(text, "fuzz.json", "fuzz")); });
  may_refuse([&] { octet::tool::parse_tasks(text, "fuzz.yaml"); });
  read_table_again(text);
  std::int64_t shape[3] = {0, 0, 0};
  octet::tool::parse_shape(text, shape, 3);
  return 0;
}
