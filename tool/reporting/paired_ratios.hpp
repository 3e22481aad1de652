// octet beside its peers: how much longer a peer takes for the same case, over the cases that both
// passed. A mean over the cases of one contender says nothing beside the mean over those of another.
#pragma once

#include "tool/results/parsed_results.hpp"
#include "tool/results/stored_results.hpp"

#include <string>
#include <vector>

namespace octet::tool {

enum class Role {
  octet,    // the library as it is
  variant,  // another way of octet: "octet unfused"
  copy,     // a copy of the same bytes: a bound, not a peer
  peer
};

// The role of a contender, by the name it has in a column Library or Baseline.
Role role_of(const std::string& contender);
const char* name(Role role);
// octet and its variants: their failures are ours.
inline bool is_ours(Role role) { return role == Role::octet || role == Role::variant; }

// The contender that a row measured: "octet", or the library of a row of tools/peers.py.
std::string contender_of(const ResultKind& kind, const ParsedRow& row);
// "gemm": the operator, also for a row of tools/peers.py.
std::string operator_of_row(const ParsedResults& results, std::size_t index);
// For people: "gemm", or "gemm vs peers" for a row of tools/peers.py.
std::string title_of_row(const ParsedResults& results, std::size_t index);

// The other side of a case that octet passed.
struct PairedCase {
  std::string peer;
  double ratio = 0;       // the peer's time over octet's: above 1 octet is faster
  double rate = 0;        // of the peer, in the kind's unit
  bool is_octet = false;  // another build of octet, and so no peer
  // The ratios of the parts of a step, where the row has them: {"forward", 1.02}.
  std::vector<std::pair<std::string, double>> parts{};
};

// For a row of octet's own: the baselines timed in the same run. For a row of a peer: the row
// itself beside that of octet in the same file. Empty unless both passed.
std::vector<PairedCase> paired_cases(const ParsedResults& results, std::size_t index);

// A ratio below this is behind by more than noise.
inline constexpr double kBehind = 0.97;

struct PairedRatio {
  std::string op;
  std::string title;    // of the operator's table: "gemm vs peers"
  std::string problem;  // over all problems of the operator: empty, or a group of random layers
  std::string device;
  std::string peer;
  std::size_t cases = 0;  // that both passed
  double mean = 0;        // geometric, of the ratios; NaN if no case is in common
  double worst = 0;
  double best = 0;
  double behind = 0;  // the share of the cases below kBehind
  Checks checks{};    // of the peer
};

// Octet beside the fastest of its peers in a case.
struct BetterCase {
  PairedRatio key;  // its peer is "better of cublaslt, deep_gemm"
  std::size_t row;  // of that peer
  double ratio;
};
// The cases of problems of which the file has any that several peers passed. A case that only one of
// them passed is beside that one.
std::vector<BetterCase> better_cases(const ParsedResults& results);

// Per problem, or over all problems of an operator, with both groups of random layers apart; in the
// order of result_kinds(), files and rows. A problem whose cases have several peers is also beside
// "better of cublaslt, deep_gemm": in every case the peer that was fastest there.
enum class PairedBy { problem, op };
std::vector<PairedRatio> paired_ratios(const ResultFolder& folder, PairedBy by);

// Checks of octet's rows and of the peers' rows.
struct ChecksBySide {
  Checks octet{};
  Checks peers{};
};
ChecksBySide checks_by_side(const ResultFolder& folder);

}  // namespace octet::tool
