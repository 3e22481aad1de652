// The configurations of the Hopper backward of attention, and their shared memory.
#pragma once

#include "ops/attention/sm90/backward/tables.hpp"

#include <octet/dtype.hpp>

#include <cstddef>
#include <cstdint>

namespace octet::attention {

inline constexpr int kConsumers = 2;
inline constexpr int kThreads = (kConsumers + 1) * 128;
inline constexpr int kTablesThreads = 1024;
inline constexpr int kPrepareThreads = 256;
inline constexpr int kWaveRows = 64;  // of a wgmma
inline constexpr int kSharedLimit = 232448;

// The head sizes of the kernel that takes these; it fills the rest with zeros.
struct HeadSizes {
  int qk;
  int v;
};
constexpr HeadSizes filled_sizes(std::int64_t dim_qk, std::int64_t dim_v) {
  if (dim_qk <= 64 && dim_v <= 64) return {64, 64};
  return {dim_qk <= 128 ? 128 : 192, 128};
}

// dk and dv: 128 keys stay in shared memory, and blocks of queries go by.
struct BackwardConfig {
  Dtype dtype = Dtype::bf16;
  int dim_qk = 128;
  int dim_v = 128;
  int queries = 64;  // of a step
  int stages = 2;    // of q, and of dout
  bool together =
      true;  // scores and dP in flight at once; else dP takes the registers of the scores
  bool dv_first = false;  // dv is issued before dS is formed

  friend bool operator==(const BackwardConfig&, const BackwardConfig&) = default;
};

// dq: a row of 256 queries, 128 for each consumer, and 64 keys a stage.
struct DqConfig {
  Dtype dtype = Dtype::bf16;
  int dim_qk = 128;
  int stages = 4;

  friend bool operator==(const DqConfig&, const DqConfig&) = default;
};
inline constexpr int kDqKeys = 64;

}  // namespace octet::attention
