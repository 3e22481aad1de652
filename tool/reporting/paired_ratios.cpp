#include "tool/reporting/paired_ratios.hpp"

#include "tool/results/command_line.hpp"

#include "bench/timing/timing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

namespace octet::tool {
namespace {

constexpr const char* kOctet = "octet";

// The row of octet for the same case, in the same file; nullptr if there is none.
const ParsedRow* octet_row(const ParsedResults& results, const ParsedRow& peer) {
  const auto found = std::find_if(results.rows.begin(), results.rows.end(), [&](const auto& row) {
    return row.backend == kOctet && row.shape == peer.shape && row.name == peer.name &&
           row.problem == peer.problem && row.device == peer.device;
  });
  return found == results.rows.end() ? nullptr : &*found;
}

// The ratio paired round by round: clocks that drift during a run cancel out in it, and not in the
// quotient of two medians, which stands in where a file has no such ratio.
double ratio_of(const ResultKind& kind, const bench::Record& record, const ParsedRow& octet,
                const ParsedRow& peer) {
  const double paired =
      kind.paired_ratio == nullptr ? std::nan("") : record.number(kind.paired_ratio);
  return std::isfinite(paired) && paired > 0 ? paired : octet.step_rate() / peer.step_rate();
}

// A row beside a peer, before the ratios are averaged.
struct Member {
  PairedRatio key;  // its names
  std::vector<double> ratios;
};

bool same_problem(const PairedRatio& a, const PairedRatio& b) {
  return a.title == b.title && a.problem == b.problem && a.device == b.device;
}

// A new one stands behind those of its problem.
Member& member_of(std::vector<Member>& members, const PairedRatio& key) {
  const auto found = std::find_if(members.begin(), members.end(), [&](const Member& one) {
    return same_problem(one.key, key) && one.key.peer == key.peer;
  });
  if (found != members.end()) return *found;
  const auto last = std::find_if(members.rbegin(), members.rend(),
                                 [&](const Member& one) { return same_problem(one.key, key); });
  return *members.insert(last == members.rend() ? members.end() : last.base(), Member{key, {}});
}

// The names of a row's pairings, but for the peer.
PairedRatio key_of_row(const ParsedResults& results, std::size_t index, PairedBy by) {
  const ParsedRow& row = results.rows[index];
  return {.op = operator_of_row(results, index),
          .title = title_of_row(results, index),
          .problem = by == PairedBy::problem ? row.problem : row.random_group(),
          .device = row.device,
          .peer = {}};
}

// The peers of a problem in one file, and what they did in each case.
struct Peers {
  PairedRatio key;
  std::set<std::string> names;
  std::map<std::string, std::vector<BetterCase>> cases;  // by label
};

// "cublaslt fast" sums with fewer bits than octet beside it, so it is not among those that could have been taken instead.
bool has_fewer_bits(const std::string& peer) { return peer.ends_with(" fast"); }

// "better of cublaslt, deep_gemm"
std::string better_of(const std::set<std::string>& names) {
  return fmt::format("{} of {}", names.size() == 2 ? "better" : "best", fmt::join(names, ", "));
}

// The position of an operator in result_kinds(); unknown ones come last.
std::ptrdiff_t position(const std::string& op) {
  const auto& kinds = result_kinds();
  return std::find_if(kinds.begin(), kinds.end(),
                      [&](const ResultKind& kind) { return kind.op == op; }) -
         kinds.begin();
}

PairedRatio averaged(const Member& member) {
  PairedRatio ratio = member.key;
  ratio.cases = member.ratios.size();
  ratio.mean = bench::geometric_mean(member.ratios);
  if (member.ratios.empty()) {
    ratio.worst = ratio.best = ratio.behind = std::nan("");
  } else {
    const auto [worst, best] = std::minmax_element(member.ratios.begin(), member.ratios.end());
    ratio.worst = *worst;
    ratio.best = *best;
    const auto behind = std::count_if(member.ratios.begin(), member.ratios.end(),
                                      [](double one) { return one < kBehind; });
    ratio.behind = static_cast<double>(behind) / static_cast<double>(ratio.cases);
  }
  return ratio;
}

}  // namespace

Role role_of(const std::string& contender) {
  if (contender == kOctet) return Role::octet;
  if (contender.rfind("octet ", 0) == 0) return Role::variant;
  const bool is_copy = contender == "device copy" || contender == "copy of the same bytes";
  return is_copy ? Role::copy : Role::peer;
}

const char* name(Role role) {
  constexpr std::array<const char*, 4> kNames{"octet", "variant", "copy", "peer"};
  return kNames.at(static_cast<std::size_t>(role));
}

std::string contender_of(const ResultKind& kind, const ParsedRow& row) {
  return kind.backend_is_key ? row.backend : kOctet;
}

std::string operator_of_row(const ParsedResults& results, std::size_t index) {
  if (!results.kind->backend_is_key) return results.kind->op;
  const std::string op = operator_of(results.record(index).at("Command"));
  return op.empty() ? results.kind->op : op;
}

std::string title_of_row(const ParsedResults& results, std::size_t index) {
  return operator_of_row(results, index) + (results.kind->backend_is_key ? " vs peers" : "");
}

std::vector<PairedCase> paired_cases(const ParsedResults& results, std::size_t index) {
  const ParsedRow& row = results.rows[index];
  if (!row.passed()) return {};
  std::vector<PairedCase> pairs;
  const bench::Record record = results.record(index);
  for (const BaselineColumn& baseline : results.kind->baselines) {
    const double ratio = record.number(baseline.ratio);
    if (!(ratio > 0)) continue;
    const std::string peer =
        baseline.name_column == nullptr ? baseline.name : record.at(baseline.name_column);
    PairedCase& pair = pairs.emplace_back(PairedCase{peer, ratio, row.step_rate() / ratio});
    for (const RateColumn& part : baseline.parts) {
      const double part_ratio = record.number(part.column);
      if (part_ratio > 0) pair.parts.emplace_back(part.title, part_ratio);
    }
  }
  if (!results.kind->backend_is_key || row.backend == kOctet) return pairs;
  const ParsedRow* octet = octet_row(results, row);
  if (octet != nullptr && octet->passed()) {
    // As tools/peers.py has it, for the builds of octet that it is given.
    const bool is_octet = record.at("Version").starts_with("device sources ");
    pairs.push_back(
        {row.backend, ratio_of(*results.kind, record, *octet, row), row.step_rate(), is_octet});
  }
  return pairs;
}

std::vector<BetterCase> better_cases(const ParsedResults& results) {
  std::vector<Peers> problems;
  for (std::size_t i = 0; i < results.rows.size(); ++i) {
    const PairedRatio key = key_of_row(results, i, PairedBy::problem);
    auto of_row = std::find_if(problems.begin(), problems.end(),
                               [&](const Peers& peers) { return same_problem(peers.key, key); });
    if (of_row == problems.end()) of_row = problems.insert(of_row, Peers{key, {}, {}});
    for (const PairedCase& pair : paired_cases(results, i)) {
      if (pair.is_octet || role_of(pair.peer) != Role::peer || has_fewer_bits(pair.peer)) continue;
      of_row->names.insert(pair.peer);
      of_row->cases[results.rows[i].label()].push_back({key, i, pair.ratio});
    }
  }
  std::vector<BetterCase> better;
  for (const Peers& peers : problems) {
    const auto has_several = [](const auto& of_case) { return of_case.second.size() > 1; };
    if (std::none_of(peers.cases.begin(), peers.cases.end(), has_several)) continue;
    if (peers.names.size() < 2) continue;
    for (const auto& [label, all] : peers.cases) {
      better.push_back(*std::min_element(
          all.begin(), all.end(),
          [](const BetterCase& a, const BetterCase& b) { return a.ratio < b.ratio; }));
      better.back().key.peer = better_of(peers.names);
    }
  }
  return better;
}

std::vector<PairedRatio> paired_ratios(const ResultFolder& folder, PairedBy by) {
  std::vector<Member> members;
  for (const ParsedResults& results : folder.results) {
    for (std::size_t i = 0; i < results.rows.size(); ++i) {
      const ParsedRow& row = results.rows[i];
      const std::string contender = contender_of(*results.kind, row);
      PairedRatio key = key_of_row(results, i, by);
      key.peer = contender;
      if (contender != kOctet) member_of(members, key).key.checks.count(row.check);
      for (const PairedCase& pair : paired_cases(results, i)) {
        key.peer = pair.peer;
        Member& member = member_of(members, key);
        // A baseline of octet's own row has no row, and so no check, of its own.
        if (contender == kOctet) member.key.checks.count(row.check);
        member.ratios.push_back(pair.ratio);
      }
    }
    if (by != PairedBy::problem) continue;
    for (const BetterCase& one : better_cases(results)) {
      member_of(members, one.key).ratios.push_back(one.ratio);
    }
  }
  std::vector<PairedRatio> ratios;
  ratios.reserve(members.size());
  std::transform(members.begin(), members.end(), std::back_inserter(ratios), averaged);
  std::stable_sort(ratios.begin(), ratios.end(), [](const PairedRatio& a, const PairedRatio& b) {
    return position(a.op) < position(b.op);
  });
  return ratios;
}

ChecksBySide checks_by_side(const ResultFolder& folder) {
  ChecksBySide checks;
  for (const ParsedResults& results : folder.results) {
    for (const ParsedRow& row : results.rows) {
      const bool ours = is_ours(role_of(contender_of(*results.kind, row)));
      (ours ? checks.octet : checks.peers).count(row.check);
    }
  }
  return checks;
}

}  // namespace octet::tool
