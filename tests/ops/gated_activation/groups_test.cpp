// gated_activation over groups: every group has the bits it would have alone, FP8 copies are those
// of quantize over the same groups, and no other byte is read or written.
#include "check/judge/compare_outputs.hpp"
#include "core/message.hpp"
#include "core/views.hpp"
#include "ops/gated_activation/case.hpp"
#include "ops/quantize/images.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <numeric>
#include <optional>

namespace octet {
namespace {

using Sizes = std::vector<std::int64_t>;

constexpr std::uint32_t kPattern = 0xA5A5A5A5;  // what outputs hold before a call

const Sizes kSizes[] = {
    {0, 1, 127, 128, 129}, {300}, {0, 0, 0}, {5, 0, 260, 0}, {1, 1, 1, 1, 1, 1}};

struct GroupsCase : GatedActivationCase {
  Sizes sizes;
  Tensor table;

  // Rows of inputs behind the last group are NaN.
  GroupsCase(GatedActivationProblem given, const Sizes& group_sizes, std::int64_t tail_rows,
             std::uint64_t seed)
      : GatedActivationCase(with_rows(given, group_sizes, tail_rows), Lie::as_halves),
        sizes(group_sizes),
        table(Dtype::i32, {group_table_words(problem.groups, problem.rows)}) {
    run(plan_group_table(
            {.groups = problem.groups, .rows = problem.rows, .sizes_dtype = Dtype::i64}),
        {make_view(sizes.data(), Dtype::i64, {problem.groups}), table});
    std::memset(d_weights.data(), 0xA5, d_weights.bytes());
    fill(seed);
    for (std::int64_t r = grouped_rows(); r < problem.rows; ++r) {
      static_cast<float*>(weights.data())[r] = std::numeric_limits<float>::quiet_NaN();
      for (std::int64_t c = 0; c < problem.cols; ++c) {
        for (const TensorView& input : {gate(), up(), dy()}) {
          set(input, r, c, std::numeric_limits<float>::quiet_NaN());
        }
      }
    }
  }

  static GatedActivationProblem with_rows(GatedActivationProblem problem, const Sizes& sizes,
                                          std::int64_t tail_rows) {
    problem.groups = static_cast<std::int64_t>(sizes.size());
    problem.rows = std::accumulate(sizes.begin(), sizes.end(), tail_rows);
    return problem;
  }
  std::int64_t grouped_rows() const {
    return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  }
  GatedActivationForwardArgs forward(const Fp8Copies& fp8 = {}) const {
    GatedActivationForwardArgs args = forward_args(fp8);
    args.table = table;
    return args;
  }
  GatedActivationBackwardArgs backward(const Fp8Copies& fp8 = {}) const {
    GatedActivationBackwardArgs args = backward_args(fp8);
    args.table = table;
    return args;
  }
};

// How a case is run: one of the implementations, or the SIMD kernels of one instruction set.
struct Path {
  std::string backend;
  std::optional<InstructionSet> instructions{};

