// One function per subcommand. Each adds its command to the parent and, if that command is given,
// stores in `chosen` the function to run, which returns the exit status.
#pragma once

#include "tool/results/stored_results.hpp"

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace octet::tool {

struct Chosen {
  CLI::App* app = nullptr;
  std::function<int()> run;
  // Only for octet bench OP: its cases. Throws if the options name none or contradict each other.
  // Runs nothing and opens no GPU.
  std::function<std::vector<BenchCase>()> cases;
};

// Adds a subcommand to `parent`. Few files call CLI11 itself, since each that does compiles much of
// its header again.
CLI::App& add_command(CLI::App& parent, const std::string& name, const std::string& about);
// Exactly one subcommand must be given.
void require_command(CLI::App& app);

// Stores the command in `chosen` once the parser has read it.
void choose_when_given(CLI::App& app, Chosen& chosen, std::function<int()> run,
                       std::function<std::vector<BenchCase>()> cases = {});
// The same, if no subcommand of `app` is given.
void choose_without_command(CLI::App& app, Chosen& chosen, std::function<int()> run);

void add_bench_operators(CLI::App& bench, Chosen& chosen);
void add_bench_suite(CLI::App& bench, Chosen& chosen);
void add_check_operators(CLI::App& check, Chosen& chosen);
void add_compare(CLI::App& octet, Chosen& chosen);
void add_report(CLI::App& octet, Chosen& chosen);
void add_summarize(CLI::App& octet, Chosen& chosen);
void add_ops(CLI::App& octet, Chosen& chosen);
void add_history(CLI::App& octet, Chosen& chosen);
void add_doctor(CLI::App& octet, Chosen& chosen);

}  // namespace octet::tool
