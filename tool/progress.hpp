// What a person sees while cases run: a line on stderr, redrawn in place, and a message if the run
// is interrupted. Both print escape sequences only to a terminal that takes them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace octet::tool {

// "[#####.....] 3/12 512x1024x768, timing, about 2 min left", cut to the terminal's width. The
// estimate takes the time per unit of work from the finished cases. Prints nothing if stderr is no
// terminal, or a dumb one.
class Progress {
 public:
  // `work` of every case, in any unit.
  explicit Progress(std::vector<double> work);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows that `done` cases are finished and `what` is running.
  void show(std::size_t done, const std::string& what);
  // The phase of the running case. While `quiet`, the line is not redrawn, so that the thread that
  // draws it does not wake up during a timing.
  void phase(const std::string& phase, bool quiet = false);
  bool on_terminal() const { return on_terminal_; }
  // Clears the line, so that something else can be printed.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  void draw();
  std::string time_left() const;
  void redraw_every_second();

  std::vector<double> work_;
  bool on_terminal_;
  std::size_t done_ = 0;
  std::string what_;
  std::string phase_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_done_ = begin_;
  bool visible_ = false;
  bool quiet_ = false;
  bool stop_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread redraw_;
};

// The line itself, for a terminal of `width` columns.
std::string progress_line(double fraction, std::size_t done, std::size_t total,
                          const std::string& text, std::size_t width);

// While it lives, Ctrl-C, SIGTERM and SIGHUP print a message before they end the process. Signals
// that are ignored, as under nohup, stay ignored.
class InterruptMessage {
 public:
  InterruptMessage();
  ~InterruptMessage();
  InterruptMessage(const InterruptMessage&) = delete;
  InterruptMessage& operator=(const InterruptMessage&) = delete;

  // Replaces the message. Empty: none.
  void set(const std::string& text);

 private:
  std::deque<std::string> texts_;  // all of them: a handler may be printing an earlier one
};

}  // namespace octet::tool
