// octet ops: the support table, made from the implementation lists.
#include "tool/commands.hpp"
#include "tool/console.hpp"
#include "tool/options/options.hpp"
#include "tool/machine/support.hpp"

#include <fmt/format.h>

#include <memory>

namespace octet::tool {
namespace {

std::vector<std::vector<std::string>> support_table() {
  std::vector<std::vector<std::string>> table{{"operator", "blocks", "operands", "result"}};
  for (const std::string& device : support_devices()) table[0].push_back(device);
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

void add_ops(CLI::App& octet, Chosen& chosen) {
  CLI::App* app = octet.add_subcommand("ops", "what is supported where");
  const auto markdown = std::make_shared<bool>(false);
  add_flag(*app, "--markdown", *markdown, "as a Markdown table");
  choose_when_given(*app, chosen, [markdown] { return ops(*markdown); });
}

}  // namespace octet::tool
