#include "quantize_options.hpp"

#include "cases.hpp"
#include "gemm_options.hpp"

#include <octet/error.hpp>

#include <fmt/format.h>

namespace octet::tool {
namespace {

struct Shape {
  std::int64_t rows;
  std::int64_t cols;
};

// Activations and weights of a 7B model, and one with tails in both directions.
constexpr Shape kCpuShapes[] = {{1024, 4096}, {4096, 4096}, {2048, 11008}, {1000, 3000}};
// What a GPU trains: from a 7B model's hidden state to the activations of a 405B model.
constexpr Shape kCudaShapes[] = {
    {4096, 4096}, {8192, 8192}, {16384, 8192}, {8192, 29568}, {32768, 16384}};

std::optional<BlockShape> parse_optional_block(const std::string& option, const std::string& text) {
  if (text.empty() || text == "none") return std::nullopt;
  const auto block = parse_block(text);
  if (!block) refuse_usage("{} must be 1x128, 128x1, 128x128 or none, got \"{}\"", option, text);
  return block;
}

std::vector<Shape> chosen_shapes(const QuantizeOptions& options, Device device) {
  if (options.shapes.empty() && device.type == DeviceType::cuda) {
    return {std::begin(kCudaShapes), std::end(kCudaShapes)};
  }
  if (options.shapes.empty()) return {std::begin(kCpuShapes), std::end(kCpuShapes)};
  std::vector<Shape> shapes;
  for (const std::string& text : options.shapes) {
    std::int64_t factors[2] = {0, 0};
    if (!parse_shape(text, factors, 2)) {
      refuse_usage("--shape must be RxC, two whole numbers of at least 1, got \"{}\"", text);
    }
    shapes.push_back({factors[0], factors[1]});
  }
  return shapes;
}

std::vector<QuantizeProblem> problems_on(const QuantizeOptions& options, Device device) {
  struct Blocks {
    std::optional<BlockShape> block;
    std::optional<BlockShape> transposed;
  };
  std::vector<Blocks> layouts{{kBlock1x128, kBlock1x128}, {kBlock128x128, kBlock128x128}};
  if (!options.block.empty() || !options.transposed_block.empty()) {
    layouts = {{parse_optional_block("--block", options.block),
                parse_optional_block("--transposed-block", options.transposed_block)}};
  }
  std::vector<QuantizeProblem> problems;
  for (const Blocks& blocks : layouts) {
    for (const Shape& shape : chosen_shapes(options, device)) {
      QuantizeProblem problem;
      problem.rows = shape.rows;
      problem.cols = shape.cols;
      problem.input = options.dtype.value_or(Dtype::bf16);
      problem.format = options.format.value_or(Dtype::e4m3);
      problem.block = blocks.block;
      problem.transposed_block = blocks.transposed;
      problem.amax_floor = static_cast<float>(options.amax_floor.value_or(0));
      problem.pow2_scales = options.pow2_scales;
      problem.device = device;
      problems.push_back(problem);
    }
  }
  return problems;
}

bool can_be_planned(const std::vector<QuantizeProblem>& problems, const std::string& backend) {
  try {
    for (const QuantizeProblem& problem : problems) plan_quantize(problem, {backend, 0});
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void add_quantize_options(CLI::App& app, QuantizeOptions& options) {
  const std::vector<Dtype> floats{Dtype::bf16, Dtype::f16, Dtype::f32};
  add_texts(app, "--shape", options.shapes, "RxC", "rows x columns; repeatable");
  add_dtype(app, "--dtype", options.dtype, floats, "of the input; bf16");
  add_dtype(app, "--format", options.format, {Dtype::e4m3, Dtype::e5m2}, "of the output; e4m3");
  add_text(app, "--block", options.block, "1x128|128x1|128x128|none",
           "that shares a scale in the copy as it stands");
  add_text(app, "--transposed-block", options.transposed_block, "1x128|128x1|128x128|none",
           "that shares a scale in the transposed copy");
  add_real(app, "--amax-floor", options.amax_floor, "least amax of a block; 0");
  add_flag(app, "--pow2-scales", options.pow2_scales, "round scales up to powers of two");
  add_text(app, "--backend", options.backend, "NAME", "the implementation");
  add_device(app, options.device);
  add_data_options(app, options.threads, options.seed, options.distribution);
}

std::vector<QuantizeProblem> chosen_problems(const QuantizeOptions& options) {
  if (options.device) return problems_on(options, *options.device);
  for (int index = 0; index < cuda_device_count(); ++index) {
    const auto problems = problems_on(options, {DeviceType::cuda, index});
    if (can_be_planned(problems, options.backend)) return problems;
  }
  return problems_on(options, kCpu);
}

bench::WorkloadOptions data_options(const QuantizeOptions& options) {
  return {parse_distribution(options.distribution), static_cast<std::uint64_t>(options.seed),
          static_cast<int>(options.threads), "", options.backend};
}

std::string data_arguments(const QuantizeOptions& options) {
  std::string result;
  if (!options.backend.empty()) result += " --backend " + options.backend;
  if (options.threads != 0) result += fmt::format(" --threads {}", options.threads);
  if (options.seed != 1) result += fmt::format(" --seed {}", options.seed);
  if (options.distribution != "normal") result += " --distribution " + options.distribution;
  return result;
}

}  // namespace octet::tool
