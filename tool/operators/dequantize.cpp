// The cases of dequantize and repack: which quantised tensors are read.
#include "tool/operators/operator.hpp"
#include "tool/options/op_options.hpp"

#include "ops/dequantize/problem.hpp"
#include "ops/repack/problem.hpp"

namespace octet::tool {
namespace {

constexpr BlockShape kProbeBlocks[] = {kBlock1x128, kBlock128x1,  kBlock128x128, kEachRow,
                                       kEachColumn, kWholeTensor, kBlock1x32,    kBlock32x32};

// The tensor that is read: --format and --block.
class QuantizedInput : public ShapeOperator {
 public:
  RowKind rows() const override { return RowKind::update; }

 protected:
  void add_dtype_option(CLI::App& app) override {
    add_dtype(app, "--format", format_, kFp8,
              with_default("FP8 format of the tensor.", Dtype::e4m3));
    add_text(app, "--block", block_, "1x128|128x1|128x128|1xall|allx1|allxall|1x32|32x32",
             with_default("Elements that share a scale; mx blocks have ue8m0 scales.",
                          octet::name(kBlock1x128)));
  }
  Dtype format() const { return format_.value_or(Dtype::e4m3); }
  BlockShape block() const {
    if (block_.empty()) return kBlock1x128;
    const auto block = parse_block(block_);
    if (!block) {
      refuse_usage(
          "--block must be 1x128, 128x1, 128x128, 1xall, allx1, allxall, 1x32 or 32x32, got \"{}\"",
          block_);
    }
    return *block;
  }

 private:
  std::optional<Dtype> format_;
  std::string block_;
};

class Dequantize : public QuantizedInput {
 public:
  const char* name() const override { return "dequantize"; }
  const char* about() const override { return "FP8 of any block to bf16, f16 or f32."; }
  std::array<const char*, 2> examples(bool /*timed*/) const override {
    return {"--shape 256x512 --block 128x128", "--shape 256x512 --format e5m2 --block 1x32"};
  }

  std::vector<Support> support() const override {
    std::vector<Support> result;
    for (const BlockShape block : kProbeBlocks) {
      for (const Dtype format : kProbeFp8) {
        for (const Dtype out : kProbeFloats) {
          const DequantizeProblem problem{.rows = kProbeExtent,
                                          .cols = kProbeExtent,
                                          .format = format,
                                          .block = block,
                                          .out_dtype = out};
          result.push_back({"dequantize", octet::name(block), std::string(octet::name(format)),
                            std::string(octet::name(out)),
                            answers(dequantize_implementations(), problem)});
        }
      }
    }
    return result;
  }

 private:
  void add_own_options(CLI::App& app, bool /*timed*/) override {
    add_dtype(app, "--out", out_, kFloats, with_default("Data type of the output.", kUsualDtype));
  }

  std::vector<Case> cases_on(Device device) const override {
    std::vector<Case> cases;
    for (const ShapeCase& shape : shapes_on(device)) {
      const DequantizeProblem problem{.rows = shape.extents[0],
                                      .cols = shape.extents[1],
                                      .format = format(),
                                      .block = block(),
                                      .out_dtype = out_.value_or(kUsualDtype),
                                      .device = device};
      cases.push_back(shape_case(shape, problem, check_dequantize));
    }
    return cases;
  }

  std::optional<Dtype> out_;
};

class Repack : public QuantizedInput {
 public:
  const char* name() const override { return "repack"; }
  const char* about() const override { return "FP8 of any strides into octet's layout."; }
  std::array<const char*, 2> examples(bool /*timed*/) const override {
    return {"--shape 256x512 --block 1x32", "--shape 256x512 --transposed-source"};
  }

  std::vector<Support> support() const override {
    std::vector<Support> result;
    for (const BlockShape block : kProbeBlocks) {
      for (const Dtype format : kProbeFp8) {
        const RepackProblem problem{
            .rows = kProbeExtent, .cols = kProbeExtent, .format = format, .block = block};
        result.push_back({"repack", octet::name(block), std::string(octet::name(format)),
                          "the same", answers(repack_implementations(), problem)});
      }
    }
    return result;
  }

 private:
  void add_own_options(CLI::App& app, bool /*timed*/) override {
    add_flag(app, "--transposed-source", transposed_source_,
             "Read values whose columns are contiguous instead of rows.");
  }

  std::vector<Case> cases_on(Device device) const override {
    std::vector<Case> cases;
    for (const ShapeCase& shape : shapes_on(device)) {
      const RepackProblem problem{.rows = shape.extents[0],
                                  .cols = shape.extents[1],
                                  .format = format(),
                                  .block = block(),
                                  .device = device};
      cases.push_back(case_of(shape, problem));
    }
    return cases;
  }

  // The strides of the source are no part of the problem.
  Case case_of(const ShapeCase& shape, const RepackProblem& problem) const {
    const auto with_source = [transposed = transposed_source_](DataOptions options) {
      options.transposed_source = transposed;
      return options;
    };
    Case result = shape_case(shape, problem, check_repack);
    if (transposed_source_) result.arguments += " --transposed-source";
    result.check = [=](const DataOptions& options) {
      return check_repack(problem, with_source(options));
    };
    result.workload = [=](const DataOptions& options) {
      return bench::make_workload(problem, with_source(options));
    };
    return result;
  }

  bool transposed_source_ = false;
};

}  // namespace

std::unique_ptr<Operator> make_dequantize_operator() { return std::make_unique<Dequantize>(); }
std::unique_ptr<Operator> make_repack_operator() { return std::make_unique<Repack>(); }

}  // namespace octet::tool
