// The maps of the Hopper kernels are those of the reference in every integer, with gaps and guards;
// any workspace contents will do, and a graph sees new choices.
#include "ops/moe_maps/case.hpp"
#include "support/cuda_stream.hpp"
#include "support/on_cuda.hpp"

#include <cstring>
#include <numeric>

namespace octet::testing {
namespace {

constexpr std::int64_t kGap = 3;
constexpr std::int64_t kGuard = 64;  // words before and behind every output, at least

// All outputs in one piece of memory, which begins as a pattern.
struct Outputs {
  MoeMapsProblem problem;
  std::vector<std::int32_t> words;
  std::int64_t row_of, source, sizes, table, status;

  explicit Outputs(const MoeMapsProblem& given) : problem(given) {
    std::int64_t length = 0;
    const auto take = [&](std::int64_t count) {
      length += kGuard;
      const std::int64_t first = length;
      length = (length + count + 63) / 64 * 64;
      return first;
    };
    row_of = take(problem.tokens * (problem.top_k + kGap));
    source = take(problem.rows);
    sizes = take(problem.groups);
    table = take(group_table_words(problem.groups, problem.rows));
    status = take(kMoeMapsStatusWords);
    words.assign(static_cast<std::size_t>(length + kGuard), 0x5A5A5A5A);
  }
  TensorView whole() { return make_view(words.data(), Dtype::i32, {std::ssize(words)}); }

  // Views into `memory`, which holds the words.
  MoeMapsArgs args(const TensorView& memory, const TensorView& indices) const {
    const auto vector = [&](std::int64_t first, std::int64_t count) {
      TensorView view = memory;
      view.data = static_cast<std::int32_t*>(memory.data) + first;
      view.shape[0] = count;
      return view;
    };
    TensorView rows = make_matrix(static_cast<std::int32_t*>(memory.data) + row_of, Dtype::i32,
                                  problem.tokens, problem.top_k, problem.top_k + kGap);
    rows.device = memory.device;
    return {indices,
            rows,
            vector(source, problem.rows),
            vector(sizes, problem.groups),
            vector(table, group_table_words(problem.groups, problem.rows)),
            vector(status, kMoeMapsStatusWords)};
  }
};

// The indices with gaps, as the operator takes them.
struct Indices {
  std::vector<std::int32_t> narrow;
  std::vector<std::int64_t> wide;
  TensorView view;

  Indices(const MoeMapsProblem& problem, const std::vector<std::int64_t>& slots) {
    const std::int64_t pitch = problem.top_k + kGap;
    wide.assign(static_cast<std::size_t>(problem.tokens * pitch) + 1, 77);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const auto slot = static_cast<std::int64_t>(i);
      wide[static_cast<std::size_t>(slot / problem.top_k * pitch + slot % problem.top_k)] =
          slots[i];
    }
    narrow.assign(wide.begin(), wide.end());
    void* data =
        problem.indices_dtype == Dtype::i64 ? static_cast<void*>(wide.data()) : narrow.data();
    view = make_matrix(data, problem.indices_dtype, problem.tokens, problem.top_k, pitch);
  }
};

void expect_same_maps(const MoeMapsProblem& problem, const std::vector<std::int64_t>& slots) {
  Indices indices(problem, slots);
  Outputs wanted(problem), given(problem);
  run(plan_moe_maps(problem), wanted.args(wanted.whole(), indices.view));

  MoeMapsProblem there = problem;
  there.device = OnCuda::kDevice;
  OnCuda copies;
  const TensorView memory = copies.copy_in(given.whole());
  const MoeMapsPlan plan = plan_moe_maps(there);
  ASSERT_EQ(plan.implementation, "cuda_sm90_counting_sort");
  const std::vector<std::int32_t> poison(plan.workspace_bytes / 4 + 1, 0x7B7B7B7B);
  const TensorView workspace =
      copies.copy_in(make_view(poison.data(), Dtype::i32, {std::ssize(poison)}));
  run(plan, given.args(memory, copies.copy_in(indices.view)),
      {workspace.data, plan.workspace_bytes});
  cuda::synchronize(0);
  OnCuda::copy_out(memory, given.whole());
  for (std::size_t i = 0; i < given.words.size(); ++i) {
    ASSERT_EQ(given.words[i], wanted.words[i])
        << "word " << i << " of " << describe(problem) << "; row_of at " << wanted.row_of
        << ", source at " << wanted.source << ", sizes at " << wanted.sizes << ", table at "
        << wanted.table << ", status at " << wanted.status;
  }
}

TEST(MoeMapsCuda, AreTheMapsOfTheReference) {
  OCTET_NEEDS_HOPPER();
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const MapsCase one(seed);
    SCOPED_TRACE(text("seed ", seed));
    expect_same_maps(one.problem, one.indices);
  }
}

