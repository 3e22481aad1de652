#include "tool/reporting/result_groups.hpp"

#include "tool/reporting/paired_ratios.hpp"

#include "bench/timing/timing.hpp"

#include <algorithm>
#include <tuple>

namespace octet::tool {
namespace {

struct Member {
  const ResultKind* kind;
  const ParsedRow* row;
  std::vector<PairedCase> pairs;
};

template <class Key>
std::vector<std::vector<Member>> split(const std::vector<Member>& members, Key key) {
  std::vector<std::vector<Member>> parts;
  for (const Member& member : members) {
    const auto same = std::find_if(parts.begin(), parts.end(), [&](const auto& part) {
      return key(part.front()) == key(member);
    });
    if (same == parts.end()) {
      parts.push_back({member});
    } else {
      same->push_back(member);
    }
  }
  return parts;
}

std::vector<double> means(const std::vector<Member>& members) {
  std::vector<double> result;
  for (std::size_t i = 0; i < members.front().kind->rates.size(); ++i) {
    std::vector<double> rates;
    for (const Member& member : members) {
      if (member.row->passed()) rates.push_back(member.row->rates[i]);
    }
    result.push_back(bench::geometric_mean(rates));
  }
  return result;
}

double copy_share(const std::vector<Member>& members) {
  std::vector<double> shares;
  for (const Member& member : members) {
    for (const PairedCase& pair : member.pairs) {
      if (role_of(pair.peer) == Role::copy) shares.push_back(pair.ratio);
    }
  }
  return bench::geometric_mean(shares);
}

ResultGroup make_group(const std::vector<Member>& members, const std::string& model) {
  const ParsedRow& first = *members.front().row;
  ResultGroup group{.kind = members.front().kind,
                    .problem = first.problem,
                    .device = first.device,
                    .backend = first.backend,
                    .model = model,
                    .means = means(members),
                    .copy_share = copy_share(members)};
  for (const Member& member : members) group.checks.count(member.row->check);
  return group;
}

}  // namespace

std::vector<ResultGroup> group_results(const ResultFolder& folder) {
  std::vector<Member> all;
  for (const ParsedResults& results : folder.results) {
    if (results.kind->backend_is_key) continue;
    for (std::size_t i = 0; i < results.rows.size(); ++i) {
      all.push_back({results.kind, &results.rows[i], paired_cases(results, i)});
    }
  }
  // Kinds are the elements of one list, in the order in which operators are shown.
  std::stable_sort(all.begin(), all.end(),
                   [](const Member& a, const Member& b) { return a.kind < b.kind; });
  const auto thing = [](const Member& member) {
    const ParsedRow& row = *member.row;
    return std::tie(member.kind, row.problem, row.device, row.backend);
  };
  std::vector<ResultGroup> groups;
  for (const auto& members : split(all, thing)) {
    groups.push_back(make_group(members, ""));
    const auto models = split(members, [](const Member& member) { return member.row->model; });
    // Where every model has a single shape, their means would say no more than the rows.
    if (models.size() < 2 || models.size() == members.size()) continue;
    for (const auto& model : models) {
      groups.push_back(make_group(model, model.front().row->model));
    }
  }
  return groups;
}

}  // namespace octet::tool
