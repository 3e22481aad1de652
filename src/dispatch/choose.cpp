#include "dispatch/choose.hpp"

#include "core/message.hpp"

#include <cctype>
#include <cstdio>
#include <cstdlib>

namespace octet {
namespace {

bool logs_dispatch() {
  const char* value = std::getenv("OCTET_LOG");
  if (value == nullptr || *value == '\0') return false;
  if (std::string_view(value) != "dispatch") {
    refuse_argument("OCTET_LOG must be dispatch, got \"", value, "\"");
  }
  return true;
}

std::string refusals(const std::vector<Candidate>& candidates) {
  std::string result;
  for (const Candidate& candidate : candidates) {
    if (!candidate.refusal.empty()) {
      result += text("\n  ", candidate.name, ": ", candidate.refusal);
    } else if (candidate.only_forced) {
      result += text("\n  ", candidate.name, ": is only run where it is forced by its name");
    }
  }
  return result;
}

std::string names(const std::vector<Candidate>& candidates) {
  std::string result;
  for (const Candidate& candidate : candidates) {
    result += (result.empty() ? "" : ", ") + candidate.name;
  }
  return result;
}

Choice choose_forced(const Request& request, const std::vector<Candidate>& candidates,
                     const std::string& forced, const std::string& source) {
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].name != forced) continue;
    if (!candidates[i].refusal.empty()) {
      fail(ErrorCode::unsupported, request.op, ": ", forced, ", forced by ", source,
           ", does not take this problem: ", candidates[i].refusal,
           "\n  problem: ", request.problem);
    }
    return {i, "forced by " + source};
  }
  refuse_argument(request.op, ": no implementation is called \"", forced, "\", forced by ", source,
                  "; there are: ", names(candidates));
}

Choice choose_first(const Request& request, const std::vector<Candidate>& candidates) {
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].refusal.empty() && !candidates[i].only_forced) {
      return {i, text("number ", i + 1, " of ", candidates.size(),
                      ", the first that takes the problem")};
    }
  }
  fail(ErrorCode::unsupported, "no implementation takes this problem\n  problem: ", request.problem,
       refusals(candidates));
}

void log_choice(const Request& request, const std::vector<Candidate>& candidates,
                const Choice& choice) {
  const std::string line =
      text("octet dispatch: ", request.problem, "\n  chosen: ", candidates[choice.index].name, " (",
           choice.why, ")", refusals(candidates), "\n");
  std::fputs(line.c_str(), stderr);
}

}  // namespace

std::string backend_variable(std::string_view op) {
  std::string name = "OCTET_";
  for (char c : op) name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name + "_BACKEND";
}

Choice choose(const Request& request, const std::vector<Candidate>& candidates) {
  const Choice choice =
      !request.forced_argument.empty()
          ? choose_forced(request, candidates, request.forced_argument, "argument")
      : !request.forced_environment.empty()
          ? choose_forced(request, candidates, request.forced_environment,
                          backend_variable(request.op))
          : choose_first(request, candidates);
  if (logs_dispatch()) log_choice(request, candidates, choice);
  return choice;
}

void refuse_configuration(const Request& request, std::string_view implementation,
                          std::string_view configuration, std::string_view reason) {
  fail(ErrorCode::unsupported, request.op, ": ", implementation, " cannot run configuration \"",
       configuration, "\": ", reason, "\n  problem: ", request.problem);
}

std::string parse_forced(std::string_view variable, std::string_view value,
                         std::string_view precision) {
  if (value.find(':') == std::string_view::npos) return std::string(value);
  std::string forced;
  while (!value.empty()) {
    const std::string_view entry = value.substr(0, value.find(','));
    value.remove_prefix(entry.size() < value.size() ? entry.size() + 1 : entry.size());
    const std::size_t colon = entry.find(':');
    const std::string_view key = entry.substr(0, colon);
    if (colon == std::string_view::npos || colon + 1 == entry.size() ||
        (key != "fp8" && key != "other")) {
      refuse_argument(variable, " must be NAME or fp8:NAME,other:NAME, got \"", entry, "\" in it");
    }
    if (key != precision) continue;
    if (!forced.empty()) {
      refuse_argument(variable, " must be NAME or fp8:NAME,other:NAME, got ", key, " twice");
    }
    forced = entry.substr(colon + 1);
  }
  return forced;
}

Request make_request(std::string_view op, std::string_view precision, std::string problem,
                     std::string forced_argument) {
  Request request{op, precision, std::move(problem), std::move(forced_argument), {}};
  const std::string variable = backend_variable(op);
  if (const char* value = std::getenv(variable.c_str()); value != nullptr && *value != '\0') {
    request.forced_environment = parse_forced(variable, value, precision);
  }
  return request;
}

}  // namespace octet
