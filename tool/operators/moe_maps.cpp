// The cases of moe-maps: which experts are here, and how many rows they have.
#include "tool/operators/operator.hpp"
#include "tool/options/op_options.hpp"

#include "ops/moe_maps/problem.hpp"

namespace octet::tool {
namespace {

constexpr std::int64_t kUsualExperts = 64;
constexpr std::int64_t kMostExperts = std::int64_t{1} << 30;

class MoeMaps : public ShapeOperator {
 public:
  const char* name() const override { return "moe-maps"; }
  const char* about() const override {
    return "The row of every choice of an expert, and the group table.";
  }
  std::array<const char*, 2> examples(bool /*timed*/) const override {
    return {"--shape 64x3 --experts 12", "--shape 64x3 --experts 12 --capacity 10"};
  }
  RowKind rows() const override { return RowKind::update; }

  std::vector<Support> support() const override {
    std::vector<Support> result;
    for (const Dtype dtype : {Dtype::i32, Dtype::i64}) {
      const MoeMapsProblem problem{.tokens = kProbeExtent,
                                   .top_k = 8,
                                   .experts = 64,
                                   .groups = 64,
                                   .rows = 8 * kProbeExtent,
                                   .indices_dtype = dtype};
      result.push_back({"moe_maps", "none", std::string(octet::name(dtype)), "i32",
                        answers(moe_maps_implementations(), problem)});
    }
    return result;
  }

 private:
  const char* shape_form() const override { return "TxK"; }
  const char* shape_help() const override { return "T tokens with K choices each."; }
  void add_dtype_option(CLI::App& app) override {
    add_dtype(app, "--dtype", common_.dtype, {Dtype::i32, Dtype::i64},
              with_default("Data type of the indices.", MoeMapsProblem{}.indices_dtype));
  }

  void add_own_options(CLI::App& app, bool /*timed*/) override {
    add_whole(app, "--experts", experts_, 1, kMostExperts,
              with_default("Experts of the mixture.", "that of the case, or 64"));
    add_whole(app, "--first-expert", first_expert_, 0, kMostExperts, "The first expert here.");
    add_whole(app, "--groups", groups_, 1, kMaxGroups,
              with_default("Experts here.", "all from the first"));
    add_whole(app, "--rows", rows_, 1, kMaxGroupedRows,
              with_default("Rows of the buffers.", "T * K"));
    add_whole(app, "--capacity", capacity_, 0, kMaxGroupedRows,
              "Rows of an expert at most; 0 for any number.");
  }

  std::vector<Case> cases_on(Device device) const override {
    std::vector<Case> cases;
    for (const ShapeCase& shape : shapes_on(device)) {
      MoeMapsProblem problem;
      problem.tokens = shape.extents[0];
      problem.top_k = shape.extents[1];
      problem.experts = number_of(experts_, shape, "experts").value_or(kUsualExperts);
      problem.first_expert = first_expert_;
      problem.groups = groups_.value_or(problem.experts - first_expert_);
      problem.rows = rows_.value_or(problem.tokens * problem.top_k);
      problem.capacity = capacity_;
      problem.indices_dtype = common_.dtype.value_or(problem.indices_dtype);
      problem.device = device;
      cases.push_back(shape_case(shape, problem, check_moe_maps));
    }
    return cases;
  }

  std::optional<std::int64_t> experts_;
  std::int64_t first_expert_ = 0;
  std::optional<std::int64_t> groups_;
  std::optional<std::int64_t> rows_;
  std::int64_t capacity_ = 0;
};

}  // namespace

std::unique_ptr<Operator> make_moe_maps_operator() { return std::make_unique<MoeMaps>(); }

}  // namespace octet::tool
