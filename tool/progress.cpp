#include "tool/progress.hpp"

#include "tool/console.hpp"

#include <fmt/format.h>

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string_view>

namespace octet::tool {
namespace {

constexpr std::string_view kClearLine = "\r\033[K";
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

std::size_t stderr_width() {
  constexpr std::size_t kUsualWidth = 80;
  const std::size_t width = bench::terminal_width(STDERR_FILENO);
  return width > 0 ? width : kUsualWidth;
}

double sum_of_first(const std::vector<double>& values, std::size_t count) {
  return std::accumulate(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count), 0.0);
}

std::atomic<const char*> interrupt_text = nullptr;

// Runs in a signal handler: only async-signal-safe calls. The default action follows, so that the
// parent sees which signal ended the process.
void print_and_end(int number) {
  if (const char* text = interrupt_text.load(); text != nullptr) {
    [[maybe_unused]] const auto written = write(STDERR_FILENO, text, strlen(text));
  }
  signal(number, SIG_DFL);
  raise(number);
}

}  // namespace

std::string progress_line(double fraction, std::size_t done, std::size_t total,
                          const std::string& text, std::size_t width) {
  constexpr std::size_t kBarCells = 20;
  constexpr std::size_t kLeastWidthWithBar = 60;
  const auto cells = static_cast<std::size_t>(fraction * kBarCells);
  std::string line;
  if (width >= kLeastWidthWithBar) {
    line = fmt::format("[{:#<{}}{:.<{}}] ", "", cells, "", kBarCells - cells);
  }
  line += fmt::format("{}/{} {}", done, total, text);
  return bench::cut(line, width - 1);  // a character in the last column wraps on some terminals
}

Progress::Progress(std::vector<double> work)
    : work_(std::move(work)), on_terminal_(bench::takes_escapes(STDERR_FILENO)) {
  if (on_terminal_) redraw_ = std::thread([this] { redraw_every_second(); });
}

Progress::~Progress() {
  clear();
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (redraw_.joinable()) redraw_.join();
}

void Progress::redraw_every_second() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (quiet_) {
      changed_.wait(lock);
    } else if (changed_.wait_for(lock, std::chrono::seconds(1)) == std::cv_status::timeout) {
      draw();
    }
  }
}

void Progress::show(std::size_t done, const std::string& what) {
  if (!on_terminal_) return;
  {
    const std::lock_guard lock(mutex_);
    if (done != done_) last_done_ = Clock::now();
    done_ = done;
    what_ = printable(what);
    phase_.clear();
    quiet_ = false;
    visible_ = true;
    draw();
  }
  changed_.notify_all();
}

void Progress::phase(const std::string& phase, bool quiet) {
  if (!on_terminal_) return;
  {
    const std::lock_guard lock(mutex_);
    phase_ = phase;
    quiet_ = quiet;
    draw();
  }
  changed_.notify_all();
}

void Progress::draw() {
  if (!visible_) return;
  const double total = sum_of_first(work_, work_.size());
  const double fraction = total > 0 ? sum_of_first(work_, done_) / total : 1;
  const std::string text = what_ + (phase_.empty() ? "" : ", " + phase_) + time_left();
  fmt::print(stderr, "{}{}", kClearLine,
             progress_line(fraction, done_, work_.size(), text, stderr_width()));
  std::fflush(stderr);
}

// Nothing while the running case takes longer than all that was left was expected to take.
std::string Progress::time_left() const {
  const double done = sum_of_first(work_, done_);
  if (done <= 0 || done_ >= work_.size()) return "";
  const auto seconds = [](Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  };
  const double left = sum_of_first(work_, work_.size()) - done;
  const double expected =
      seconds(last_done_ - begin_) / done * left - seconds(Clock::now() - last_done_);
  return expected <= 0 ? "" : fmt::format(", about {} left", in_words(expected));
}

void Progress::clear() {
  if (!on_terminal_) return;
  const std::lock_guard lock(mutex_);
  if (visible_) fmt::print(stderr, "{}", kClearLine);
  visible_ = false;
  std::fflush(stderr);
}

InterruptMessage::InterruptMessage() {
  for (const int number : kSignals) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;  // NOLINT: the macro casts
    action.sa_handler = print_and_end;
    sigaction(number, &action, nullptr);
  }
}

InterruptMessage::~InterruptMessage() {
  for (const int number : kSignals) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler == print_and_end) signal(number, SIG_DFL);
  }
  interrupt_text = nullptr;
}

void InterruptMessage::set(const std::string& text) {
  texts_.push_back((bench::takes_escapes(STDERR_FILENO) ? std::string(kClearLine) : "") + text);
  interrupt_text = text.empty() ? nullptr : texts_.back().c_str();
}

}  // namespace octet::tool
