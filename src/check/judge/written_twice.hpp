// Guarded outputs that two calls write: the first call dense, the second with gaps that do not
// belong to them. They are judged for their memory (G5, G6) and for their contents.
#pragma once

#include "check/judge/judge.hpp"

#include <optional>
#include <string>

namespace octet {

// A matrix or a vector.
class WrittenTwice {
 public:
  WrittenTwice(Dtype dtype, std::int64_t rows, std::int64_t cols, std::int64_t gap, Device device);
  WrittenTwice(Dtype dtype, std::int64_t length, Device device);

  // 0: the first call's output, 1: the second's.
  TensorView view(int call) const;
  // For outputs that are only written in part: what they hold before. They are no longer poisoned.
  void fill_from(const TensorView& values);

  // E1, E2, G5 and G6. A reference gives a vector as one row.
  void judge(const std::string& tensor, const ReferenceRow& reference, const JudgeOptions& options,
             GateReport& report) const;
  // The same for a rounded reference: E2 requires equality.
  void judge_exact(const std::string& tensor, const ReferenceRow& reference,
                   const JudgeOptions& options, GateReport& report) const;

 private:
  void judge(const std::string& tensor, const ElementsClaim& claim, const JudgeOptions& options,
             GateReport& report) const;

  bool is_vector_ = false;
  GuardedMatrix first_;
  GuardedMatrix second_;
};

// A matrix or a vector of i32. Any number may be a result, so it is not poisoned; it begins as a
// pattern that no operator writes.
class IntegersTwice {
 public:
  IntegersTwice(std::int64_t rows, std::int64_t cols, std::int64_t gap, Device device);
  IntegersTwice(std::int64_t length, Device device);

  TensorView view(int call) const;
  std::vector<std::int32_t> values() const;  // of the first call

  // E2, which requires equality, G5 and G6. `wanted`: row by row.
  void judge(const std::string& tensor, std::span<const std::int32_t> wanted,
             GateReport& report) const;

 private:
  bool is_vector_ = false;
  GuardedMatrix first_;
  GuardedMatrix second_;
};

// The view of an output that a problem may not have.
inline TensorView view_of(const std::optional<WrittenTwice>& output, int call) {
  return output ? output->view(call) : TensorView();
}

// FP8 copies of a [rows, cols] output: the first with padding of their own, the second inside
// memory that is not theirs.
class Fp8WrittenTwice {
 public:
  // `rules`: how scales are found beyond the options of an FP8 output.
  Fp8WrittenTwice(const Fp8Output& fp8, std::int64_t rows, std::int64_t cols, Device device,
                  const OracleRules& rules = {});

  Fp8Copies copies(int call) const;

  // Q against the oracle's cast of `output`, [rows, cols] on the same device; G5 and G6. Tensors
  // are named `prefix` + "out" and "transposed".
  void judge(const std::string& prefix, const TensorView& output, const JudgeOptions& options,
             GateReport& report) const;

 private:
  struct Copy {
    OracleRules rules;
    GuardedQuantized first;
    GuardedQuantized second;

    Copy(const OracleRules& rules, std::int64_t rows, std::int64_t cols, Device device);
    void judge(const std::string& tensor, const TensorView& output, const JudgeOptions& options,
               GateReport& report) const;
  };

  std::optional<Copy> out_;
  std::optional<Copy> transposed_;
};

}  // namespace octet
