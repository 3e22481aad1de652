#include "tool/results/files.hpp"

#include "tool/options/parse.hpp"

#include <csv.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace octet::tool {
namespace {

// A list of cases is some kilobytes; anything this large is another file, given by mistake.
constexpr std::uintmax_t kMostBytes = 64 << 20;

// What libcsv has read so far.
struct Collector {
  std::vector<bench::Row> rows;
  bench::Row row;
};

void add_field(void* field, std::size_t length, void* collector) {
  static_cast<Collector*>(collector)->row.emplace_back(static_cast<const char*>(field), length);
}

void end_row(int /*terminator*/, void* collector) {
  auto& [rows, row] = *static_cast<Collector*>(collector);
  rows.push_back(std::move(row));
  row.clear();
}

// Frees libcsv's memory on every exit from the scope.
class Parser {
 public:
  Parser() { csv_init(&parser_, CSV_STRICT | CSV_STRICT_FINI); }
  ~Parser() { csv_free(&parser_); }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;
  csv_parser* operator&() { return &parser_; }  // NOLINT: stands for the struct it wraps

 private:
  csv_parser parser_{};
};

}  // namespace

std::string special_file(const std::string& path) {
  std::error_code ignored;
  switch (std::filesystem::status(path, ignored).type()) {
    case std::filesystem::file_type::directory: return "a folder";
    case std::filesystem::file_type::fifo: return "a pipe";
    case std::filesystem::file_type::character:
    case std::filesystem::file_type::block: return "a device";
    case std::filesystem::file_type::socket: return "a socket";
    default: return "";
  }
}

std::string text_if_any(const std::string& path) {
  if (!special_file(path).empty()) return "";
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string read_text_file(const std::string& given, const std::string& path,
                           const std::string& wanted) {
  if (const std::string what = special_file(path); !what.empty()) {
    refuse_usage("{}: is {}, wanted {}", given, what, wanted);
  }
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (!error && bytes > kMostBytes) {
    refuse_usage("{}: {} bytes is too long for {}", given, bytes, wanted);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse_usage("{}: {}; wanted {}", given, std::strerror(errno), wanted);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<bench::Row> parse_csv(std::string_view text, std::string_view source) {
  Parser parser;
  Collector collector;
  const std::size_t read =
      csv_parse(&parser, text.data(), text.size(), add_field, end_row, &collector);
  if (read != text.size() || csv_fini(&parser, add_field, end_row, &collector) != 0) {
    refuse_usage("{}: row {} is not CSV: {}", source, collector.rows.size() + 1,
                 csv_strerror(csv_error(&parser)));
  }
  return std::move(collector.rows);
}

std::string beginning_to_replace(const std::string& option, const std::string& path,
                                 std::size_t bytes) {
  // Writing renames a file into place, which would replace a device or a pipe.
  if (const std::string what = special_file(path); !what.empty()) {
    refuse_usage("{} {}: is {}, wanted a file to write", option, path, what);
  }
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse_usage("{} {}: {}", option, path, std::strerror(errno));
  std::string beginning(bytes, '\0');
  file.read(beginning.data(), static_cast<std::streamsize>(bytes));
  beginning.resize(static_cast<std::size_t>(file.gcount()));
  return beginning;
}

void refuse_to_replace(const std::string& option, const std::string& path,
                       const std::string& wanted) {
  refuse_usage("{} {}: does not hold {} and is not replaced; give another file", option, path,
               wanted);
}

bool take_lock(int descriptor) {
  constexpr int kTries = 60;
  constexpr auto kPause = std::chrono::milliseconds(50);
  for (int i = 0; i < kTries; ++i) {
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK) return false;
    std::this_thread::sleep_for(kPause);
  }
  errno = EWOULDBLOCK;  // sleeping may have set it
  return false;
}

}  // namespace octet::tool
