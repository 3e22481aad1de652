#include "tool/results/result_file.hpp"

#include "tool/console.hpp"
#include "tool/options/parse.hpp"
#include "tool/results/files.hpp"
#include "tool/results/result_kind.hpp"
#include "tool/results/settings.hpp"
#include "tool/results/stored_results.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace octet::tool {
namespace {

// Index of `key` in `planned`; an equal TestID goes before other cases of the same problem.
std::optional<std::size_t> place_of(const CaseKey& key, const std::vector<CaseKey>& planned) {
  std::optional<std::size_t> place;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    if (planned[i] == key) return i;
    if (planned[i].problem == key.problem && !place) place = i;
  }
  return place;
}

// Whether two rows under `header` are the same measurement: all that is known in advance is equal,
// and the code is the same (device sources on a GPU, commit on the CPU).
bool same_measurement(const bench::Row& header, const bench::Row& a, const bench::Row& b) {
  const bench::Record left(header, a);
  const bench::Record right(header, b);
  std::vector<const char*> columns{"TestID",  "Platform",      "GPU",     "CPU",
                                   "Backend", "Configuration", "Threads", "Command"};
  columns.push_back(left.at("Platform") == "cuda" ? "Device Sources" : "Commit");
  return std::all_of(columns.begin(), columns.end(),
                     [&](const char* column) { return left.at(column) == right.at(column); });
}

// False if the process that held the lock has removed the file since it was opened.
bool still_has_its_name(int descriptor, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  return fstat(descriptor, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

std::string partial_path(const std::string& output) {
  const std::string target = bench::link_target(output);
  return target.empty() ? "" : target + ".partial";
}

PartialFile::PartialFile(const std::string& output) : output_(output), path_(partial_path(output)) {
  if (path_.empty()) refuse(ELOOP);
  open_and_lock();
  const std::string text = text_if_any(path_);
  const std::size_t whole = text.rfind('\n') + 1;  // npos + 1 is 0
  is_empty_ = whole == 0;
  has_rows_ = std::count(text.begin(), text.end(), '\n') > 1;
  if (whole == text.size() || ftruncate(fileno(file_), static_cast<off_t>(whole)) == 0) return;
  const int reason = errno;
  std::fclose(file_);
  refuse(reason);
}

PartialFile::~PartialFile() {
  if (file_ == nullptr) return;
  if (!has_rows_) std::remove(path_.c_str());  // before the lock is released
  std::fclose(file_);
}

void PartialFile::open_and_lock() {
  constexpr mode_t kAsOthersAre = 0666;
  for (;;) {
    const int descriptor =
        open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, kAsOthersAre);
    if (descriptor < 0) refuse(errno);
    if (!take_lock(descriptor)) {
      const int reason = errno;
      close(descriptor);
      if (reason != EWOULDBLOCK) refuse(reason);
      refuse_usage(
          "-o {}: in use by another octet run; wait for it, or use another file (parallel shards "
          "need one each)",
          output_);
    }
    if (still_has_its_name(descriptor, path_)) {
      file_ = fdopen(descriptor, "a");
      if (file_ != nullptr) return;
      const int reason = errno;
      close(descriptor);
      refuse(reason);
    }
    close(descriptor);
  }
}

void PartialFile::refuse(int reason) const {
  refuse_usage("-o {}: {}; wanted a file in a folder that exists and can be written", output_,
               std::strerror(reason));
}

void PartialFile::begin(const bench::Row& header, bool fresh) {
  if (fresh) {
    if (ftruncate(fileno(file_), 0) != 0) refuse(errno);
    is_empty_ = true;
    has_rows_ = false;
  }
  if (!is_empty_) return;
  if (!write(header)) refuse(errno);
  is_empty_ = false;
}

bool PartialFile::add(const bench::Row& row) {
  has_rows_ = true;
  return write(row);
}

bool PartialFile::write(const bench::Row& row) {
  const std::string line = bench::csv_line(row);
  return std::fwrite(line.data(), 1, line.size(), file_) == line.size() && std::fflush(file_) == 0;
}

void PartialFile::remove() {
  std::remove(path_.c_str());  // before the lock is released
  std::fclose(file_);
  file_ = nullptr;
}

std::vector<bench::Row> done_rows(const std::vector<std::optional<bench::Row>>& rows) {
  std::vector<bench::Row> done;
  for (const auto& row : rows) {
    if (row) done.push_back(*row);
  }
  return done;
}

ResultFile::ResultFile(const std::string& path, const bench::Row& header,
                       const std::vector<bench::Row>& planned, bool fresh)
    : path_(path), header_(header), rows_(planned.size()), earlier_(planned.size()) {
  if (path.empty()) return;
  require_results_or_nothing("-o", path);
  require_results_or_nothing("-o", partial_path(path));
  partial_.emplace(path);
  if (!fresh) take_up(planned);
  partial_->begin(header, fresh);
}

void ResultFile::take_up(const std::vector<bench::Row>& planned) {
  const std::vector<std::string> paths{path_, partial_->path()};
  const std::string op =
      planned.empty() ? "" : bench::Record(header_, planned[0]).at(kOperatorColumn);
  for (const std::string& path : paths) require_rows_that_fit(path, header_, op);
  std::vector<CaseKey> cases;
  cases.reserve(planned.size());
  for (const bench::Row& row : planned) cases.push_back(key_of(header_, row));
  for (const bench::Row& row : newest_rows(paths).rows) {
    const CaseKey key = key_of(header_, row);
    const auto place = place_of(key, cases);
    (place ? earlier_[*place] : others_).push_back(row);
    if (bench::Record(header_, row).at("Check") != "PASS") continue;
    for (std::size_t i = 0; i < planned.size(); ++i) {
      if (cases[i] == key && same_measurement(header_, row, planned[i])) rows_[i] = row;
    }
  }
}

void ResultFile::add(std::size_t index, const bench::Row& row) {
  rows_[index] = row;
  if (partial_ && !partial_->add(row)) {
    refuse_usage("-o {}: {}; the rows so far are in {}; rerun the same command to continue", path_,
                 std::strerror(errno), partial_->path());
  }
}

std::string ResultFile::replaced_text() const {
  std::size_t count = 0;
  std::vector<SettingChange> changes;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (!rows_[i]) continue;
    for (const bench::Row& row : earlier_[i]) {
      auto of_row = setting_changes(bench::Record(header_, row), bench::Record(header_, *rows_[i]));
      // The configuration mostly follows from the other settings.
      if (of_row.size() > 1) {
        std::erase_if(of_row, [](const auto& change) { return change.name == "configuration"; });
      }
      count += of_row.empty() ? 0 : 1;
      changes.insert(changes.end(), of_row.begin(), of_row.end());
    }
  }
  if (count == 0) return "";
  return fmt::format("replaced {} measured with other settings ({})", counted(count, "row"),
                     changes_text(changes));
}

void ResultFile::finish() {
  if (!partial_) return;
  StoredResults results{header_, others_};
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const std::vector<bench::Row> of_case =
        rows_[i] ? std::vector<bench::Row>{*rows_[i]} : earlier_[i];
    results.rows.insert(results.rows.end(), of_case.begin(), of_case.end());
  }
  if (const int reason = write_stored(path_, results); reason != 0) {
    refuse_usage("-o {}: {}; the rows of this run are in {}", path_, std::strerror(reason),
                 partial_->path());
  }
  partial_->remove();
  partial_.reset();
}

}  // namespace octet::tool
