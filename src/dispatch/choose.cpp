#include "dispatch/choose.hpp"

#include "core/message.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>

namespace octet {
namespace {

thread_local RecordedCalls* this_thread_records = nullptr;

// Whether OCTET_LOG, a list with commas, has this word.
bool logs(std::string_view word) {
  const char* value = std::getenv("OCTET_LOG");
  if (value == nullptr || *value == '\0') return false;
  bool found = false;
  for (std::string_view rest = value; !rest.empty();) {
    const std::string_view given = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(given.size() + 1, rest.size()));
    if (given != "dispatch" && given != "calls") {
      refuse_argument("OCTET_LOG must be dispatch, calls or dispatch,calls, got \"", value, "\"");
    }
    found = found || given == word;
  }
  return found;
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

// The candidate that the table's entry names; `candidates.size()`: the entry is not used.
std::size_t tuned_index(const std::vector<Candidate>& candidates, const TableEntry* tuned) {
  if (tuned == nullptr || !tuned->refusal.empty()) return candidates.size();
  const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& one) {
    return one.name == tuned->implementation;
  });
  return static_cast<std::size_t>(found - candidates.begin());
}

void log_choice(const Request& request, const std::vector<Candidate>& candidates,
                const Choice& choice, const TableEntry* tuned) {
  std::string configuration, unused;
  if (tuned != nullptr && tuned->refusal.empty()) {
    configuration = text(" \"", tuned->configuration, '"');
  } else if (tuned != nullptr) {
    unused = text("\n  tuning table ", tuned->path, ": its entry, ", tuned->implementation, " \"",
                  tuned->configuration, "\", is not used: ", tuned->refusal);
  }
  const std::string line =
      text("octet dispatch: ", request.problem, "\n  chosen: ", candidates[choice.index].name,
           configuration, " (", choice.why, ")", unused, refusals(candidates), "\n");
  std::fputs(line.c_str(), stderr);
}

}  // namespace

std::string backend_variable(std::string_view op) {
  std::string name = "OCTET_";
  for (char c : op) name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name + "_BACKEND";
}

Choice choose(const Request& request, const std::vector<Candidate>& candidates,
              const TableEntry* tuned) {
  const std::size_t in_table = tuned_index(candidates, tuned);
  const Choice choice =
      !request.forced_argument.empty()
          ? choose_forced(request, candidates, request.forced_argument, "argument")
      : !request.forced_environment.empty()
          ? choose_forced(request, candidates, request.forced_environment,
                          backend_variable(request.op))
      : in_table < candidates.size() ? Choice{in_table, "by the tuning table " + tuned->path}
                                     : choose_first(request, candidates);
  if (logs("dispatch")) log_choice(request, candidates, choice, tuned);
  return choice;
}

void log_call(const Request& request, bool backward) {
  const bool printed = logs("calls");
  if (!printed && this_thread_records == nullptr) return;
  const std::string problem = request.problem + (backward ? ", backward" : "");
  if (this_thread_records != nullptr) this_thread_records->add(problem);
  if (printed) std::fputs(text("octet call: ", problem, "\n").c_str(), stderr);
}

RecordedCalls::RecordedCalls() : before_(this_thread_records) { this_thread_records = this; }
RecordedCalls::~RecordedCalls() { this_thread_records = before_; }

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
