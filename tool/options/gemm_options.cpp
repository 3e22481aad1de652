#include "tool/options/gemm_options.hpp"

#include "tool/cases/suites.hpp"
#include "tool/options/op_options.hpp"
#include "tool/options/parse.hpp"

#include <fmt/format.h>

#include <limits>

namespace octet::tool {
namespace {

LayerCase case_of_shape(const std::string& text, std::size_t number) {
  const std::vector<std::int64_t> shape = parse_extents("--shape", text, "MxNxK");
  LayerCase layer;
  layer.test_id = std::to_string(number);
  layer.op = "shape";
  layer.m = shape[0];
  layer.n = shape[1];
  layer.k = shape[2];
  return layer;
}

}  // namespace

void add_gemm_options(CLI::App& app, GemmOptions& options) {
  add_choice(app, "--dtype", options.dtype, {"fp8", "bf16", "f16"},
             "of the products [default: fp8]");
  add_choice(app, "--granularity", options.granularity, {"blockwise"},
             "of the scales of fp8 [default: blockwise]");
  add_texts(app, "--shape", options.shapes, "MxNxK",
            "tokens x output x input features; repeatable");
  add_texts(app, "--model", options.models, "NAME", "the layers of a model; repeatable");
  add_wholes(app, "--mbs", options.mbs, 1, std::numeric_limits<std::int64_t>::max(),
             "the layers at this micro-batch size; repeatable");
  add_text(app, "--suite", options.suite, "NAME|FILE.csv", "a list of layers [default: quick]");
  add_text(app, "--backend", options.backend, "NAME",
           "implementation of the products [default: the first that takes them]");
  add_text(app, "--quantize-backend", options.quantize_backend, "NAME",
           "implementation of the casts [default: the first that takes them]");
  add_device(app, options.device);
  add_dtype(app, "--input", options.input, kFloats,
            "of x, w, dy, y and dx of an fp8 layer [default: bf16]");
  add_dtype(app, "--format", options.format, kFp8, "of x and w [default: e4m3]");
  add_dtype(app, "--grad-format", options.grad_format, kFp8, "of dy [default: e4m3]");
  add_choice(app, "--wgrad-blocks", options.wgrad_blocks, {"1d", "2d"},
             "x^T in 1x128 (1d) or 128x128 (2d) blocks [default: 1d]");
  add_dtype(app, "--dw", options.dw, kFloats,
            "of the weight gradient [default: bf16, or that of --dtype]");
  add_flag(app, "--accumulate-dw", options.accumulate_dw, "add the weight gradient to dw");
  add_f32(app, "--amax-floor", options.amax_floor, "least amax of a block [default: 0]");
  add_flag(app, "--pow2-scales", options.pow2_scales, "round scales up to powers of two");
  add_data_options(app, options.threads, options.seed, options.distribution);
}

std::vector<LayerCase> chosen_cases(const GemmOptions& options) {
  std::vector<LayerCase> cases;
  for (const std::string& shape : options.shapes) {
    cases.push_back(case_of_shape(shape, cases.size() + 1));
  }
  const bool filtered = !options.models.empty() || !options.mbs.empty();
  if (!cases.empty() && options.suite.empty() && !filtered) return cases;
  const std::string suite = !options.suite.empty() ? options.suite : filtered ? "dense84" : "quick";
  const std::vector<LayerCase> selected =
      select_cases(load_suite(suite), options.models, options.mbs);
  if (selected.empty()) {
    refuse_usage("--model and --mbs together leave no case of suite {}", suite);
  }
  cases.insert(cases.end(), selected.begin(), selected.end());
  return cases;
}

}  // namespace octet::tool
