#include "dispatch/tuning_table.hpp"

#include "core/message.hpp"

#include <octet/tuning.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>

namespace octet {
namespace {

// The first line, before the number of entries. Without it a file that was cut at a line end would be a whole one.
constexpr std::string_view kFirstWords = "octet tuning table 2, entries: ";
constexpr std::string_view kFirstLineWithoutCount = "octet tuning table 1";
constexpr std::ptrdiff_t kFields = 6;

// Cuts the text at the first `separator`: what is before it, while `text` keeps what is behind.
std::string_view cut(std::string_view& text, char separator) {
  const std::size_t at = std::min(text.find(separator), text.size());
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return before;
}

std::string first_line(std::size_t entries) { return text(kFirstWords, entries); }

// The number of entries that a first line has; nothing if it is another line.
std::optional<std::size_t> count_of(std::string_view first) {
  if (!first.starts_with(kFirstWords)) return std::nullopt;
  first.remove_prefix(kFirstWords.size());
  std::size_t count = 0;
  const char* last = first.data() + first.size();
  const auto [end, error] = std::from_chars(first.data(), last, count);
  if (first.empty() || error != std::errc() || end != last) return std::nullopt;
  return count;
}

constexpr std::string_view kCarriageReturn =
    "has a carriage return: lines must end with \\n, not with \\r\\n";

// What is wrong with a first line that has no count; `rest`: what is behind it.
std::string first_line_fault(std::string_view first, std::string_view rest) {
  if (first.ends_with('\r') && first.starts_with("octet tuning table")) {
    return text("line 1 ", kCarriageReturn);
  }
  if (first == kFirstLineWithoutCount) {
    const auto lines = std::count(rest.begin(), rest.end(), '\n');
    return text("its first line does not say how many entries it has; if it is whole, with ", lines,
                ", make that line \"", first_line(static_cast<std::size_t>(lines)), '"');
  }
  constexpr std::size_t kShown = 60;
  return text("the first line must be \"", kFirstWords, "N\", got \"", first.substr(0, kShown),
              first.size() > kShown ? "..." : "", '"');
}

// Why a line is no entry, after its number; empty: it was added.
std::string add_line(std::string_view line, TuningEntries& entries) {
  if (line.find('\r') != std::string_view::npos) return std::string(kCarriageReturn);
  const auto fields_given = std::count(line.begin(), line.end(), '\t') + 1;
  if (fields_given != kFields) {
    return text("has ", fields_given, " fields separated by tabs, wanted ", kFields);
  }
  std::array<std::string, kFields> fields;
  for (std::string& field : fields) {
    field = cut(line, '\t');
    if (field.empty()) return "has an empty field";
  }
  auto& [problem, device, driver, kernels, implementation, configuration] = fields;
  const bool is_new =
      entries
          .try_emplace(
              {std::move(problem), std::move(device), std::move(driver), std::move(kernels)},
              TunedChoice{std::move(implementation), std::move(configuration)})
          .second;
  return is_new ? "" : "repeats an entry";
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
  std::string result = first_line(entries.size()) + '\n';
  for (const auto& [key, choice] : entries) {
    result += text(key.problem, '\t', key.device, '\t', key.driver, '\t', key.kernels, '\t',
                   choice.implementation, '\t', choice.configuration, '\n');
  }
  return result;
}

std::optional<TuningEntries> parse_table(std::string_view text, const TableFault& fault) {
  const bool is_whole = text.ends_with('\n');
  const std::string_view first = cut(text, '\n');
  const auto count = count_of(first);
  if (!count) {
    fault(first_line_fault(first, text));
    return std::nullopt;
  }
  bool broken = text.empty() && !is_whole;
  if (broken) fault("line 1 has no end of line");
  TuningEntries entries;
  for (int line = 2; !text.empty(); ++line) {
    const std::string_view one = cut(text, '\n');
    // The last line of a file that was cut off may read as an entry, of another configuration.
    const bool is_cut = text.empty() && !is_whole;
    const std::string what = is_cut ? "has no end of line" : add_line(one, entries);
    if (what.empty()) continue;
    broken = true;
    fault(octet::text("line ", line, ' ', what));
  }
  if (!broken && entries.size() != *count) {
    fault(octet::text("has ", entries.size(), entries.size() == 1 ? " entry" : " entries",
                      ", its first line says ", *count));
  }
  return entries;
}

TuningTable read_table(const std::string& path) {
  const std::string content = read_file(path);
  if (content.empty()) {
    refuse_argument("tuning table ", path, ": is empty; octet tune export writes a whole table");
  }
  auto entries = parse_table(content, [&](const std::string& what) {
    refuse_argument("tuning table ", path, ": ", what, "; octet tune export writes a whole table");
  });
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
