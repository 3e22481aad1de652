#include "tool/reporting/across.hpp"

#include "tool/options/parse.hpp"
#include "tool/results/command_line.hpp"
#include "tool/results/settings.hpp"

#include "bench/timing/timing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace octet::tool {
namespace {

constexpr const char* kNotGiven = "not given";

struct AcrossOption {
  const char* name;
  // Options that only some of its values take.
  std::vector<std::string_view> follow;
};

const std::vector<AcrossOption>& options() {
  static const std::vector<AcrossOption> all{
      {"granularity",
       {"--wgrad-blocks", "--fast-accumulation", "--amax-floor", "--pow2-scales", "--mx-scale"}},
      {"wgrad-blocks", {}},
      {"dtype",
       {"--granularity", "--wgrad-blocks", "--fast-accumulation", "--amax-floor", "--pow2-scales",
        "--mx-scale", "--format", "--grad-format", "--input", "--prequantized",
        "--weights-quantized"}}};
  return all;
}

const AcrossOption& option_named(const std::string& name) {
  return *std::find_if(options().begin(), options().end(),
                       [&](const AcrossOption& option) { return option.name == name; });
}

using Options = std::map<std::string, std::string>;

// A row as the pairing sees it.
struct Candidate {
  const ParsedResults* results;
  std::size_t place;  // of the row
  std::string value;  // of the option
  Options others;     // every other option of the problem
  std::string backend;
  std::string repeat;  // "2" for the second row of the same layer, options and backend

