// A profile as tables for a person and as rows of CSV.
#pragma once

#include "tool/profile/kernel_rows.hpp"
#include "tool/profile/launches.hpp"

#include "bench/report/record.hpp"

#include <string>
#include <vector>

namespace octet::tool {

// A case as one build of octet runs it.
struct BuildProfile {
  std::string build;  // "this", or the path of another octet
  std::vector<KernelRow> rows{};
  Facts facts{};  // of its launches and of its timing
};

// A row per kernel, its counters in columns; "-" for a counter that is not there.
std::vector<bench::Row> kernel_table(const BuildProfile& profile);
// A row per kernel and counter: both builds, and what this one has more, in percent of the other or,
// of a share, in points.
std::vector<bench::Row> side_by_side(const BuildProfile& ours, const BuildProfile& other);
// A row per build and part: the time without ncu, the clock and the power; only the titles if
// nothing was timed.
std::vector<bench::Row> timing_table(const std::vector<BuildProfile>& profiles,
                                     const std::vector<std::string>& parts);

const bench::Row& profile_header();
std::vector<bench::Row> profile_rows(const BuildProfile& profile, const std::string& op,
                                     const Case& one, const std::string& command);

}  // namespace octet::tool
