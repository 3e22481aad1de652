#include "tool/profile/kernel_rows.hpp"

#include "bench/timing/timing.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace octet::tool {
namespace {

using Group = std::vector<const KernelLaunch*>;

// A group per kernel of a call; none if the calls are not alike.
std::vector<Group> by_position(const std::vector<KernelLaunch>& launches, std::size_t calls) {
  if (calls == 0 || launches.size() % calls != 0) return {};
  const std::size_t per_call = launches.size() / calls;
  std::vector<Group> groups(per_call);
  for (std::size_t i = 0; i < launches.size(); ++i) {
    if (launches[i].function != launches[i % per_call].function) return {};
    groups[i % per_call].push_back(&launches[i]);
  }
  return groups;
}

std::vector<Group> by_name(const std::vector<KernelLaunch>& launches) {
  std::vector<Group> groups;
  std::map<std::pair<std::string, std::string>, std::size_t> places;
  for (const KernelLaunch& launch : launches) {
    const auto [place, is_new] =
        places.emplace(std::pair(launch.function, launch.grid), groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(&launch);
  }
  return groups;
}

std::vector<double> medians(const Group& group) {
  std::vector<std::vector<double>> values(counters().size());
  for (const KernelLaunch* launch : group) {
    const std::vector<double> one = counter_values(launch->metrics);
    for (std::size_t c = 0; c < one.size(); ++c) {
      if (!std::isnan(one[c])) values[c].push_back(one[c]);
    }
  }
  std::vector<double> result;
  result.reserve(values.size());
  for (std::vector<double>& samples : values) result.push_back(bench::median(std::move(samples)));
  return result;
}

std::vector<const KernelRow*> of_part(const std::vector<KernelRow>& rows, const std::string& part) {
  std::vector<const KernelRow*> found;
  for (const KernelRow& row : rows) {
    if (row.part == part) found.push_back(&row);
  }
  return found;
}

void pair_by_name(const std::vector<const KernelRow*>& first, std::vector<const KernelRow*> second,
                  std::vector<KernelPair>& pairs) {
  for (const KernelRow* row : first) {
    const auto same = std::find_if(second.begin(), second.end(), [&](const KernelRow* other) {
      return other->kernel == row->kernel;
    });
    pairs.push_back({row, same == second.end() ? nullptr : *same});
    if (same != second.end()) second.erase(same);
  }
  for (const KernelRow* row : second) pairs.push_back({nullptr, row});
}

}  // namespace

std::vector<KernelRow> kernel_rows(const std::string& part,
                                   const std::vector<KernelLaunch>& launches, std::size_t calls) {
  std::vector<Group> groups = by_position(launches, calls);
  if (groups.empty()) groups = by_name(launches);
  std::vector<KernelRow> rows;
  rows.reserve(groups.size());
  for (const Group& group : groups) {
    const KernelLaunch& one = *group.front();
    rows.push_back({part, short_name(one.function), one.function, one.grid, one.block, group.size(),
                    medians(group)});
  }
  return rows;
}

std::vector<KernelPair> paired(const std::vector<KernelRow>& first,
                               const std::vector<KernelRow>& second) {
  std::vector<std::string> parts;
  for (const auto* rows : {&first, &second}) {
    for (const KernelRow& row : *rows) {
      if (std::find(parts.begin(), parts.end(), row.part) == parts.end()) parts.push_back(row.part);
    }
  }
  std::vector<KernelPair> pairs;
  for (const std::string& part : parts) {
    const auto ours = of_part(first, part);
    const auto theirs = of_part(second, part);
    if (ours.size() != theirs.size()) {
      pair_by_name(ours, theirs, pairs);
      continue;
    }
    for (std::size_t i = 0; i < ours.size(); ++i) pairs.push_back({ours[i], theirs[i]});
  }
  return pairs;
}

}  // namespace octet::tool