  const ParsedRow& row() const { return results->rows[place]; }
};

// Kinds with a variant have a column where others have an option.
Options options_of_row(const ParsedResults& results, std::size_t place) {
  const ResultKind& kind = *results.kind;
  const bench::Record record = results.record(place);
  if (kind.variant.empty()) return problem_options_of(record.at("Command"), kind.shape_options);
  Options all{{"backend", results.rows[place].backend}};
  for (const char* column : kind.variant) {
    all[column == std::string_view("Dtype") ? "--dtype" : column] = record.at(column);
  }
  for (const char* option : {"--granularity", "--fast-accumulation"}) {
    if (has_option(record.at("Command"), option)) {
      all[option] = option_of(record.at("Command"), option);
    }
  }
  return all;
}

std::string text_of(const Options& options) {
  std::vector<std::string> words;
  for (const auto& [name, value] : options) {
    words.push_back(value.empty() ? name : fmt::format("{} {}", name, value));
  }
  return fmt::format("{}", fmt::join(words, " "));
}

// What an option that is not given stands for: FP8 is blockwise.
std::string usual_value(const AcrossOption& across, const Options& options) {
  const auto dtype = options.find("--dtype");
  const bool fp8 = dtype != options.end() && dtype->second == "fp8";
  return fp8 && across.name == std::string_view("granularity") ? "blockwise" : kNotGiven;
}

std::vector<Candidate> candidates_of(const ParsedResults& results, const AcrossOption& across) {
  std::vector<Candidate> candidates;
  std::map<std::string, int> repeats;
  for (std::size_t i = 0; i < results.rows.size(); ++i) {
    Candidate one{&results, i, {}, options_of_row(results, i), {}, {}};
    one.value = usual_value(across, one.others);
    if (const auto found = one.others.find(std::string("--") + across.name);
        found != one.others.end()) {
      one.value = found->second;
      one.others.erase(found);
    }
    one.backend = forced_backends(results.record(i).at("Command"));
    const std::string key = one.row().label() + one.value + text_of(one.others) + one.backend;
    one.repeat = std::to_string(++repeats[key]);
    candidates.push_back(std::move(one));
  }
  return candidates;
}

// "--format e4m3, now e5m2": the options but for `across` that forbid a pair.
std::vector<std::string> other_differences(const AcrossOption& across, const Candidate& a,
                                           const Candidate& b) {
  std::set<std::string> names;
  for (const Options* side : {&a.others, &b.others}) {
    for (const auto& [name, value] : *side) names.insert(name);
  }
  std::vector<std::string> differences;
  for (const std::string& name : names) {
    const auto left = a.others.find(name);
    const auto right = b.others.find(name);
    const bool in_a = left != a.others.end();
    const bool in_b = right != b.others.end();
    const bool follows =
        std::find(across.follow.begin(), across.follow.end(), name) != across.follow.end();
    if (in_a && in_b ? left->second == right->second : follows) continue;
    const auto value = [&](bool given, const auto& found) -> std::string {
      if (!given) return kNotGiven;
      return found->second.empty() ? "given" : found->second;
    };
    differences.push_back(
        fmt::format("{} {}, now {}", name, value(in_a, left), value(in_b, right)));
  }
  return differences;
}

using Pair = std::pair<const Candidate*, const Candidate*>;

// The rows of a layer by its case and shape.
using Layers = std::multimap<std::string, const Candidate*>;

std::vector<Pair> pairs_of(const AcrossOption& across, const std::vector<const Candidate*>& left,
                           const Layers& right, bool any_device, bool any_backend) {
  std::vector<Pair> pairs;
  for (const Candidate* a : left) {
    const auto [begin, end] = right.equal_range(a->row().label());
    for (auto it = begin; it != end; ++it) {
      const Candidate* b = it->second;
      if (a->value == b->value || a->repeat != b->repeat) continue;
      if (!any_device && a->row().device != b->row().device) continue;
      if (!any_backend && a->backend != b->backend) continue;
      if (other_differences(across, *a, *b).empty()) pairs.emplace_back(a, b);
    }
  }
  return pairs;
}

std::string values_of(const std::vector<Candidate>& candidates) {
  std::set<std::string> values;
  for (const Candidate& one : candidates) values.insert(one.value);
  return fmt::format("{}", fmt::join(values, ", "));
}

// Says what keeps the rows apart: the same value everywhere, other options, or other layers.
[[noreturn]] void refuse(const AcrossOption& across, const std::vector<Candidate>& before,
                         const std::vector<Candidate>& after) {
  const std::string wanted =
      fmt::format("wanted rows of one layer that differ in --{}, in one file or two", across.name);
  const std::string& old_source = before.front().results->source;
  const std::string& new_source = after.front().results->source;
  const std::string files =
      old_source == new_source ? old_source : fmt::format("{} and {}", old_source, new_source);
  for (const Candidate& a : before) {
    for (const Candidate& b : after) {
      if (a.row().label() != b.row().label() || a.value == b.value) continue;
      refuse_usage("{}: {} with {} {} and {} differs in other options, too: {}; {}", files,
                   a.row().label(), across.name, a.value, b.value,
                   fmt::join(other_differences(across, a, b), "; "), wanted);
    }
  }
  if (values_of(before) == values_of(after) && values_of(before).find(',') == std::string::npos) {
    refuse_usage("{}: every row has {} {}; {}", files, across.name, values_of(before), wanted);
  }
  refuse_usage("{} ({} {}, first {}) and {} ({} {}, first {}) have no layer in common; {}",
               old_source, across.name, values_of(before), before.front().row().label(), new_source,
               across.name, values_of(after), after.front().row().label(), wanted);
}

// The median over the rows that passed; NaN if none has the column.
double median_of(const std::vector<const Candidate*>& rows, const char* column) {
  std::vector<double> values;
  for (const Candidate* one : rows) {
    const double value = one->results->record(one->place).number(column);
    if (one->row().passed() && !std::isnan(value)) values.push_back(value);
  }
  return values.empty() ? std::nan("") : bench::median(values);
}

std::vector<ErrorChange> errors_of(const std::vector<Pair>& pairs) {
  std::vector<const Candidate*> before;
  std::vector<const Candidate*> after;
  for (const auto& [a, b] : pairs) {
    before.push_back(a);
    after.push_back(b);
  }
  std::vector<ErrorChange> errors;
  for (const SnrColumn& snr : pairs.front().first->results->kind->snrs) {
    const ErrorChange change{snr.column, median_of(before, snr.column),
                             median_of(after, snr.column)};
    if (!std::isnan(change.before) || !std::isnan(change.after)) errors.push_back(change);
  }
  return errors;
}

AcrossPairing pairing_of(const AcrossOption& across, const std::vector<Pair>& pairs) {
  const auto& [a, b] = pairs.front();
  std::vector<RowPair> places;
  places.reserve(pairs.size());
  for (const auto& [left, right] : pairs) places.push_back({left->place, right->place});
  AcrossPairing pairing{a->value,
                        b->value,
                        {},
                        {a->results, b->results, compare_rows(*a->results, *b->results, places),
                         a->row().random_group()},
                        errors_of(pairs)};
  std::erase_if(pairing.rows.comparison.settings, [&](const ComparedSetting& setting) {
    return setting.change.name == std::string("--") + across.name;
  });
  return pairing;
}

// Pairings of the same two values are told apart by the options that they do not share.
void tell_apart(std::vector<AcrossPairing>& pairings,
                const std::vector<std::vector<Pair>>& pairs_of_each) {
  for (std::size_t i = 0; i < pairings.size(); ++i) {
    const Candidate& one = *pairs_of_each[i].front().first;
    Options apart;
    for (std::size_t j = 0; j < pairings.size(); ++j) {
      if (pairings[i].before != pairings[j].before || pairings[i].after != pairings[j].after) {
        continue;
      }
      const Candidate& other = *pairs_of_each[j].front().first;
      for (const auto& [name, value] : one.others) {
        const auto found = other.others.find(name);
        if (found == other.others.end() || found->second != value) apart[name] = value;
      }
      if (one.backend != other.backend) apart["backend"] = one.backend;
    }
    pairings[i].apart = text_of(apart);
  }
}

}  // namespace

