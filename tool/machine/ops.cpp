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

// Joins columns of devices that have the same answers in every row: "cpu, AVX-512 or AVX2".
void merge_devices(std::vector<bench::Row>& table, std::size_t first) {
  for (std::size_t i = first; i + 1 < table[0].size();) {
    const bool same = std::all_of(table.begin() + 1, table.end(),
                                  [&](const bench::Row& row) { return row[i] == row[i + 1]; });
    if (!same) {
      ++i;
      continue;
    }
    table[0][i] += " or " + table[0][i + 1].substr(table[0][i + 1].find(' ') + 1);
    for (bench::Row& row : table) row.erase(row.begin() + static_cast<std::ptrdiff_t>(i + 1));
  }
}

constexpr std::size_t kProblemColumns = 4;

// Every implementation, by name.
std::vector<bench::Row> support_table() {
  std::vector<bench::Row> table{{"operator", "blocks", "operands", "result"}};
  for (const ProbeDevice& probe : probe_devices()) table[0].push_back(probe.name);
  for (const Support& support : probe_everything()) {
    table.push_back({support.op, support.blocks, support.dtypes, support.outputs});
    for (const std::string& answer : support.answers) table.back().push_back(answer);
  }
  merge_devices(table, kProblemColumns);
  return table;
}

// "yes", or "no (1)" with the reasons in `reasons`, for a CPU and for a GPU: a CPU that lacks AVX2
// takes the same problems, only slower.
std::vector<bench::Row> brief_support_table(std::vector<std::string>& reasons) {
  const auto& probes = probe_devices();
  std::vector<bench::Row> table{{"operator", "blocks", "operands", "result", "CPU", "Hopper GPU"}};
  for (const Support& support : probe_everything()) {
    table.push_back({support.op, support.blocks, support.dtypes, support.outputs});
    for (const std::size_t device : {std::size_t{0}, probes.size() - 1}) {
      const std::string& answer = support.answers[device];
      if (!is_refusal(answer)) {
        table.back().emplace_back("yes");
        continue;
      }
      const std::string reason = answer.substr(answer.find(' ') + 1);
      const auto known = std::find(reasons.begin(), reasons.end(), reason);
      table.back().push_back(fmt::format("no ({})", known - reasons.begin() + 1));
      if (known == reasons.end()) reasons.push_back(reason);
    }
  }
  return table;
}

struct OpsOptions {
  bool markdown = false;
  bool wide = false;
};

int ops(const OpsOptions& options) {
  if (options.markdown) {
    print_markdown(support_table());
  } else if (options.wide) {
    print_table(support_table(), kProblemColumns, true);
  } else {
    std::vector<std::string> reasons;
    print_table(brief_support_table(reasons), kProblemColumns);
    for (std::size_t i = 0; i < reasons.size(); ++i) fmt::print("({}) {}\n", i + 1, reasons[i]);
  }
  fmt::print("\nThe usual combinations; octet check says of any other whether it runs.{}\n",
             options.wide || options.markdown ? "" : " --wide names the implementations.");
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
    hopper.cudnn_version = [] { return 91900; };
    return std::vector<ProbeDevice>{{"cpu, AVX-512", kCpu, avx512},
                                    {"cpu, AVX2", kCpu, avx2},
                                    {"cpu, any x86-64", kCpu, plain},
                                    {"cuda, sm_90a", {DeviceType::cuda, 0}, hopper}};
  }();
  return devices;
}

void add_ops(CLI::App& octet, Chosen& chosen) {
  CLI::App& app = add_command(
      octet, "ops", "List the operators: which data types and blocks run on which device.");
  const auto options = std::make_shared<OpsOptions>();
  add_flag(app, "--markdown", options->markdown, "Print all of it as a Markdown table.");
  add_flag(app, "--wide", options->wide,
           "Name the implementations, for every kind of device; the table is wide.");
  add_examples(app, {"octet ops", "octet ops --markdown > support.md"});
  choose_when_given(app, chosen, [options] { return ops(*options); });
}

}  // namespace octet::tool
