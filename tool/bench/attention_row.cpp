// The rows of attention: its shape and mask in columns of their own, then the rates of forward,
// backward (2.5 times the operations of forward) and both, and with --baseline those of another
// library from the same run.
#include "tool/bench/case_result.hpp"

#include "bench/report/tables.hpp"

namespace octet::tool {
namespace {

bench::Row time_fields(const CaseResult& result) {
  if (!result.times) return bench::Row(6);
  const double forward = result.seconds(0);
  const double backward = result.seconds(1);
  bench::Row fields;
  for (const auto& [parts, seconds] :
       {std::pair(1.0, forward), std::pair(2.5, backward), std::pair(3.5, forward + backward)}) {
    append(fields, {number(seconds * 1e3),
                    number(parts * result.chosen.forward_operations / seconds / 1e12)});
  }
  return fields;
}

// What no column has: alignment, scale, sinks, lengths and limits.
std::string options_text(const std::string& arguments) {
  std::string text;
  for (const auto& [option, value] : options_of(arguments)) {
    for (const char* kept : {"--align", "--scale", "--sink", "--total", "--offsets", "--lengths",
                             "--out", "--workspace-limit"}) {
      if (option != kept) continue;
      text += (text.empty() ? "" : " ") + option + (value.empty() ? "" : " " + value);
    }
  }
  return text;
}

bool is_causal(const std::string& arguments) {
  const std::string window = option_of(arguments, "--window");
  return has_option(arguments, "--causal") || (window.size() > 1 && window.ends_with(",0"));
}

std::string layout_text(const std::string& arguments) {
  if (has_option(arguments, "--offsets")) return "thd";
  const std::string layout = option_of(arguments, "--layout");
  return layout.empty() ? "bshd" : layout;
}

// Every implementation is, but for one that says so in its name.
bool is_deterministic(const CaseResult& result) {
  return result.implementation.find("nondeterministic") == std::string::npos;
}

bench::Row attention_fields(const CaseResult& result) {
  const Case& one = result.chosen;
  bench::Row fields = place_fields(result);
  append(fields, {one.name, result.op, option_of(one.arguments, "--dtype")});
  for (const std::int64_t extent : one.extents) fields.push_back(std::to_string(extent));
  append(fields, {is_causal(one.arguments) ? "True" : "False", option_of(one.arguments, "--window"),
                  layout_text(one.arguments), is_deterministic(result) ? "True" : "False"});
  bench::Row run = run_fields(result);  // begins with the backend
  append(fields, {run[0], result.check});
  append(fields, time_fields(result));
  append(fields,
         {options_text(one.arguments), std::to_string(result.calls[1].workspace_bytes),
          number(least_snr_db(result.gates, false)), number(least_snr_db(result.gates, true))});
  run.erase(run.begin());
  append(fields, run);
  append(fields, origin_fields(result));
  if (result.baseline.empty()) return fields;
  append(fields, baseline_fields(result));
  fields.push_back(result.baseline_configuration);
  return fields;
}

}  // namespace

RowLayout attention_layout(const std::string& baseline) {
  return {bench::attention_columns(!baseline.empty()), attention_fields, bench::attention_table,
          "Case"};
}

}  // namespace octet::tool
