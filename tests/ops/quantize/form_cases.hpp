// The forms of quantize beyond blocks of 128: which there are, and copies of them compared byte for
// byte with the rules, in poisoned memory between guard bands.
#pragma once

#include "ops/quantize/paths.hpp"
#include "ops/quantize/random_problem.hpp"
#include "ops/quantize/rules.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <vector>

namespace octet {

using OptionalBlock = std::optional<BlockShape>;

struct Form {
  OptionalBlock block;
  OptionalBlock transposed_block;
  bool given_scales = false;
  bool fold_mx = false;
  MxScale mx_scale = MxScale::floor;
  float amax_floor = 0;
  bool pow2_scales = false;

  QuantizeProblem problem(std::int64_t rows, std::int64_t cols, Dtype format) const {
    QuantizeProblem result;
    result.rows = rows;
    result.cols = cols;
    result.format = format;
    result.block = block;
    result.transposed_block = transposed_block;
    result.amax_floor = amax_floor;
    result.pow2_scales = pow2_scales;
    result.given_scales = given_scales;
    result.mx_scale = mx_scale;
    result.fold_mx = fold_mx;
    return result;
  }
};

// Scales that are found or given over whole lines and tensors.
inline std::vector<Form> whole_forms() {
  const OptionalBlock none;
  std::vector<Form> forms;
  const std::pair<OptionalBlock, OptionalBlock> layouts[] = {
      {kEachRow, none},         {kEachColumn, none},         {kWholeTensor, none},
      {none, kEachRow},         {none, kEachColumn},         {none, kWholeTensor},
      {kEachRow, kEachRow},     {kEachColumn, kEachColumn},  {kWholeTensor, kWholeTensor},
      {kEachRow, kWholeTensor}, {kWholeTensor, kEachColumn},
  };
  for (const auto& [block, transposed] : layouts) {
    forms.push_back({block, transposed});
    forms.push_back({block, transposed, true});
    forms.push_back({.block = block, .transposed_block = transposed, .amax_floor = 1e-4f});
    forms.push_back({.block = block, .transposed_block = transposed, .pow2_scales = true});
  }
  return forms;
}

inline std::vector<Form> mx_forms() {
  const OptionalBlock none;
  const std::pair<OptionalBlock, OptionalBlock> layouts[] = {
      {kBlock1x32, none},       {none, kBlock1x32},         {kBlock32x32, none},
      {kBlock1x32, kBlock1x32}, {kBlock32x32, kBlock32x32}, {kBlock1x32, kBlock32x32}};
  const std::pair<OptionalBlock, OptionalBlock> folds[] = {{kBlock1x128, none},
                                                           {none, kBlock1x128},
                                                           {none, kBlock128x128},
                                                           {kBlock1x128, kBlock1x128},
                                                           {kBlock128x128, kBlock128x128},
                                                           {kBlock1x128, kBlock128x128}};
  std::vector<Form> forms;
  for (const MxScale scale : {MxScale::floor, MxScale::even, MxScale::up}) {
    for (const auto& [block, transposed] : layouts) {
      forms.push_back({.block = block, .transposed_block = transposed, .mx_scale = scale});
    }
    for (const auto& [block, transposed] : folds) {
      forms.push_back(
          {.block = block, .transposed_block = transposed, .fold_mx = true, .mx_scale = scale});
    }
  }
  return forms;
}

// Different kinds in the two copies, and blocks of 128 with given scales.
inline std::vector<Form> mixed_forms() {
  return {{kEachRow, kBlock1x128},
          {kBlock1x32, kBlock1x128},
          {kBlock128x1, kEachRow},
          {kBlock1x128, kBlock128x1, true},
          {kBlock128x128, kBlock128x128, true}};
}

inline std::vector<Form> all_forms() {
  std::vector<Form> forms = whole_forms();
  for (const auto& list : {mx_forms(), mixed_forms()}) {
    forms.insert(forms.end(), list.begin(), list.end());
  }
  return forms;
}

inline void fill(Input& input, Data data, Random& random) {
  const TensorView& view = input.view();
  for (std::int64_t r = 0; r < view.rows(); ++r) {
    for (std::int64_t c = 0; c < view.cols(); ++c) {
      const bool line = data == Data::non_finite_lines && (r % 7 == 3 || c % 37 == 5);
      input.set(r, c, line ? -std::numeric_limits<float>::infinity() : random_value(data, random));
    }
  }
  if (data == Data::one_outlier) input.set(view.rows() / 2, view.cols() / 2, 3e4f);
}

// A copy in octet's own layout between guard bands.
class PaddedCopy {
 public:
  static constexpr std::uint8_t kPoison = 0xA5;
  static constexpr std::size_t kGuard = 256;

  PaddedCopy(std::int64_t rows, std::int64_t cols, Dtype dtype, BlockShape block,
             bool owns_padding = true)
      : layout_(rows, cols, dtype, block), memory_(layout_.bytes + 2 * kGuard) {
    std::memset(memory_.data(), kPoison, memory_.bytes());
    view_ = layout_.view(bytes() + kGuard);
    view_.owns_padding = owns_padding;
  }

  const QuantizedView& view() const { return view_; }
  std::uint8_t* bytes() const { return static_cast<std::uint8_t*>(memory_.data()); }
  std::size_t size() const { return memory_.bytes(); }

