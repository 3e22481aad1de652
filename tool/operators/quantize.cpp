// The cases of quantize: which casts, on which tensors.
#include "tool/operators/operator.hpp"
#include "tool/options/op_options.hpp"

#include "ops/fp8_output/checks.hpp"
#include "ops/group_table/problem.hpp"
#include "ops/quantize/problem.hpp"

#include <limits>

namespace octet::tool {
namespace {

struct Layout {
  std::optional<BlockShape> block;
  std::optional<BlockShape> transposed;
};

// "1x128 + 128x128 transposed"
std::string blocks_of(const Layout& layout) {
  return fmt::format("{}{}", layout.block ? name(*layout.block) : "",
                     layout.transposed ? fmt::format("{}{} transposed", layout.block ? " + " : "",
                                                     name(*layout.transposed))
                                       : "");
}

// For every dtype and format; `what` goes before the blocks: "batch of ".
void probe_layout(const char* what, const Layout& layout, std::int64_t batch, std::int64_t groups,
                  std::vector<Support>& result, bool fold_mx = false) {
  for (const Dtype format : kProbeFp8) {
    for (const Dtype input : kProbeFloats) {
      const Fp8Output output{
          .format = format, .block = layout.block, .transposed_block = layout.transposed};
      QuantizeProblem problem = quantize_problem(output, kProbeExtent, kProbeExtent, input, kCpu);
      problem.batch = batch;
      problem.groups = groups;
      problem.fold_mx = fold_mx;
      result.push_back({"quantize", what + blocks_of(layout), std::string(name(input)),
                        std::string(name(format)), answers(quantize_implementations(), problem)});
    }
  }
}

std::vector<Support> probe_quantize() {
  const Layout layouts[] = {{kBlock1x128, {}},           {{}, kBlock1x128},
                            {kBlock1x128, kBlock1x128},  {kBlock128x1, {}},
                            {kBlock128x128, {}},         {kBlock128x128, kBlock128x128},
                            {kBlock1x128, kBlock128x128}};
  std::vector<Support> result;
  for (const Layout& layout : layouts) probe_layout("", layout, 0, 0, result);
  const Layout wider[] = {{kEachRow, {}},           {kEachRow, kEachRow},         {kEachColumn, {}},
                          {kWholeTensor, {}},       {kWholeTensor, kWholeTensor}, {kBlock1x32, {}},
                          {kBlock1x32, kBlock1x32}, {kBlock32x32, kBlock32x32}};
  for (const Layout& layout : wider) probe_layout("", layout, 0, 0, result);
  probe_layout("mx in ", {kBlock1x128, kBlock1x128}, 0, 0, result, true);
  probe_layout("mx in ", {kBlock128x128, kBlock128x128}, 0, 0, result, true);
  probe_layout("batch of ", {kBlock128x128, kBlock128x128}, 2, 0, result);
  probe_layout("groups of ", {kBlock1x128, kBlock1x128}, 0, 2, result);
  probe_layout("groups of ", {kBlock1x128, kBlock128x128}, 0, 2, result);
  return result;
}

// group_table, which has no benchmark.
std::vector<Support> probe_group_table() {
  std::vector<Support> result;
  for (const Dtype sizes : {Dtype::i32, Dtype::i64}) {
    const GroupTableProblem problem{.groups = 2, .rows = kProbeExtent, .sizes_dtype = sizes};
    result.push_back({"group_table", "none", std::string(name(sizes)), "i32",
                      answers(group_table_implementations(), problem)});
  }
  return result;
}

class Quantize : public ShapeOperator {
 public:
  const char* name() const override { return "quantize"; }
  const char* about() const override {
    return "Casts to block-scaled FP8, row-major and transposed.";
  }
  std::array<const char*, 2> examples(bool /*timed*/) const override {
    return {"--shape 256x512 --block 128x128", "--shape 256x512 --groups 4 --group-sizes zipf"};
  }
  RowKind rows() const override { return RowKind::cast; }

  std::vector<Support> support() const override {
    std::vector<Support> result = probe_quantize();
    for (Support& table : probe_group_table()) result.push_back(std::move(table));
    return result;
  }

 private:
  void add_own_options(CLI::App& app, bool /*timed*/) override {
    add_cast_options(app, fp8_);
    add_flag(app, "--given-scales", given_scales_, "Read the scales instead of finding them.");
    add_mx_scale(app, mx_scale_);
    add_flag(app, "--fold-mx", fold_mx_,
             "Quantise in 1x32 and 32x32 mx blocks, folded into 1x128 and 128x128 ones.");
    option_group(app, "Batch");
    add_whole(app, "--batch", batch_, 1, std::numeric_limits<std::int32_t>::max(),
              "Matrices of the shape, such as the weights of experts. [default: one, no batch]");
    add_group_options(app, groups_, "the tensor");
    add_whole(app, "--source-rows", source_rows_, 1, std::numeric_limits<std::int32_t>::max(),
              "Rows of the tensor that rows of groups are gathered from. [default: not gathered]");
    add_whole(app, "--source-top-k", source_top_k_, 1, kMaxTopK,
              "Slots of each of those rows, as moe-maps numbers them. [default: none]");
  }

  std::vector<Case> cases_on(Device device) const override {
    std::vector<Fp8Output> outputs{cast_output(fp8_)};
    const Groups groups = wanted_groups(groups_);
    if (batch_ && groups.count > 0) refuse_usage("--batch and --groups do not go together");
    if (source_rows_ && groups.count == 0) refuse_usage("--source-rows goes with --groups");
    if (source_top_k_ && !source_rows_) refuse_usage("--source-top-k goes with --source-rows");
    if (fp8_.block.empty() && fp8_.transposed_block.empty()) {
      outputs.push_back(outputs[0]);
      outputs[1].transposed_block = kBlock128x128;
      if (groups.count == 0) outputs[1].block = kBlock128x128;
    }
    std::vector<Case> cases;
    for (const Fp8Output& output : outputs) {
      for (const ShapeCase& shape : shapes_on(device)) {
        QuantizeProblem problem =
            quantize_problem(output, shape.extents[0], shape.extents[1], dtype(), device);
        problem.given_scales = given_scales_;
        problem.mx_scale = parse_mx_scale(mx_scale_);
        problem.fold_mx = fold_mx_;
        problem.batch = batch_.value_or(0);
        problem.groups = groups.count;
        problem.source_rows = source_rows_.value_or(0);
        problem.source_top_k = source_top_k_.value_or(0);
        problem.tail = groups.tail;
        check_fit(groups, problem.rows);
        cases.push_back(group_case(shape, problem, groups, check_quantize));
      }
    }
    return cases;
  }

  Fp8Options fp8_;
  bool given_scales_ = false;
  std::string mx_scale_ = "floor";
  bool fold_mx_ = false;
  GroupOptions groups_;
  std::optional<std::int64_t> batch_;
  std::optional<std::int64_t> source_rows_;
  std::optional<std::int64_t> source_top_k_;
};

}  // namespace

std::unique_ptr<Operator> make_quantize_operator() { return std::make_unique<Quantize>(); }

}  // namespace octet::tool
