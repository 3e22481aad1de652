#include "tool/options/options.hpp"

#include "tool/options/command_text.hpp"
#include "tool/options/parse.hpp"

#include <octet/error.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace octet::tool {
namespace {

std::int64_t whole(const std::string& name, const std::string& text, std::int64_t least,
                   std::int64_t most) {
  std::int64_t value = 0;
  if (!parse_whole(text, least, most, value)) {
    refuse_usage("{} must be a whole number between {} and {}, got \"{}\"", name, least, most,
                 text);
  }
  return value;
}

template <class Real>
bool parse_real(const std::string& text, Real& value) {
  return parse_number(text, value) && std::isfinite(value) && value >= 0;
}

double real(const std::string& name, const std::string& text) {
  double value = 0;
  if (!parse_real(text, value)) {
    refuse_usage("{} must be a number of at least 0, got \"{}\"", name, text);
  }
  return value;
}

float f32(const std::string& name, const std::string& text) {
  float value = 0;
  if (!parse_real(text, value)) {
    refuse_usage("{} must be 0 or a number between 1.4e-45 and 3.4e+38, got \"{}\"", name, text);
  }
  return value;
}

// Calls `set` with the text of every value given.
template <class Set>
CLI::Option* add(CLI::App& app, const std::string& name, const std::string& type,
                 const std::string& help, Set set) {
  return app
      .add_option_function<std::vector<std::string>>(
          name,
          [set](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) set(text);
          },
          help)
      ->type_name(type)
      ->allow_extra_args(false);
}

// A positional argument. Calls `set` with it.
template <class Set>
CLI::Option* add_positional(CLI::App& app, const std::string& name, const std::string& type,
                            const std::string& help, Set set) {
  return app.add_option_function<std::string>(name, set, help)->type_name(type);
}

CLI::Option* add_path(CLI::App& app, const std::string& name, std::string& value,
                      const std::string& help) {
  return add_positional(app, name, kPath, help, [&value, name](const std::string& text) {
    if (text.empty()) refuse_usage("{} must be given a path, got nothing", name);
    value = text;
  });
}

const std::string& one_of(const std::string& name, const std::string& text,
                          const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
    refuse_usage("{} must be one of {}, got \"{}\"", name, fmt::join(choices, ", "), text);
  }
  return text;
}

}  // namespace

CLI::App& add_command(CLI::App& parent, const std::string& name, const std::string& about) {
  CLI::App& app = *parent.add_subcommand(name, about);
  app.footer("");  // CLI11 hands down the parent's
  app.group(parent.get_parent() == nullptr ? parent.get_group() : "Commands");
  option_group(app, kNoGroup);
  return app;
}

void require_command(CLI::App& app) { app.require_subcommand(1); }

void allow_command(CLI::App& app) { app.require_subcommand(0, 1); }

// `octet` itself is in no list, so its own group is free to keep the title.
void command_group(CLI::App& octet, const std::string& title) { octet.group(title); }

void option_group(CLI::App& app, const std::string& title) { app.option_defaults()->group(title); }

void add_examples(CLI::App& app, const std::vector<std::string>& commands) {
  app.footer(fmt::format("{}", fmt::join(commands, "\n")));
}

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

std::string with_default(const std::string& help, const std::string& text) {
  if (text.empty() || help.find("[default: ") != std::string::npos) return help;
  return fmt::format("{} [default: {}]", help, text);
}

void add_number(CLI::App& app, const std::string& name, std::int64_t least, std::int64_t most,
                const std::string& help, const std::function<void(std::int64_t)>& set) {
  add(app, name, "N", help,
      [set, name, least, most](const std::string& text) { set(whole(name, text, least, most)); });
}

void add_wholes(CLI::App& app, const std::string& name, std::vector<std::int64_t>& values,
                std::int64_t least, std::int64_t most, const std::string& help) {
  add(app, name, "N", help, [&values, name, least, most](const std::string& text) {
    values.push_back(whole(name, text, least, most));
  })->take_all();
}

void add_real(CLI::App& app, const std::string& name, std::optional<double>& value,
              const std::string& help) {
  add(app, name, "X", help, [&value, name](const std::string& text) { value = real(name, text); });
}

