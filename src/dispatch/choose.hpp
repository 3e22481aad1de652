// The choice of an implementation: argument beats environment beats the tuning table beats the order
// of the list.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace octet {

// A problem, and the implementation that is forced for it, if any.
struct Request {
  std::string_view op;  // "gemm"; its variable is OCTET_GEMM_BACKEND
  std::string_view
      precision;        // "fp8" or "other": the key of OCTET_GEMM_BACKEND=fp8:NAME,other:NAME
  std::string problem;  // the command line that repeats it
  std::string forced_argument;     // an implementation's name, or empty
  std::string forced_environment;  // the same, from the environment

  bool is_forced() const { return !forced_argument.empty() || !forced_environment.empty(); }
};

// An implementation that may take the problem.
struct Candidate {
  std::string name;
  std::string refusal;  // empty: takes the problem
  bool only_forced = false;
};

// What a tuning table has for the problem.
struct TableEntry {
  std::string implementation;
  std::string configuration;
  std::string path;
  std::string refusal;  // why it is not used; empty: it is
};

struct Choice {
  std::size_t index = 0;
  std::string why;
};

// A pure function, apart from what OCTET_LOG=dispatch prints. Throws Error if a forced name is
// unknown or refuses the problem, or if no implementation takes it; then the error lists every
// refusal. `tuned`: the entry for the problem, if any.
Choice choose(const Request& request, const std::vector<Candidate>& candidates,
              const TableEntry* tuned = nullptr);

// Notes the problem of a plan: for OCTET_LOG=calls, which prints it for octet tune --from-log, and for
// whoever records the calls of this thread.
void log_call(const Request& request, bool backward);

// The problems of all plans that this thread makes while it lives, in their order: what describe() says,
// with ", backward" behind it where that is the pass.
class RecordedCalls {
 public:
  RecordedCalls();
  ~RecordedCalls();
  RecordedCalls(const RecordedCalls&) = delete;
  RecordedCalls& operator=(const RecordedCalls&) = delete;

  const std::vector<std::string>& problems() const { return problems_; }
  void add(std::string problem) { problems_.push_back(std::move(problem)); }

 private:
  RecordedCalls* before_;
  std::vector<std::string> problems_;
};

// Why a requested configuration cannot run a problem.
struct Refusal {
  std::string reason;
};

// Throws Error: the chosen implementation cannot run the problem with this configuration.
[[noreturn]] void refuse_configuration(const Request& request, std::string_view implementation,
                                       std::string_view configuration, std::string_view reason);

// "OCTET_RMS_NORM_BACKEND" for "rms_norm"
std::string backend_variable(std::string_view op);

// A request with the environment read into it.
Request make_request(std::string_view op, std::string_view precision, std::string problem,
                     std::string forced_argument);

// Reads "NAME" or "fp8:NAME,other:NAME"; empty if `precision` is not named. Throws Error.
std::string parse_forced(std::string_view variable, std::string_view value,
                         std::string_view precision);

}  // namespace octet