  // Positive scales that saturate some values.
  void give_scales() const {
    auto* scales = static_cast<float*>(view_.scales.data);
    const std::int64_t count = blocks_along(layout_.rows, layout_.block.rows) *
                               blocks_along(layout_.cols, layout_.block.cols);
    for (std::int64_t i = 0; i < count; ++i) *scale_at(scales, i) = 0.001f * (1 + i % 11);
  }
  float given(std::size_t block) const {
    return *scale_at(static_cast<float*>(view_.scales.data), static_cast<std::int64_t>(block));
  }

  // Writes what the operator must write.
  void set(const oracle::Wanted& wanted, bool with_scales) const {
    auto* values = static_cast<std::uint8_t*>(view_.values.data);
    for (std::int64_t r = 0; r < layout_.rows; ++r) {
      std::memset(values + r * layout_.pitch, 0, static_cast<std::size_t>(layout_.pitch));
      std::copy_n(wanted.codes.begin() + r * layout_.cols, layout_.cols,
                  values + r * layout_.pitch);
    }
    if (!with_scales) return;
    const std::int64_t lines = layout_.scale_strides[0] == 1 ? 1 : 0;  // the dimension across
    const std::int64_t count = layout_.scale_shape[lines] * layout_.scale_strides[lines];
    for (std::int64_t i = 0; i < count; ++i) set_scale(i, 1);
    for (std::size_t i = 0; i < wanted.scales.size(); ++i) {
      set_scale(offset(static_cast<std::int64_t>(i)), wanted.scales[i]);
    }
  }

 private:
  std::int64_t offset(std::int64_t block) const {
    const std::int64_t cols = layout_.scale_shape[1];
    return block / cols * layout_.scale_strides[0] + block % cols * layout_.scale_strides[1];
  }
  float* scale_at(float* scales, std::int64_t block) const { return scales + offset(block); }
  void set_scale(std::int64_t at, double value) const {
    if (is_mx(layout_.block)) {
      static_cast<std::uint8_t*>(view_.scales.data)[at] =
          static_cast<std::uint8_t>(std::ilogb(value) + 127);
    } else {
      static_cast<float*>(view_.scales.data)[at] = static_cast<float>(value);
    }
  }

  QuantizedLayout layout_;
  Buffer memory_;
  QuantizedView view_;
};

// The copies that a problem asks for, as the operator or the rules write them.
struct PaddedCopies {
  std::optional<PaddedCopy> out;
  std::optional<PaddedCopy> transposed;

  explicit PaddedCopies(const QuantizeProblem& problem, bool owns_padding = true) {
    if (problem.block) {
      out.emplace(problem.rows, problem.cols, problem.format, *problem.block, owns_padding);
    }
    if (problem.transposed_block) {
      transposed.emplace(problem.cols, problem.rows, problem.format, *problem.transposed_block,
                         owns_padding);
    }
    for (const auto* copy : {&out, &transposed}) {
      if (*copy && problem.given_scales) (*copy)->give_scales();
    }
  }

  QuantizeArgs args(const TensorView& input) const {
    QuantizeArgs result{input, {}, {}};
    if (out) result.out = out->view();
    if (transposed) result.transposed = transposed->view();
    return result;
  }

  void follow_rules(const QuantizeProblem& problem, const Input& input) const {
    const auto write = [&](const PaddedCopy& copy, oracle::Copy rules) {
      const auto given = [&copy](std::size_t block) { return copy.given(block); };
      copy.set(problem.given_scales ? rules.write(given) : rules.write(), !problem.given_scales);
    };
    if (out) {
      write(*out, {problem, *problem.block, problem.rows, problem.cols,
                   [&input](std::int64_t r, std::int64_t c) { return input.at(r, c); }});
    }
    if (transposed) {
      write(*transposed, {problem, *problem.transposed_block, problem.cols, problem.rows,
                          [&input](std::int64_t r, std::int64_t c) { return input.at(c, r); }});
    }
  }

  void expect_equal(const PaddedCopies& wanted, const std::string& what) const {
    const auto compare = [&](const PaddedCopy& a, const PaddedCopy& b, const char* copy) {
      const auto [x, y] = std::mismatch(a.bytes(), a.bytes() + a.size(), b.bytes());
      ASSERT_EQ(x - a.bytes(), static_cast<std::ptrdiff_t>(a.size()))
          << copy << ", " << what << ": byte "
          << x - static_cast<const std::uint8_t*>(a.view().values.data) << " is " << int{*x}
          << ", wanted " << int{*y};
    };
    if (out) compare(*out, *wanted.out, "out");
    if (transposed) compare(*transposed, *wanted.transposed, "transposed");
  }
};

// Runs the problem on the CPU and compares all bytes with what the rules say.
inline void expect_follows_rules(const QuantizeProblem& problem, const Input& input,
                                 const std::string& backend) {
  const PaddedCopies copies(problem);
  const PaddedCopies wanted(problem);
  const QuantizePlan plan = plan_quantize(problem, {backend, 2});
  const Buffer workspace(plan.workspace_bytes);
  run(plan, copies.args(input.view()), {workspace.data(), workspace.bytes()});
  wanted.follow_rules(problem, input);
  copies.expect_equal(wanted, plan.implementation + ": " + describe(problem));
}

}  // namespace octet
