#include "bench/report/record.hpp"
#include "bench/tune/tune_search.hpp"
#include "core/message.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace octet::bench {
namespace {

constexpr std::string_view kFirstLine = "octet tuning cache 1";

struct Choice {
  CacheKey key;
  Configuration configuration;
};

struct Cache {
  bool usable = true;  // false: not a cache file, do not overwrite it
  std::vector<Choice> choices;
};

std::optional<Choice> parse_choice(std::string_view line) {
  std::array<std::string_view, 4> fields;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::size_t tab = line.find('\t');
    if ((tab == std::string_view::npos) != (i + 1 == fields.size())) return std::nullopt;
    fields[i] = line.substr(0, tab);
    line.remove_prefix(std::min(fields[i].size() + 1, line.size()));
  }
  const auto configuration = parse_configuration(fields[3]);
  if (!configuration) return std::nullopt;
  return Choice{{std::string(fields[0]), std::string(fields[1]), std::string(fields[2])},
                *configuration};
}

Cache read_cache(const std::string& path, const Warn& warn) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  // Opening a pipe would wait for a writer, and a device such as /dev/zero never ends.
  const bool is_file = std::filesystem::is_regular_file(path, ignored);
  std::ifstream file;
  if (is_file) file.open(path, std::ios::binary);
  std::string line;
  if (is_file && !std::getline(file, line) && file.eof() &&
      std::filesystem::file_size(path, ignored) == 0) {
    return {};
  }
  if (line != kFirstLine) {
    warn(text(path, ": is not a tuning cache and is not changed; remove it or give another file"));
    return {false, {}};
  }
  Cache cache;
  for (int number = 2; std::getline(file, line); ++number) {
    if (auto choice = parse_choice(line)) {
      cache.choices.push_back(std::move(*choice));
    } else {
      warn(text(path, ": line ", number, " is broken and ignored"));
    }
  }
  return cache;
}

}  // namespace

void check_key(const CacheKey& key) {
  for (const auto& [name, field] :
       {std::pair{"problem", &key.problem}, std::pair{"device", &key.device},
        std::pair{"version", &key.version}}) {
    if (field->empty()) refuse_argument("tune: ", name, " is empty");
    if (field->find_first_of("\t\r\n") != std::string::npos) {
      refuse_argument("tune: ", name, " must be one line without tabs, got \"", *field, '"');
    }
  }
}

std::optional<Configuration> read_choice(const std::string& path, const CacheKey& key,
                                         const Warn& warn) {
  for (const Choice& choice : read_cache(path, warn).choices) {
    if (choice.key == key) return choice.configuration;
  }
  return std::nullopt;
}

void write_choice(const std::string& path, const CacheKey& key, const Configuration& choice,
                  const Warn& warn) {
  // Warnings about the file were given when it was read.
  Cache cache = read_cache(path, [](const std::string&) {});
  if (!cache.usable) return;
  std::erase_if(cache.choices, [&](const Choice& before) { return before.key == key; });
  cache.choices.push_back({key, choice});
  std::string content = std::string(kFirstLine) + '\n';
  for (const auto& [of, configuration] : cache.choices) {
    content +=
        text(of.problem, '\t', of.device, '\t', of.version, '\t', describe(configuration), '\n');
  }
  if (const int reason = replace_file(path, name_beside(path), content); reason != 0) {
    warn(text("the choice is not kept: cannot write ", path, ": ", std::strerror(reason)));
  }
}

}  // namespace octet::bench
