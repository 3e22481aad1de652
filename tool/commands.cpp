#include "tool/commands.hpp"

#include <CLI/CLI.hpp>

#include <utility>

namespace octet::tool {

CLI::App& add_command(CLI::App& parent, const std::string& name, const std::string& about) {
  return *parent.add_subcommand(name, about);
}

void require_command(CLI::App& app) { app.require_subcommand(1); }

void choose_when_given(CLI::App& app, Chosen& chosen, std::function<int()> run,
                       std::function<std::vector<BenchCase>()> cases) {
  app.callback([&app, &chosen, run = std::move(run), cases = std::move(cases)] {
    chosen = {&app, run, cases};
  });
}

void choose_without_command(CLI::App& app, Chosen& chosen, std::function<int()> run) {
  app.callback([&app, &chosen, run = std::move(run)] {
    if (app.get_subcommands().empty()) chosen = {&app, run, {}};
  });
}

}  // namespace octet::tool
