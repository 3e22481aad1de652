#include "tool/options/options.hpp"

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

// Edit distance: letters to insert, delete or replace to turn `a` into `b`.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

std::vector<std::string> known_words(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options()) words.push_back(option->get_name());
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    words.push_back(command->get_name());
  }
  return words;
}

std::vector<std::string> arguments_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) names.push_back(option->get_name());
  }
  return names;
}

std::string explain_unknown(const CLI::App& app, const std::string& given) {
  const std::vector<std::string> arguments = arguments_of(app);
  if (!arguments.empty() && given.rfind('-', 0) != 0) {
    return fmt::format("\"{}\" is an argument too many; wanted {}", given,
                       fmt::join(arguments, " "));
  }
  const std::string word = given.substr(0, given.find('='));
  const std::vector<std::string> words = known_words(app);
  const auto nearest =
      std::min_element(words.begin(), words.end(), [&](const std::string& a, const std::string& b) {
        return distance(a, word) < distance(b, word);
      });
  if (nearest != words.end() && distance(*nearest, word) <= 2) {
    return fmt::format("there is no {}; did you mean {}?", word, *nearest);
  }
  return fmt::format("there is no {}; there are: {}", word, fmt::join(words, ", "));
}

}  // namespace

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

void add_number(CLI::App& app, const std::string& name, std::int64_t least, std::int64_t most,
                const std::string& help, const std::function<void(std::int64_t)>& set) {
  add(app, name, "N", help,
      [set, name, least, most](const std::string& text) { set(whole(name, text, least, most)); });
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
  add(app, name, type, help, [&value, name, type](const std::string& text) {
    if (text.empty()) refuse_usage("{} must be given a {}, got nothing", name, type);
    value = text;
  });
}

void add_texts(CLI::App& app, const std::string& name, std::vector<std::string>& values,
               const std::string& type, const std::string& help) {
  add(app, name, type, help, [&values](const std::string& text) { values.push_back(text); });
}

void add_argument(CLI::App& app, const std::string& name, std::string& value,
                  const std::string& help) {
  app.add_option_function<std::string>(
         name,
         [&value, name](const std::string& text) {
           if (text.empty()) refuse_usage("{} must be given a path, got nothing", name);
           value = text;
         },
         help)
      ->required()
      ->type_name("");
}

void add_device(CLI::App& app, std::optional<Device>& value) {
  add(app, "--device", "cpu|cuda[:i]",
      "where to run [default: the best device that takes the problem]",
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

void add_choice(CLI::App& app, const std::string& name, const std::vector<std::string>& choices,
                const std::string& help, const std::function<void(const std::string&)>& set) {
  add(app, name, fmt::format("{}", fmt::join(choices, "|")), help,
      [set, name, choices](const std::string& text) {
        if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
          refuse_usage("{} must be one of {}, got \"{}\"", name, fmt::join(choices, ", "), text);
        }
        set(text);
      });
}

void add_choice(CLI::App& app, const std::string& name, std::string& value,
                const std::vector<std::string>& choices, const std::string& help) {
  add_choice(app, name, choices, help, [&value](const std::string& text) { value = text; });
}

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const bool unknown_word = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool has_commands = !app.get_subcommands([](const CLI::App*) { return true; }).empty();
  const bool missing_command =
      has_commands && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (unknown_word || missing_command) {
    const std::vector<std::string> rest = app.remaining(true);
    if (!rest.empty()) return explain_unknown(app, rest.front());
  }
  if (missing_command) return fmt::format("wanted one of: {}", fmt::join(known_words(app), ", "));
  std::string line = error.what();
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

}  // namespace octet::tool
