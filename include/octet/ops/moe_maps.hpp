// moe_maps: which row of the buffers every token's copy for an expert gets, from the experts that
// were chosen. The rows of one expert are neighbours, the experts follow each other, nothing is
// padded; a slot is one of the top_k choices of a token, number token * top_k + k.
//
//   here         indices[t, k] is one of first_expert .. first_expert + groups - 1
//   row_of[t, k] the row of the slot, or -1
//   source[r]    the slot of row r, or -1 behind the last row: row_of[source[r]] = r
//   sizes[g]     the rows of expert first_expert + g
//   table        what group_table makes of the sizes for buffers of `rows` rows
//
// The rows of one expert are in the order of their slots, so no result depends on timing. Experts
// of other ranks, and -1, are not here: they get no row. With a capacity an expert takes its first
// `capacity` slots and drops the others.
//
// Nothing outside the tensors is ever written. Slots that find no room in the buffers get no row;
// an index that is no expert and not -1 counts as -1. The status keeps both, for check_moe_maps(),
// and counts the dropped slots. The indices lie on the device and are never read by the host.
#pragma once

#include <octet/ops/group_table.hpp>
#include <octet/plan.hpp>
#include <octet/tensor.hpp>

#include <string>

namespace octet {

inline constexpr std::int64_t kMoeMapsStatusWords = 16;

struct MoeMapsProblem {
  std::int64_t tokens = 0;  // tokens * top_k is at most 2^30
  std::int64_t top_k = 0;
  std::int64_t experts = 0;          // of the whole mixture
  std::int64_t first_expert = 0;     // of those here
  std::int64_t groups = 0;           // the experts here: 1 to 1024
  std::int64_t rows = 0;             // of the buffers: 1 to 2^30; tokens * top_k is always enough
  std::int64_t capacity = 0;         // rows of an expert at most; 0: any number
  Dtype indices_dtype = Dtype::i32;  // or i64
  Device device{};
};

struct MoeMapsArgs {
  TensorView indices;  // [tokens, top_k], columns contiguous
  TensorView row_of;   // [tokens, top_k], i32
  TensorView source;   // [rows], i32
  TensorView sizes;    // [groups], i32
  TensorView table;    // [group_table_words(groups, rows)], i32, 16-byte aligned
  TensorView status;   // [kMoeMapsStatusWords], i32, 16-byte aligned
};

using MoeMapsPlan = Plan<MoeMapsProblem>;

// "moe-maps --shape 8192x8 --experts 256 --rows 65536 --dtype i32 --device cpu"
OCTET_API std::string describe(const MoeMapsProblem& problem);
OCTET_API MoeMapsPlan plan_moe_maps(const MoeMapsProblem& problem, const PlanOptions& = {});
OCTET_API void run(const MoeMapsPlan& plan, const MoeMapsArgs& args, Workspace workspace = {},
                   void* stream = nullptr);

struct MoeMapsReport {
  std::int64_t dropped = 0;      // slots beyond the capacity of their expert
  std::int64_t cut = 0;          // slots beyond the rows of the buffers
  std::int64_t bad_indices = 0;  // that are no expert and not -1
  std::string error;  // the first bad index, or the missing rows, in a sentence; or empty
};
// Both copy the status to the host and wait for the stream.
OCTET_API MoeMapsReport read_moe_maps(const TensorView& status, void* stream = nullptr);
// Throws Error for a bad index and for slots that found no room. Dropped slots are no error.
OCTET_API void check_moe_maps(const TensorView& status, void* stream = nullptr);

}  // namespace octet
