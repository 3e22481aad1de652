#include "dispatch/tuning_table.hpp"

#include "core/message.hpp"

#include <octet/tuning.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>

namespace octet {
namespace {

constexpr std::string_view kFirstLine = "octet tuning table 1";
constexpr std::size_t kFields = 6;

// Cuts the text at the first `separator`: what is before it, while `text` keeps what is behind.
std::string_view cut(std::string_view& text, char separator) {
  const std::size_t at = std::min(text.find(separator), text.size());
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return before;
}

bool add_line(std::string_view line, TuningEntries& entries) {
  if (std::count(line.begin(), line.end(), '\t') != kFields - 1) return false;
  std::array<std::string, kFields> fields;
  for (std::string& field : fields) {
    field = cut(line, '\t');
    if (field.empty()) return false;
  }
  auto& [problem, device, driver, kernels, implementation, configuration] = fields;
  return entries
      .try_emplace({std::move(problem), std::move(device), std::move(driver), std::move(kernels)},
                   TunedChoice{std::move(implementation), std::move(configuration)})
      .second;
}

// What lies at `path`, whole. Opening a pipe would wait for a writer, and a device may never end.
std::string read_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    fail(ErrorCode::file_error, "tuning table ", path, ": there is no such file");
  }
  if (!std::filesystem::is_regular_file(path, error)) {
    fail(ErrorCode::file_error, "tuning table ", path, ": is not a file");
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) {
    fail(ErrorCode::file_error, "tuning table ", path, ": ", std::strerror(errno));
  }
  return content;
}

struct Process {
  std::mutex mutex;
  bool known = false;  // `table` is set, or read from the environment
  std::shared_ptr<const TuningTable> table;
};

// Never destroyed: at exit, other threads may still make plans.
Process& process() {
  static Process& one = *new Process;
  return one;
}

}  // namespace

std::string table_text(const TuningEntries& entries) {
  std::string result(kFirstLine);
  result += '\n';
  for (const auto& [key, choice] : entries) {
    result += text(key.problem, '\t', key.device, '\t', key.driver, '\t', key.kernels, '\t',
                   choice.implementation, '\t', choice.configuration, '\n');
  }
  return result;
}

std::optional<TuningEntries> parse_table(std::string_view text, const BrokenLine& broken) {
  TuningEntries entries;
  const bool is_whole = text.ends_with('\n');
  if (cut(text, '\n') != kFirstLine) return std::nullopt;
  if (text.empty() && !is_whole) broken(1);
  for (int line = 2; !text.empty(); ++line) {
    const std::string_view one = cut(text, '\n');
    // The last line of a file that was cut off may read as an entry, of another configuration.
    const bool is_cut = text.empty() && !is_whole;
    if (is_cut || !add_line(one, entries)) broken(line);
  }
  return entries;
}

TuningTable read_table(const std::string& path) {
  const std::string content = read_file(path);
  if (content.empty()) {
    refuse_argument("tuning table ", path, ": is empty; octet tune export writes a whole table");
  }
  auto entries = parse_table(content, [&](int line) {
    refuse_argument(
        "tuning table ", path, ": line ", line, " is not ", kFields,
        " fields separated by tabs, has no end of line, or repeats an entry; octet tune "
        "export writes a whole table");
  });
  if (!entries) {
    refuse_argument("tuning table ", path, ": the first line must be \"", kFirstLine,
                    "\"; octet tune writes such a file");
  }
  return {path, *std::move(entries)};
}

void check_entry(std::string_view owner, const TuningKey& key, const TunedChoice& choice) {
  for (const auto& [name, field] :
       {std::pair<const char*, const std::string&>("problem", key.problem),
        {"device", key.device},
        {"driver", key.driver},
        {"kernels", key.kernels},
        {"implementation", choice.implementation},
        {"configuration", choice.configuration}}) {
    if (field.empty()) refuse_argument(owner, ": ", name, " is empty");
    if (field.find_first_of("\t\r\n") != std::string::npos) {
      refuse_argument(owner, ": ", name, " must be one line without tabs, got \"", field, '"');
    }
  }
}

std::shared_ptr<const TuningTable> process_table() {
  Process& of = process();
  const std::lock_guard lock(of.mutex);
  if (!of.known) {
    if (const char* path = std::getenv("OCTET_TUNING_TABLE"); path != nullptr && *path != '\0') {
      of.table = std::make_shared<const TuningTable>(read_table(path));
    }
    of.known = true;
  }
  return of.table;
}

void set_process_table(std::shared_ptr<const TuningTable> table) {
  Process& of = process();
  const std::lock_guard lock(of.mutex);
  of.known = true;
  of.table = std::move(table);
}

void set_tuning_table(const std::string& path) {
  set_process_table(path.empty() ? nullptr : std::make_shared<const TuningTable>(read_table(path)));
}

std::string tuning_table() {
  const auto table = process_table();
  return table == nullptr ? "" : table->path;
}

}  // namespace octet
