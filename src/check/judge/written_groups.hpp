// FP8 copies of a batch of matrices, or of groups of rows, that two calls write: the first with
// padding of their own, the second inside memory that is not theirs. Each matrix and each group is
// judged as if it were alone.
#pragma once

#include "check/judge/judge.hpp"

#include <optional>
#include <string>
#include <vector>

namespace octet {

// Two guarded tensors of one layout, and the rules by which they are cast.
struct CopyWrittenTwice {
  OracleRules rules;
  GuardedQuantized first;
  GuardedQuantized second;

  template <class Layout>
  CopyWrittenTwice(const Fp8Output& fp8, BlockShape block, const Layout& layout, Device device)
      : rules{fp8.format, block, fp8.amax_floor, fp8.pow2_scales},
        first(layout, true, device),
        second(layout, false, device) {}

  // Q, from the number of values and scales that differ; G5 and G6. The first `written` rows or
  // matrices must be written, the others not.
  void report(const std::string& tensor, std::int64_t differences, std::int64_t written,
              GateReport& report) const;
};

class Fp8BatchWrittenTwice {
 public:
  Fp8BatchWrittenTwice(const Fp8Output& fp8, std::int64_t batch, std::int64_t rows,
                       std::int64_t cols, Device device);

  Fp8Copies copies(int call) const;
  // `input`: [batch, rows, cols]. Tensors are named "out" and "transposed".
  void judge(const TensorView& input, const JudgeOptions& options, GateReport& report) const;

 private:
  std::optional<CopyWrittenTwice> out_;
  std::optional<CopyWrittenTwice> transposed_;
};

class Fp8GroupsWrittenTwice {
 public:
  // `rows`: of the buffers. `sizes`: the rows of each group.
  Fp8GroupsWrittenTwice(const Fp8Output& fp8, const std::vector<std::int64_t>& sizes,
                        std::int64_t rows, std::int64_t cols, GroupTail tail, Device device);

  Fp8Copies copies(int call) const;
  // `input`: [rows, cols], the rows of the groups one after the other. Tensors are named `prefix` +
  // "out" and "transposed".
  void judge(const std::string& prefix, const TensorView& input, const JudgeOptions& options,
             GateReport& report) const;

 private:
  std::int64_t grouped_rows() const;
  std::int64_t token_blocks() const;
  std::int64_t differences_of_rows(const TensorView& input, const JudgeOptions& options) const;
  std::int64_t differences_of_tail() const;
  // Of the token blocks of one group.
  std::int64_t differences_of_group(const TensorView& group_rows, std::int64_t first_block,
                                    const JudgeOptions& options) const;

  std::vector<std::int64_t> sizes_;
  std::int64_t rows_;
  GroupTail tail_;
  std::optional<CopyWrittenTwice> out_;
  std::optional<CopyWrittenTwice> transposed_;
};

}  // namespace octet