// Several blocks, several rounds per warp, one expert with everything.
TEST(MoeMapsCuda, AreTheMapsOfTheReferenceForManyTokens) {
  OCTET_NEEDS_HOPPER();
  for (std::uint64_t seed = 300; seed <= 330; ++seed) {
    const MapsCase one(seed, 60000);
    SCOPED_TRACE(text("seed ", seed));
    expect_same_maps(one.problem, one.indices);
  }
  for (const std::int64_t tokens : {1024, 8192, 150001}) {
    const MoeMapsProblem problem{
        .tokens = tokens, .top_k = 2, .experts = 1024, .groups = 1024, .rows = 2 * tokens + 5};
    const auto slots = static_cast<std::size_t>(2 * tokens);
    expect_same_maps(problem, std::vector<std::int64_t>(slots, 1000));
    std::vector<std::int64_t> falling(slots);
    for (std::size_t i = 0; i < slots; ++i) falling[i] = static_cast<std::int64_t>(1023 - i % 1024);
    expect_same_maps(problem, falling);
  }
}

TEST(MoeMapsCuda, ReportBadIndicesLikeTheReference) {
  OCTET_NEEDS_HOPPER();
  Random random(5);
  for (const Dtype dtype : {Dtype::i32, Dtype::i64}) {
    MoeMapsProblem problem{
        .tokens = 3000, .top_k = 3, .experts = 9, .first_expert = 2, .groups = 5};
    problem.rows = 4000;
    problem.indices_dtype = dtype;
    std::vector<std::int64_t> slots(9000);
    for (std::int64_t& slot : slots) slot = static_cast<std::int64_t>(random() % 9);
    expect_same_maps(problem, slots);
    for (const std::int64_t bad : {std::int64_t{9}, std::int64_t{-2}, INT64_MIN, INT64_MAX}) {
      const std::int64_t index =
          dtype == Dtype::i64 ? bad : std::clamp<std::int64_t>(bad, INT32_MIN, INT32_MAX);
      slots[8999] = slots[4321] = slots[5] = index;
      expect_same_maps(problem, slots);
      slots[5] = slots[4321] = 3;
    }
  }
}

TEST(MoeMapsCuda, GraphSeesNewChoices) {
  OCTET_NEEDS_HOPPER();
  MoeMapsProblem problem{.tokens = 500, .top_k = 2, .experts = 7, .groups = 7, .rows = 1000};
  Outputs host(problem);
  problem.device = OnCuda::kDevice;
  OnCuda copies;
  std::vector<std::int32_t> choices(1000, 0);
  const TensorView view = make_view(choices.data(), Dtype::i32, {500, 2});
  const TensorView indices = copies.copy_in(view);
  const TensorView memory = copies.copy_in(host.whole());
  const MoeMapsPlan plan = plan_moe_maps(problem);
  const Buffer workspace(plan.workspace_bytes, OnCuda::kDevice);
  const Stream stream;
  const Graph graph(stream, [&](void* handle) {
    run(plan, host.args(memory, indices), {workspace.data(), workspace.bytes()}, handle);
  });
  for (int expert = 0; expert < 7; ++expert) {
    std::fill(choices.begin(), choices.end(), expert);
    choices[17] = 6 - expert;
    cuda::copy(indices.data, choices.data(), 4000, 0);
    graph.launch(stream);
    stream.synchronize();
    OnCuda::copy_out(memory, host.whole());
    const std::int32_t* sizes = host.words.data() + host.sizes;
    EXPECT_EQ(sizes[expert], expert == 3 ? 1000 : 999);
    EXPECT_EQ(std::accumulate(sizes, sizes + 7, 0), 1000);
  }
}

}  // namespace
}  // namespace octet::testing
