// octet ops: prints the support table, which is made from the implementation lists.
#include "tool/console.hpp"
#include "tool/machine/support.hpp"
#include "tool/operators/operator.hpp"
#include "tool/options/options.hpp"

#include <fmt/format.h>

#include <memory>

namespace octet::tool {
namespace {

// Joins probes, adjacent or not, that agree in everything except `field`.
std::vector<Support> merge_by(const std::vector<Support>& probes, std::string Support::*field) {
  std::vector<Support> merged;
  for (const Support& probe : probes) {
    const auto same = std::find_if(merged.begin(), merged.end(), [&](const Support& candidate) {
      Support other = candidate;
      other.*field = probe.*field;
      return other.op == probe.op && other.blocks == probe.blocks && other.dtypes == probe.dtypes &&
             other.outputs == probe.outputs && other.same_answers(probe);
    });
    if (same == merged.end()) {
      merged.push_back(probe);
    } else {
      ((*same).*field) += ", " + probe.*field;
    }
  }
  return merged;
}

// Every operator, casts first, without probes that no device takes. Joins probes that differ only
// in their dtypes, then those that differ only in their outputs.
std::vector<Support> probe_everything() {
  std::vector<std::unique_ptr<Operator>> all;
  for (const MakeOperator make : operators()) all.push_back(make());
  std::stable_partition(all.begin(), all.end(),
                        [](const auto& op) { return op->rows() == RowKind::cast; });
  std::vector<Support> result;
  for (const auto& op : all) {
    for (const Support& support :
         merge_by(merge_by(op->support(), &Support::dtypes), &Support::outputs)) {
      const auto& answers = support.answers;
      if (!std::all_of(answers.begin(), answers.end(), is_refusal)) result.push_back(support);
    }
  }
  return result;
}

std::vector<bench::Row> support_table() {
  std::vector<bench::Row> table{{"operator", "blocks", "operands", "result"}};
  for (const ProbeDevice& probe : probe_devices()) table[0].push_back(probe.name);
  for (const Support& support : probe_everything()) {
    table.push_back({support.op, support.blocks, support.dtypes, support.outputs});
    for (const std::string& answer : support.answers) table.back().push_back(answer);
  }
  return table;
}

int ops(bool markdown) {
  if (markdown) {
    print_markdown(support_table());
  } else {
    print_table(support_table(), support_table()[0].size());
  }
  fmt::print("\nWhat no device takes is left out.\n");
  return 0;
}

}  // namespace

const std::vector<ProbeDevice>& probe_devices() {
  static const std::vector<ProbeDevice> devices = [] {
    Machine plain;
    Machine avx2 = plain;
    avx2.avx2 = true;
    Machine avx512 = avx2;
    avx512.avx512 = true;
    Machine hopper = avx512;
    hopper.sm_major = 9;
    hopper.multiprocessors = 132;
    hopper.cublaslt = true;
    return std::vector<ProbeDevice>{{"cpu, AVX-512", kCpu, avx512},
                                    {"cpu, AVX2", kCpu, avx2},
                                    {"cpu, any x86-64", kCpu, plain},
                                    {"cuda, sm_90a", {DeviceType::cuda, 0}, hopper}};
  }();
  return devices;
}

void add_ops(CLI::App& octet, Chosen& chosen) {
  CLI::App& app = add_command(octet, "ops", "what is supported where");
  const auto markdown = std::make_shared<bool>(false);
  add_flag(app, "--markdown", *markdown, "as a Markdown table");
  choose_when_given(app, chosen, [markdown] { return ops(*markdown); });
}

}  // namespace octet::tool