  void run_forward(const GroupsCase& test, GatedActivationForwardArgs args, int threads) const {
    const auto plan = plan_gated_activation_forward(test.problem, {backend, threads});
    const Buffer workspace(plan.workspace_bytes);
    if (!instructions) return run(plan, args, {workspace.data(), workspace.bytes()});
    if (!test.problem.row_weight) args.row_weight = {};
    gated_activation_forward_cpu_simd(test.problem, args,
                                      {{workspace.data(), workspace.bytes()}, threads, nullptr},
                                      *instructions);
  }
  void run_backward(const GroupsCase& test, GatedActivationBackwardArgs args, int threads) const {
    const auto plan = plan_gated_activation_backward(test.problem, {backend, threads});
    const Buffer workspace(plan.workspace_bytes);
    if (!instructions) return run(plan, args, {workspace.data(), workspace.bytes()});
    if (!test.problem.row_weight) args.row_weight = {};
    gated_activation_backward_cpu_simd(test.problem, args,
                                       {{workspace.data(), workspace.bytes()}, threads, nullptr},
                                       *instructions);
  }
  std::string name() const { return instructions ? octet::name(*instructions) : backend; }
};

std::vector<Path> paths(const char* other) {
  std::vector<Path> result{{other}};
  for (const InstructionSet set : instruction_sets()) result.push_back({"cpu_simd", set});
  return result;
}

std::uint32_t bits_at(const TensorView& matrix, std::int64_t r, std::int64_t c) {
  std::uint32_t bits = 0;
  std::memcpy(&bits,
              static_cast<const char*>(matrix.data) +
                  (r * matrix.strides[0] + c) * size_bytes(matrix.dtype),
              static_cast<std::size_t>(size_bytes(matrix.dtype)));
  return bits;
}

// Zeros, or what was there before.
void expect_tail(const GroupsCase& test, const TensorView& matrix, const std::string& what) {
  const std::uint32_t mask = size_bytes(matrix.dtype) == 2 ? 0xFFFF : 0xFFFFFFFF;
  const std::uint32_t wanted = test.problem.tail == GroupTail::zero ? 0 : kPattern & mask;
  for (std::int64_t r = test.grouped_rows(); r < matrix.rows(); ++r) {
    for (std::int64_t c = 0; c < matrix.cols(); ++c) {
      ASSERT_EQ(bits_at(matrix, r, c), wanted) << what << ", row " << r << ", column " << c;
    }
  }
}

// Each group against the operator without groups on its rows.
void expect_groups_alone(const GroupsCase& test, const Path& path, const std::string& what) {
  std::int64_t first = 0;
  for (const std::int64_t rows : test.sizes) {
    if (rows == 0) continue;
    GatedActivationProblem one = test.problem;
    one.groups = 0;
    one.rows = rows;
    const GatedActivationCase alone(one, Lie::as_halves);
    for (std::int64_t r = 0; r < rows; ++r) {
      static_cast<float*>(alone.weights.data())[r] = test.weight(first + r);
      for (std::int64_t c = 0; c < one.cols; ++c) {
        set(alone.gate(), r, c, at(test.gate(), first + r, c));
        set(alone.up(), r, c, at(test.up(), first + r, c));
        set(alone.dy(), r, c, at(test.dy(), first + r, c));
      }
    }
    if (path.instructions) {
      alone.run_both(*path.instructions);
    } else {
      alone.run_both(path.backend);
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < one.cols; ++c) {
        ASSERT_EQ(bits_at(test.y(), first + r, c), bits_at(alone.y(), r, c)) << what;
        ASSERT_EQ(bits_at(test.dgate(), first + r, c), bits_at(alone.dgate(), r, c)) << what;
        ASSERT_EQ(bits_at(test.dup(), first + r, c), bits_at(alone.dup(), r, c)) << what;
      }
      if (one.row_weight) {
        ASSERT_EQ(test.d_weight(first + r), alone.d_weight(r)) << what;
      }
    }
    first += rows;
  }
}

TEST(GatedActivationGroups, HaveTheBitsOfEachGroupAlone) {
  std::uint64_t seed = 0;
  for (const Sizes& sizes : kSizes) {
    for (const std::int64_t tail_rows : {1, 70}) {
      for (const GroupTail tail : {GroupTail::zero, GroupTail::untouched}) {
        for (const Path& path : paths("cpu_reference")) {
          GatedActivationProblem problem{0, seed % 2 == 0 ? 40 : 129, kFloats[seed % 3],
                                         kActivations[seed % 4], seed % 3 != 0};
          problem.tail = tail;
          const GroupsCase test(problem, sizes, tail_rows, seed++);
          path.run_forward(test, test.forward(), 3);
          path.run_backward(test, test.backward(), 3);
          const std::string what = text(path.name(), ", case ", seed, ": ", describe(test.problem));
          expect_groups_alone(test, path, what);
          for (const TensorView& out : {test.y(), test.dgate(), test.dup()}) {
            expect_tail(test, out, what);
          }
          if (problem.row_weight) expect_tail(test, as_column(test.d_weights), what);
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

// Both copies of an output over groups, in poisoned memory.
struct GroupImages {
  Image out;
  Image transposed;

  GroupImages(const GatedActivationProblem& problem, std::int64_t cols, Layout layout)
      : out(layout, 0, problem.rows, cols, problem.fp8->format, kBlock1x128),
        transposed(Image::token_blocks(layout, max_token_blocks(problem.groups, problem.rows), cols,
                                       problem.fp8->format,
                                       problem.fp8->transposed_block.value_or(kBlock1x128))) {}
  Fp8Copies views() const { return {out.view(), transposed.view()}; }
  void expect_equal(const GroupImages& wanted, const std::string& what) const {
    out.expect_equal(wanted.out, "out of " + what);
    transposed.expect_equal(wanted.transposed, "transposed of " + what);
  }
};

void quantize_groups(const GroupsCase& test, const Fp8Output& fp8, const TensorView& output,
                     const GroupImages& images) {
  QuantizeProblem cast{output.rows(), output.cols(),        output.dtype,   fp8.format,
                       fp8.block,     fp8.transposed_block, fp8.amax_floor, fp8.pow2_scales};
  cast.groups = test.problem.groups;
  cast.tail = test.problem.tail;
  run(plan_quantize(cast), {output, images.out.view(), images.transposed.view(), test.table, {}});
}

TEST(GatedActivationGroups, WriteFp8AsQuantizeOverGroupsDoes) {
  std::uint64_t seed = 0;
  for (const Sizes& sizes : kSizes) {
    for (const Layout layout : {Layout::ours, Layout::foreign}) {
      for (const Path& path : paths("unfused")) {
        GatedActivationProblem problem{0, seed % 2 == 0 ? 40 : 129, kFloats[seed % 3],
                                       kActivations[seed % 4], seed % 3 != 0};
        problem.tail = seed % 2 == 0 ? GroupTail::zero : GroupTail::untouched;
        const GroupsCase plain(problem, sizes, 33, seed);
        Fp8Output fp8;
        if (seed % 2 == 1) fp8.format = Dtype::e5m2;
        if (seed % 5 == 2) fp8.block.reset();
        if (seed % 3 == 1) fp8.transposed_block = kBlock128x128;
        if (seed % 7 == 4) fp8.transposed_block.reset();
        if (!fp8.block && !fp8.transposed_block) fp8.block = kBlock1x128;
        fp8.pow2_scales = seed % 4 == 1;
        problem.fp8 = fp8;
        const GroupsCase test(problem, sizes, 33, seed++);
        const std::string what = text(path.name(), ": ", describe(test.problem));

        // The unfused path has the plain operator of the best instruction set.
        const Path same = path.instructions ? path : Path{"cpu_simd"};
        same.run_forward(plain, plain.forward(), 2);
        same.run_backward(plain, plain.backward(), 2);
        TensorView both = plain.dgate();
        both.shape[1] = 2 * problem.cols;
        const GroupImages wanted_y(test.problem, problem.cols, layout);
        const GroupImages wanted_gradients(test.problem, 2 * problem.cols, layout);
        quantize_groups(test, fp8, plain.y(), wanted_y);
        quantize_groups(test, fp8, both, wanted_gradients);

        const GroupImages y(test.problem, problem.cols, layout);
        const GroupImages gradients(test.problem, 2 * problem.cols, layout);
        path.run_forward(test, test.forward(y.views()), 3);
        path.run_backward(test, test.backward(gradients.views()), 3);
        y.expect_equal(wanted_y, "y, " + what);
        gradients.expect_equal(wanted_gradients, "gradients, " + what);
        if (problem.row_weight) {
          for (std::int64_t r = 0; r < test.grouped_rows(); ++r) {
            ASSERT_EQ(test.d_weight(r), plain.d_weight(r)) << what;
          }
          expect_tail(test, as_column(test.d_weights), what);
        }
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(GatedActivationGroups, AnyNumberOfThreadsGivesTheSameBits) {
  GatedActivationProblem problem{0, 200, Dtype::bf16, GateActivation::silu, true, Fp8Output{}};
  const Sizes sizes{130, 0, 7, 256, 300};
  for (const char* backend : {"cpu_simd", "unfused"}) {
    const Path path{backend};
    std::optional<GroupImages> wanted_y;
    std::optional<GroupImages> wanted_gradients;
    std::vector<float> wanted_weights;
    for (const int threads : {1, 2, 3, 7}) {
      const GroupsCase test(problem, sizes, 20, 4);
      const GroupImages y(test.problem, 200, Layout::ours);
      const GroupImages gradients(test.problem, 400, Layout::ours);
      path.run_forward(test, test.forward(y.views()), threads);
      path.run_backward(test, test.backward(gradients.views()), threads);
      const auto* weights = static_cast<const float*>(test.d_weights.data());
      if (!wanted_y) {
        wanted_weights.assign(weights, weights + test.problem.rows);
        wanted_y.emplace(test.problem, 200, Layout::ours);
        wanted_gradients.emplace(test.problem, 400, Layout::ours);
        path.run_forward(test, test.forward(wanted_y->views()), 1);
        path.run_backward(test, test.backward(wanted_gradients->views()), 1);
      }
      y.expect_equal(*wanted_y, text(backend, ", ", threads, " threads"));
      gradients.expect_equal(*wanted_gradients, text(backend, ", ", threads, " threads"));
      EXPECT_TRUE(std::equal(wanted_weights.begin(), wanted_weights.end(), weights));
    }
  }
}

}  // namespace
}  // namespace octet
