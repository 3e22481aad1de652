// E1 and E2: an output of an elementwise or row-wise operator against a reference in f64 that is
// given row by row. gates.hpp says what they ask.
#pragma once

#include "check/reference/decoded_rows.hpp"
#include "check/judge/judge.hpp"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace octet {

// Writes row `row` of the reference; called by several threads at once.
using ReferenceRow = std::function<void(std::int64_t row, std::span<double> values)>;

struct ElementsClaim {
  TensorView out;  // [rows, cols] of f32, f16 or bf16, columns contiguous, on any device
  ReferenceRow reference;
  // The reference is rounded as the output is (see rounded()), and every element is equal to it.
  bool exact = false;
};

// E1 where there are kSnrOutputs outputs to compare, and E2.
std::vector<GateResult> judge_elements(const std::string& tensor, const ElementsClaim& claim,
                                       const JudgeOptions& options);

// The rows of an output that are judged, ascending: all of them, or beyond options.sample_beyond
// elements as many rows as have those, drawn one from each of as many equal runs, with the first and the
// last row.
std::vector<std::int64_t> judged_rows(std::int64_t rows, std::int64_t cols,
                                      const JudgeOptions& options);

}  // namespace octet
