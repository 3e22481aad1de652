#include "tool/results/settings.hpp"

#include "tool/results/command_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

namespace octet::tool {
namespace {

using Options = std::map<std::string, std::string>;

bool is_one_of(const std::string& text, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Options that are a setting under another name, or say only which case a row is and where it went.
bool has_another_name(const std::string& option) {
  return is_one_of(option, {"--shape", "-o", "--threads", "--seed", "--cold", "--backend",
                            "--quantize-backend"});
}

// Options that say where, for how long and how often a case was run.
bool is_about_the_run(const std::string& option) {
  return is_one_of(option, {"--device", "--warmup", "--iters", "--seconds-per-case"});
}

std::string clock_mode(const std::string& command) {
  return has_option(command, "--cold") ? "cold" : "sustained";
}

std::string seed(const bench::Record& record) {
  const std::string column = record.at("Seed");
  if (!column.empty()) return column;
  const std::string option = option_of(record.at("Command"), "--seed");
  return option.empty() ? "1" : option;
}

// The table that a command was run with, or nothing.
std::string tuning_table_of(const std::string& command) {
  for (const std::string& word : environment_of(command)) {
    if (word.starts_with(kTuningTable)) return word.substr(kTuningTable.size());
  }
  return "";
}

std::string shown(const std::string& value) { return value.empty() ? "none" : value; }

class Differences {
 public:
  Differences(const bench::Record& before, const bench::Record& after)
      : before_(before), after_(after) {}

  std::vector<SettingChange> all() {
    const std::string old_command = before_.at("Command");
    const std::string new_command = after_.at("Command");
    const bool on_cpu = before_.at("Platform") == "cpu";
    // The threads of the host do not change what a GPU does.
    add("threads", before_.at("Threads"), after_.at("Threads"), on_cpu);
    const std::string old_forced = forced_backends(old_command);
    const std::string new_forced = forced_backends(new_command);
    add("forced backend", old_forced, new_forced, true);
    add("tuning table", tuning_table_of(old_command), tuning_table_of(new_command), true);
    // A backend that another commit chose by itself is part of what that commit changed.
    const bool same_code = before_.at("Commit") == after_.at("Commit");
    add("backend", before_.at("Backend"), after_.at("Backend"), same_code);
    add("clock mode", clock_mode(old_command), clock_mode(new_command), true);
    add_options(options_of(old_command), options_of(new_command));
    add("seed", seed(before_), seed(after_), false);
    for (const auto& [name, column] :
         {std::pair{"device", "GPU"}, std::pair{"CPU", "CPU"}, std::pair{"commit", "Commit"},
          std::pair{"device sources", "Device Sources"},
          std::pair{"configuration", "Configuration"}}) {
      add(name, before_.at(column), after_.at(column), false);
    }
    std::stable_sort(
        changes_.begin(), changes_.end(),
        [](const SettingChange& a, const SettingChange& b) { return a.decides && !b.decides; });
    return std::move(changes_);
  }

 private:
  void add(const std::string& name, const std::string& before, const std::string& after,
           bool decides) {
    if (before != after) changes_.push_back({name, shown(before), shown(after), decides});
  }

  void add_options(const Options& before, const Options& after) {
    std::set<std::string> names;
    for (const Options* options : {&before, &after}) {
      for (const auto& [name, value] : *options) names.insert(name);
    }
    for (const std::string& name : names) {
      if (has_another_name(name)) continue;
      const auto value = [&](const Options& options) {
        const auto found = options.find(name);
        if (found == options.end()) return std::string("not given");
        return found->second.empty() ? "given" : found->second;
      };
      add(name, value(before), value(after), !is_about_the_run(name));
    }
  }

  const bench::Record& before_;
  const bench::Record& after_;
  std::vector<SettingChange> changes_;
};

}  // namespace

std::string forced_backends(const std::string& command) {
  std::vector<std::string> forced = environment_of(command);
  std::erase_if(forced, [](const std::string& word) { return word.starts_with(kTuningTable); });
  for (const char* option : {"--backend", "--quantize-backend"}) {
    const std::string name = option_of(command, option);
    if (!name.empty()) forced.push_back(fmt::format("{} {}", option, name));
  }
  return forced.empty() ? "not forced" : fmt::format("{}", fmt::join(forced, " "));
}

std::string SettingChange::text() const {
  return fmt::format("{} {}, now {}", name, before, after);
}

std::vector<SettingChange> setting_changes(const bench::Record& before,
                                           const bench::Record& after) {
  return Differences(before, after).all();
}

std::string changes_text(const std::vector<SettingChange>& changes) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> texts;
  for (const SettingChange& change : changes) {
    const std::string text = change.text();
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
  }
  if (texts.size() > kMost) {
    const std::size_t more = texts.size() - kMost;
    texts.resize(kMost);
    texts.push_back(fmt::format("and {} more", more));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace octet::tool
