// The command line: its commands and their options. Every bad value gets a one-line message that
// says what was wanted.
#pragma once

#include "tool/options/parse.hpp"
#include "tool/results/stored_results.hpp"

#include <octet/device.hpp>
#include <octet/dtype.hpp>
#include <octet/quantized.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace octet::tool {

// The command that was given.
struct Chosen {
  CLI::App* app = nullptr;
  std::function<int()> run;  // returns the exit status
  // Only for octet bench OP: its cases. Throws if the options name none or contradict each other.
  // Runs nothing and opens no GPU.
  std::function<std::vector<BenchCase>()> cases;
};

// Adds a subcommand to `parent`. Few files call CLI11 itself, since each that does compiles much of
// its header again.
CLI::App& add_command(CLI::App& parent, const std::string& name, const std::string& about);
// Exactly one subcommand must be given; at most one may be.
void require_command(CLI::App& app);
void allow_command(CLI::App& app);
// Commands that are added to `octet` after this belong to the group: "Measure".
void command_group(CLI::App& octet, const std::string& title);

// What the help shows. Options that are added after this belong to the group: "Timing".
void option_group(CLI::App& app, const std::string& title);
// Command lines, printed at the end of the help; two of every command.
void add_examples(CLI::App& app, const std::vector<std::string>& commands);

// Stores the command in `chosen` once the parser has read it.
void choose_when_given(CLI::App& app, Chosen& chosen, std::function<int()> run,
                       std::function<std::vector<BenchCase>()> cases = {});
// The same, if no subcommand of `app` is given.
void choose_without_command(CLI::App& app, Chosen& chosen, std::function<int()> run);

// All of `octet`.
void add_commands(CLI::App& octet, Chosen& chosen);

// The commands, each defined in its own file. Each adds itself to its parent and, if it is given,
// stores in `chosen` the function to run.
void add_bench_operators(CLI::App& bench, Chosen& chosen);
void add_bench_suite(CLI::App& bench, Chosen& chosen);
void add_check_operators(CLI::App& check, Chosen& chosen);
void add_profile(CLI::App& octet, Chosen& chosen);
void add_advise(CLI::App& octet, Chosen& chosen);
void add_tune(CLI::App& octet, Chosen& chosen);
void add_compare(CLI::App& octet, Chosen& chosen);
void add_report(CLI::App& octet, Chosen& chosen);
void add_summarize(CLI::App& octet, Chosen& chosen);
void add_ops(CLI::App& octet, Chosen& chosen);
void add_history(CLI::App& octet, Chosen& chosen);
void add_doctor(CLI::App& octet, Chosen& chosen);
void add_manual(CLI::App& octet, Chosen& chosen);
void add_completions(CLI::App& octet, Chosen& chosen);

// The options. Help is whole sentences with units, and the default at the end: with_default() takes
// it from the code. An option that is given twice has its last value.

// "Warm-up calls. [default: 20]"; the help itself if it names a default or the text is empty.
std::string with_default(const std::string& help, const std::string& text);
inline std::string with_default(const std::string& help, Dtype dtype) {
  return with_default(help, std::string(name(dtype)));
}

// A whole number in [least, most]: calls `set` with every one that is given.
void add_number(CLI::App& app, const std::string& name, std::int64_t least, std::int64_t most,
                const std::string& help, const std::function<void(std::int64_t)>& set);
// The same, into a number, whose value is the default if it is in the range, or into an optional one.
template <class Whole>
void add_whole(CLI::App& app, const std::string& name, Whole& value, std::int64_t least,
               std::int64_t most, const std::string& help) {
  std::string text;
  if constexpr (std::is_integral_v<Whole>) {
    if (std::cmp_greater_equal(value, least) && std::cmp_less_equal(value, most)) {
      text = std::to_string(value);
    }
  }
  add_number(app, name, least, most, with_default(help, text),
             [&value](std::int64_t given) { value = static_cast<Whole>(given); });
}
// May be repeated, with one number each time.
void add_wholes(CLI::App& app, const std::string& name, std::vector<std::int64_t>& values,
                std::int64_t least, std::int64_t most, const std::string& help);
// A finite number of at least 0.
void add_real(CLI::App& app, const std::string& name, std::optional<double>& value,
              const std::string& help);
// The same, within the range of f32.
void add_f32(CLI::App& app, const std::string& name, std::optional<float>& value,
             const std::string& help);
// The default is the text that `value` has, if any.
void add_text(CLI::App& app, const std::string& name, std::string& value, const std::string& type,
              const std::string& help);
// May be repeated, with one value each time.
void add_texts(CLI::App& app, const std::string& name, std::vector<std::string>& values,
               const std::string& type, const std::string& help);
// A required positional argument, the path of a file or a folder.
void add_argument(CLI::App& app, const std::string& name, std::string& value,
                  const std::string& help);
// The same, with the text of `value` as its default.
void add_optional_argument(CLI::App& app, const std::string& name, std::string& value,
                           const std::string& help);
// Throws UsageError if this option, or one of a group without `but` those, was given: `because` says why it may not be.
void refuse_option(const CLI::App& app, const std::string& name, const std::string& because);
void refuse_group(const CLI::App& app, const std::string& group, const std::string& because,
                  const std::vector<std::string>& but = {});
// Not in the help, the manual or the completions. Where it is given it is read all the same, to be refused with a reason.
void hide_option(CLI::App& app, const std::string& name);
// An option or argument that was added must be given.
void require_option(CLI::App& app, const std::string& name);
void add_device(CLI::App& app, std::optional<Device>& value,
                const std::string& help =
                    "Device to run on. [default: the first GPU that supports "
                    "the problem, else the CPU]");
void add_dtype(CLI::App& app, const std::string& name, std::optional<Dtype>& value,
               const std::vector<Dtype>& choices, const std::string& help);
void add_flag(CLI::App& app, const std::string& name, bool& value, const std::string& help);
// A flag that prints a text instead of running the command, for `app` and its subcommands so far.
void add_print_flag(CLI::App& app, const std::string& name,
                    const std::function<std::string()>& text, const std::string& help);
// One of `choices`: calls `set` with it, or keeps it in `value`, whose text is the default.
void add_choice(CLI::App& app, const std::string& name, const std::vector<std::string>& choices,
                const std::string& help, const std::function<void(const std::string&)>& set);
void add_choice(CLI::App& app, const std::string& name, std::string& value,
                const std::vector<std::string>& choices, const std::string& help);
// The same as a required positional argument.
void add_choice_argument(CLI::App& app, const std::string& name, std::string& value,
                         const std::vector<std::string>& choices, const std::string& help);

}  // namespace octet::tool
