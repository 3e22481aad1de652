// The choice of an implementation: argument beats environment beats the order of the list.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
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
};

// An implementation that may take the problem.
struct Candidate {
  std::string name;
  std::string refusal;  // empty: takes the problem
  bool only_forced = false;
};

struct Choice {
  std::size_t index = 0;
  std::string why;
};

// A pure function, apart from what OCTET_LOG=dispatch prints. Throws Error if a forced name is
// unknown or refuses the problem, or if no implementation takes it; then the error lists every
// refusal.
Choice choose(const Request& request, const std::vector<Candidate>& candidates);

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
