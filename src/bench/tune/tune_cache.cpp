#include "bench/report/record.hpp"
#include "bench/tune/tune_search.hpp"
#include "core/message.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

namespace octet::bench {
namespace {

struct Cache {
  bool usable = true;  // false: not a table, do not overwrite it
  TuningEntries entries;
};

Cache read_cache(const std::string& path, const Warn& warn) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  // Opening a pipe would wait for a writer, and a device such as /dev/zero never ends.
  if (!std::filesystem::is_regular_file(path, ignored)) {
    warn(text(path, ": is not a file and is not changed; remove it or give another file"));
    return {false, {}};
  }
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  if (file.is_open() && content.empty()) return {};  // made ahead, as mktemp does
  std::vector<std::string> faults;
  std::optional<TuningEntries> entries =
      parse_table(content, [&](const std::string& what) { faults.push_back(what); });
  for (const std::string& what : faults) {
    warn(text(path, ": ", what,
              entries ? "; what is missing is measured again"
                      : "; it is not changed: remove it or give another file"));
  }
  return {entries.has_value(), std::move(entries).value_or(TuningEntries{})};
}

}  // namespace

// A search need not have chosen yet where only its key is checked.
TunedChoice choice_of(const Configuration& configuration) {
  return {std::string(kUsersKernel), configuration.values.empty() ? "-" : describe(configuration)};
}

std::optional<Configuration> read_choice(const std::string& path, const TuningKey& key,
                                         const Warn& warn) {
  const Cache cache = read_cache(path, warn);
  const auto found = cache.entries.find(key);
  if (found == cache.entries.end()) return std::nullopt;
  return parse_configuration(found->second.configuration);
}

void write_choice(const std::string& path, const TuningKey& key, const Configuration& choice,
                  const Warn& warn) {
  // Warnings about the file were given when it was read.
  Cache cache = read_cache(path, [](const std::string&) {});
  if (!cache.usable) return;
  cache.entries.insert_or_assign(key, choice_of(choice));
  if (const int reason = replace_file(path, name_beside(path), table_text(cache.entries));
      reason != 0) {
    warn(text("the choice is not kept: cannot write ", path, ": ", std::strerror(reason)));
  }
}

}  // namespace octet::bench