void add_f32(CLI::App& app, const std::string& name, std::optional<float>& value,
             const std::string& help) {
  add(app, name, "X", help, [&value, name](const std::string& text) { value = f32(name, text); });
}

void add_text(CLI::App& app, const std::string& name, std::string& value, const std::string& type,
              const std::string& help) {
  add(app, name, type, with_default(help, value), [&value, name, type](const std::string& text) {
    if (text.empty()) refuse_usage("{} must be given a {}, got nothing", name, type);
    value = text;
  });
}

void add_texts(CLI::App& app, const std::string& name, std::vector<std::string>& values,
               const std::string& type, const std::string& help) {
  add(app, name, type, help, [&values](const std::string& text) {
    values.push_back(text);
  })->take_all();
}

void add_argument(CLI::App& app, const std::string& name, std::string& value,
                  const std::string& help) {
  add_path(app, name, value, help)->required();
}

void add_optional_argument(CLI::App& app, const std::string& name, std::string& value,
                           const std::string& help) {
  add_path(app, name, value, with_default(help, value));
}

void refuse_option(const CLI::App& app, const std::string& name, const std::string& because) {
  const CLI::Option* option = app.get_option_no_throw(name);
  if (option != nullptr && option->count() > 0) {
    refuse_usage("{} does not go with {}", name, because);
  }
}

void refuse_group(const CLI::App& app, const std::string& group, const std::string& because,
                  const std::vector<std::string>& but) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (option->get_group() != group || std::find(but.begin(), but.end(), name) != but.end())
      continue;
    refuse_option(app, name, because);
  }
}

void hide_option(CLI::App& app, const std::string& name) {
  if (CLI::Option* option = app.get_option_no_throw(name); option != nullptr) option->group("");
}

void require_option(CLI::App& app, const std::string& name) { app.get_option(name)->required(); }

void add_device(CLI::App& app, std::optional<Device>& value, const std::string& help) {
  add(app, "--device", "cpu|cuda[:i]", help,
      [&value](const std::string& text) { value = parse_device(text); });
}

void add_dtype(CLI::App& app, const std::string& name, std::optional<Dtype>& value,
               const std::vector<Dtype>& choices, const std::string& help) {
  std::vector<std::string_view> names;
  names.reserve(choices.size());
  for (const Dtype dtype : choices) names.push_back(octet::name(dtype));
  add(app, name, fmt::format("{}", fmt::join(names, "|")), help,
      [&value, name, names, choices](const std::string& text) {
        const auto dtype = parse_dtype(text);
        if (!dtype || std::find(choices.begin(), choices.end(), *dtype) == choices.end()) {
          refuse_usage("{} must be one of {}, got \"{}\"", name, fmt::join(names, ", "), text);
        }
        value = dtype;
      });
}

void add_flag(CLI::App& app, const std::string& name, bool& value, const std::string& help) {
  app.add_flag(name, value, help)->each([name](const std::string& text) {
    if (text != "true") refuse_usage("{} takes no value, got \"{}\"", name, text);
  });
}

void add_print_flag(CLI::App& app, const std::string& name,
                    const std::function<std::string()>& text, const std::string& help) {
  app.add_flag_callback(
         name, [text] { throw CLI::CallForVersion(text(), 0); }, help)
      ->group(kNoGroup);
  for (CLI::App* command : app.get_subcommands({})) add_print_flag(*command, name, text, help);
}

void add_choice(CLI::App& app, const std::string& name, const std::vector<std::string>& choices,
                const std::string& help, const std::function<void(const std::string&)>& set) {
  add(app, name, fmt::format("{}", fmt::join(choices, "|")), help,
      [set, name, choices](const std::string& text) { set(one_of(name, text, choices)); });
}

void add_choice(CLI::App& app, const std::string& name, std::string& value,
                const std::vector<std::string>& choices, const std::string& help) {
  add_choice(app, name, choices, with_default(help, value),
             [&value](const std::string& text) { value = text; });
}

void add_choice_argument(CLI::App& app, const std::string& name, std::string& value,
                         const std::vector<std::string>& choices, const std::string& help) {
  add_positional(
      app, name, fmt::format("{}", fmt::join(choices, "|")), help,
      [&value, name, choices](const std::string& text) { value = one_of(name, text, choices); })
      ->required();
}

}  // namespace octet::tool
