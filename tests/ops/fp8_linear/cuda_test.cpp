// The layer on a CUDA stream: a captured graph gives the bits of a plain run, and contains only
// kernel launches.
#include <gtest/gtest.h>

#include "ops/fp8_linear/parts.hpp"
#include "ops/fp8_linear/random_tensor.hpp"
#include "support/cuda_stream.hpp"
#include "support/device_image.hpp"
#include "support/on_cuda.hpp"

#include <octet/octet.hpp>

#include <algorithm>

namespace octet::testing {
namespace {

constexpr std::uint8_t kPoison = 0xFF;

// A poisoned output that can be poisoned again.
struct Output {
  std::vector<std::uint8_t> poison;
  DeviceImage image;
  TensorView view;

  Output(Dtype dtype, std::int64_t rows, std::int64_t cols)
      : poison(static_cast<std::size_t>(rows * cols * size_bytes(dtype)), kPoison),
        image(poison.data(), poison.size()),
        view(image.at(make_matrix(poison.data(), dtype, rows, cols, cols))) {}
};

// A layer with all its tensors on the device. Nothing is allocated after construction.
struct Layer {
  Fp8LinearProblem problem;
  Fp8LinearForwardPlan forward;
  Fp8LinearBackwardPlan backward;
  OnCuda inputs;
  TensorView x, w, dy, bias;
  Output y, dx, dw, dbias;
  Buffer x_t, w_t, workspace;
  Fp8LinearSaved saved;

  explicit Layer(const Fp8LinearProblem& given)
      : problem(given),
        forward(plan_fp8_linear_forward(given)),
        backward(plan_fp8_linear_backward(given)),
        x(inputs.copy_in(random_tensor(given.m, given.k, 1).view())),
        w(inputs.copy_in(random_tensor(given.n, given.k, 2).view())),
        dy(inputs.copy_in(random_tensor(given.m, given.n, 3).view())),
        y(given.dtype, given.m, given.n),
        dx(given.dtype, given.m, given.k),
        dw(given.dw_dtype, given.n, given.k),
        dbias(given.dbias_dtype.value_or(Dtype::f32), 1, given.n),
        workspace(std::max(forward.workspace_bytes, backward.workspace_bytes), given.device) {
    if (given.bias_dtype) {  // of bf16
      bias = make_view(inputs.copy_in(random_tensor(1, given.n, 4).view()).data, *given.bias_dtype,
                       {given.n}, given.device);
    }
    const Fp8LinearSavedLayout layout = fp8_linear_saved_layout(given);
    x_t = Buffer(layout.x_t.bytes, given.device);
    w_t = Buffer(layout.w_t.bytes, given.device);
    saved.x_t = layout.x_t.view(x_t.data(), given.device);
    saved.w_t = layout.w_t.view(w_t.data(), given.device);
    cuda::synchronize(0);  // the stream does not wait for the copies above by itself
  }

  void step(void* stream) const {
    const Workspace memory{workspace.data(), workspace.bytes()};
    run(forward, {x, w, {}, y.view, saved, bias}, memory, stream);
    run(backward, {dy, saved, dx.view, dw.view, dbias_view()}, memory, stream);
  }

  TensorView dbias_view() const {
    return make_view(dbias.view.data, dbias.view.dtype, {problem.n}, problem.device);
  }

  void poison() const {
    for (const Output* output : {&y, &dx, &dw, &dbias}) output->image.upload();
    cuda::synchronize(0);
  }

  std::vector<std::vector<std::uint8_t>> results() const {
    return {y.image.download(), dx.image.download(), dw.image.download(), dbias.image.download()};
  }
};

// Every granularity, and both ways to quantise x^T where there are two.
std::vector<Fp8LinearProblem> every_granularity() {
  std::vector<Fp8LinearProblem> problems;
  for (const Granularity granularity : {Granularity::blockwise, Granularity::tensorwise,
                                        Granularity::rowwise, Granularity::mxfp8}) {
    Fp8LinearProblem problem{.m = 600, .n = 770, .k = 650, .device = OnCuda::kDevice};
    problem.granularity = granularity;
    problem.bias_dtype = Dtype::bf16;
    problem.dbias_dtype = Dtype::f32;
    problems.push_back(problem);
    if (has_end_scales(problem)) {
      problem.fast_accumulation = true;
    } else {
      problem.wgrad_blocks = WgradBlocks::square;
    }
    problems.push_back(problem);
  }
  return problems;
}

TEST(Fp8LinearCuda, GivesTheSameBitsFromAGraph) {
  OCTET_NEEDS_HOPPER();
  for (const Fp8LinearProblem& problem : every_granularity()) {
    SCOPED_TRACE(describe(problem));
    const Layer layer(problem);
    const Stream stream;
    layer.step(stream.handle());
    stream.synchronize();
    const auto wanted = layer.results();
    const auto poisoned = std::vector<std::uint8_t>(wanted[0].size(), kPoison);
    ASSERT_FALSE(wanted[0] == poisoned);
    ASSERT_FALSE(wanted[3] == std::vector<std::uint8_t>(wanted[3].size(), kPoison));

    layer.poison();
    const Graph graph(stream, [&](void* handle) { layer.step(handle); });
    EXPECT_TRUE(layer.results()[0] == poisoned) << "recording must not run anything";
    for (int replay = 0; replay < 3; ++replay) {
      layer.poison();
      graph.launch(stream);
      stream.synchronize();
      const auto given = layer.results();
      EXPECT_TRUE(given[0] == wanted[0]) << "y, replay " << replay;
      EXPECT_TRUE(given[1] == wanted[1]) << "dx, replay " << replay;
      EXPECT_TRUE(given[2] == wanted[2]) << "dw, replay " << replay;
      EXPECT_TRUE(given[3] == wanted[3]) << "dbias, replay " << replay;
    }
  }
}

// The class runs on the stream it is given, and gives the bits of the two plans.
TEST(Fp8LinearCuda, TheClassCanBeCaptured) {
  OCTET_NEEDS_HOPPER();
  const Fp8LinearProblem problem{.m = 300, .n = 270, .k = 390, .device = OnCuda::kDevice};
  const Layer plans(problem);
  Fp8Linear layer(problem);
  const Stream stream;
  plans.step(stream.handle());
  stream.synchronize();
  const auto wanted = plans.results();
  plans.poison();
  const Graph graph(stream, [&](void* handle) {
    layer.forward(plans.x, plans.w, plans.y.view, handle);
    layer.backward(plans.dy, plans.dx.view, plans.dw.view, handle);
  });
  EXPECT_FALSE(plans.results() == wanted) << "recording must not run anything";
  graph.launch(stream);
  stream.synchronize();
  EXPECT_TRUE(plans.results() == wanted);
}

// The first call of a process may be the one that is captured.
TEST(Fp8LinearCuda, CanBeRecordedBeforeItEverRan) {
  OCTET_NEEDS_HOPPER();
  Fp8LinearProblem problem{.m = 130,
                           .n = 70,
                           .k = 390,
                           .dtype = Dtype::bf16,
                           .grad_format = Dtype::e5m2,
                           .device = OnCuda::kDevice};
  const Layer layer(problem);
  const Stream stream;
  const Graph graph(stream, [&](void* handle) { layer.step(handle); });
  graph.launch(stream);
  stream.synchronize();
  const auto recorded = layer.results();
  layer.poison();
  layer.step(stream.handle());
  stream.synchronize();
  EXPECT_TRUE(layer.results() == recorded);
}

}  // namespace
}  // namespace octet::testing
