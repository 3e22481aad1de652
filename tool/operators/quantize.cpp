// The cases of quantize: which casts, on which tensors.
#include "tool/operators/operator.hpp"
#include "tool/options/op_options.hpp"

#include "ops/dequantize/problem.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/quantize/problem.hpp"
#include "ops/repack/problem.hpp"

namespace octet::tool {
namespace {

std::vector<Support> probe_quantize() {
  struct Layout {
    std::optional<BlockShape> block;
    std::optional<BlockShape> transposed;
  };
  const Layout layouts[] = {{kBlock1x128, {}},           {{}, kBlock1x128},
                            {kBlock1x128, kBlock1x128},  {kBlock128x1, {}},
                            {kBlock128x128, {}},         {kBlock128x128, kBlock128x128},
                            {kBlock1x128, kBlock128x128}};
  std::vector<Support> result;
  for (const auto& [block, transposed] : layouts) {
    const std::string blocks = fmt::format(
        "{}{}", block ? name(*block) : "",
        transposed ? fmt::format("{}{} transposed", block ? " + " : "", name(*transposed)) : "");
    for (const Dtype format : kProbeFp8) {
      for (const Dtype input : kProbeFloats) {
        const Fp8Output output{.format = format, .block = block, .transposed_block = transposed};
        result.push_back(
            {"quantize", blocks, std::string(name(input)), std::string(name(format)),
             answers(quantize_implementations(),
                     quantize_problem(output, kProbeExtent, kProbeExtent, input, kCpu))});
      }
    }
  }
  return result;
}

// dequantize and repack, which have no benchmark.
std::vector<Support> probe_copies() {
  const auto for_each_layout = [](const auto& visit) {
    for (const BlockShape block : {kBlock1x128, kBlock128x1, kBlock128x128}) {
      for (const Dtype format : kProbeFp8) visit(block, format);
    }
  };
  std::vector<Support> result;
  for_each_layout([&](BlockShape block, Dtype format) {
    for (const Dtype out : kProbeFloats) {
      const DequantizeProblem problem{.rows = kProbeExtent,
                                      .cols = kProbeExtent,
                                      .format = format,
                                      .block = block,
                                      .out_dtype = out};
      result.push_back({"dequantize", name(block), std::string(name(format)),
                        std::string(name(out)), answers(dequantize_implementations(), problem)});
    }
  });
  for_each_layout([&](BlockShape block, Dtype format) {
    const RepackProblem problem{
        .rows = kProbeExtent, .cols = kProbeExtent, .format = format, .block = block};
    result.push_back({"repack", name(block), std::string(name(format)), "the same",
                      answers(repack_implementations(), problem)});
  });
  return result;
}

class Quantize : public ShapeOperator {
 public:
  const char* name() const override { return "quantize"; }
  const char* about() const override {
    return "Casts to block-scaled FP8, row-major and transposed.";
  }
  std::array<const char*, 2> examples(bool /*timed*/) const override {
    return {"--shape 256x512", "--shape 256x512 --block 128x128"};
  }
  RowKind rows() const override { return RowKind::cast; }

  std::vector<Support> support() const override {
    std::vector<Support> result = probe_quantize();
    for (Support& copy : probe_copies()) result.push_back(std::move(copy));
    return result;
  }

 private:
  void add_own_options(CLI::App& app, bool /*timed*/) override { add_cast_options(app, fp8_); }

  std::vector<Case> cases_on(Device device) const override {
    std::vector<Fp8Output> outputs{cast_output(fp8_)};
    if (fp8_.block.empty() && fp8_.transposed_block.empty()) {
      outputs.push_back(outputs[0]);
      outputs[1].block = outputs[1].transposed_block = kBlock128x128;
    }
    std::vector<Case> cases;
    for (const Fp8Output& output : outputs) {
      for (const ShapeCase& shape : shapes_on(device)) {
        const QuantizeProblem problem =
            quantize_problem(output, shape.extents[0], shape.extents[1], dtype(), device);
        cases.push_back(shape_case(shape, problem, check_quantize));
      }
    }
    return cases;
  }

  Fp8Options fp8_;
};

}  // namespace

std::unique_ptr<Operator> make_quantize_operator() { return std::make_unique<Quantize>(); }

}  // namespace octet::tool
