#include "tool/results/partial_file.hpp"

#include "tool/results/file_lock.hpp"
#include "tool/results/text_file.hpp"
#include "tool/options/usage_error.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace octet::tool {
namespace {

// Not where the process that had the lock has removed the file since it was opened.
bool still_has_its_name(int descriptor, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  return fstat(descriptor, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

PartialFile::PartialFile(const std::string& output) : output_(output), path_(output + ".partial") {
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
  if (!has_rows_) std::remove(path_.c_str());  // before the lock is free
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
          "-o {}: another run is writing there; wait for its end or give another file, as shards "
          "that run at once need",
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

void PartialFile::begin(const CsvRow& header, bool fresh) {
  if (fresh) {
    if (ftruncate(fileno(file_), 0) != 0) refuse(errno);
    is_empty_ = true;
    has_rows_ = false;
  }
  if (!is_empty_) return;
  if (!write_csv_row(file_, header) || std::fflush(file_) != 0) refuse(errno);
  is_empty_ = false;
}

bool PartialFile::add(const CsvRow& row) {
  has_rows_ = true;
  return write_csv_row(file_, row) && std::fflush(file_) == 0;
}

void PartialFile::remove() {
  std::remove(path_.c_str());  // before the lock is free
  std::fclose(file_);
  file_ = nullptr;
}

}  // namespace octet::tool
