// One function per subcommand: each adds itself to its parent and, when it is the one that was
// given, leaves in `chosen` what is to be done. That returns the exit status.
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
  // Of octet bench OP only: its cases. Throws where its options name none or do not go together.
  // Nothing is run, and no GPU is opened.
  std::function<std::vector<BenchCase>()> cases;
};

// A subcommand of `parent`. CLI11's own functions are called in few files: each file that does compiles much
// of its header anew.
CLI::App& add_command(CLI::App& parent, const std::string& name, const std::string& about);
// Exactly one subcommand must be given.
void require_command(CLI::App& app);

// Leaves the command in `chosen` when the parser has read it.
void choose_when_given(CLI::App& app, Chosen& chosen, std::function<int()> run,
                       std::function<std::vector<BenchCase>()> cases = {});
// The same where no subcommand of `app` is given.
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