std::vector<std::string> across_choices() {
  std::vector<std::string> names;
  for (const AcrossOption& option : options()) names.emplace_back(option.name);
  return names;
}

Across pair_across(const ParsedResults& before, const ParsedResults& after,
                   const std::string& across_name, bool any_device) {
  check_comparable(before, after, any_device);
  const AcrossOption& across = option_named(across_name);
  const bool one_file = &before == &after;
  const std::vector<Candidate> all_before = candidates_of(before, across);
  const std::vector<Candidate> all_after =
      one_file ? std::vector<Candidate>{} : candidates_of(after, across);
  const std::vector<Candidate>& others = one_file ? all_before : all_after;

  std::vector<const Candidate*> left;
  for (const Candidate& one : all_before) {
    if (!one_file || one.value == all_before.front().value) left.push_back(&one);
  }
  Layers right;
  for (const Candidate& one : others) right.emplace(one.row().label(), &one);
  std::vector<Pair> pairs = pairs_of(across, left, right, any_device, false);
  if (pairs.empty()) pairs = pairs_of(across, left, right, any_device, true);
  if (pairs.empty()) refuse(across, all_before, others);

  // A pairing per problem, random group and forced backend of both sides, in the order of the rows.
  const auto key_of = [](const Candidate& one) {
    return one.value + " " + text_of(one.others) + " " + one.row().random_group() + " " +
           one.backend;
  };
  std::vector<std::string> keys;
  std::vector<std::vector<Pair>> groups;
  std::set<const Candidate*> paired;
  for (const Pair& pair : pairs) {
    const std::string key = key_of(*pair.first) + " -> " + key_of(*pair.second);
    const auto found = std::find(keys.begin(), keys.end(), key);
    const auto place = static_cast<std::size_t>(found - keys.begin());
    if (found == keys.end()) {
      keys.push_back(key);
      groups.emplace_back();
    }
    groups[place].push_back(pair);
    paired.insert({pair.first, pair.second});
  }
  Across result;
  for (const std::vector<Pair>& group : groups) {
    result.pairings.push_back(pairing_of(across, group));
  }
  tell_apart(result.pairings, groups);
  for (const std::vector<Candidate>* side : {&all_before, &all_after}) {
    for (const Candidate& one : *side) {
      if (paired.count(&one) == 0) result.unpaired.push_back(one.row().key);
    }
  }
  return result;
}

}  // namespace octet::tool
