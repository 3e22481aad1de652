// Errors that only C callers can make: struct sizes, null structs, numbers outside the enums, plans
// of another operator.
#include "bad_input/both_apis.hpp"
#include "core/message.hpp"

#include <cstring>

namespace octet::bad_input {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::invalid_argument;
constexpr ErrorCode kUnsupported = ErrorCode::unsupported;

octet_gemm_problem c_problem() {
  GemmProblem problem{.m = 2, .n = 3, .k = 4};
  problem.a = problem.b = {Dtype::f32};
  problem.out_dtype = Dtype::f32;
  return to_c(problem);
}

void expect_gemm_problem_refused(ErrorCode code, const std::string& message,
                                 const octet_gemm_problem& problem) {
  octet_plan* plan = nullptr;
  expect_status(code, message, octet_make_gemm_plan(&problem, nullptr, &plan));
  EXPECT_EQ(plan, nullptr);
}

class CGemm : public testing::Test {
 protected:
  CGemm() : arena_(1 << 16) {
    args_.a = arena_.matrix(Dtype::f32, 2, 4);
    args_.b = arena_.matrix(Dtype::f32, 3, 4);
    args_.d = arena_.matrix(Dtype::f32, 2, 3);
    c_args_ = to_c(args_);
    const octet_gemm_problem problem = c_problem();
    EXPECT_EQ(octet_make_gemm_plan(&problem, nullptr, &plan_), OCTET_OK) << octet_last_error();
    workspace_ = arena_.workspace(octet_plan_workspace_bytes(plan_));
  }
  ~CGemm() override { octet_destroy_plan(plan_); }

  void refused(ErrorCode code, const std::string& message) {
    const std::vector<char> before = arena_.snapshot();
    expect_status(code, message, run());
    EXPECT_EQ(arena_.snapshot(), before);
  }

  octet_status run() {
    return octet_run_gemm(plan_, &c_args_, workspace_.data, workspace_.bytes, nullptr);
  }

  Arena arena_;
  GemmArgs args_;
  Workspace workspace_;
  octet_gemm_args c_args_;
  octet_plan* plan_ = nullptr;
};

TEST(CBadInput, RefusesNullStructs) {
  octet_plan* plan = nullptr;
  const octet_gemm_problem problem = c_problem();
  expect_status(kInvalid, "gemm: problem is a null pointer",
                octet_make_gemm_plan(nullptr, nullptr, &plan));
  expect_status(kInvalid, "gemm: the address of the plan is a null pointer",
                octet_make_gemm_plan(&problem, nullptr, nullptr));
  expect_status(kInvalid, "quantize: problem is a null pointer",
                octet_make_quantize_plan(nullptr, nullptr, &plan));
  expect_status(kInvalid, "dequantize: problem is a null pointer",
                octet_make_dequantize_plan(nullptr, nullptr, &plan));
  expect_status(kInvalid, "repack: problem is a null pointer",
                octet_make_repack_plan(nullptr, nullptr, &plan));
  expect_status(kInvalid, "fp8_linear: problem is a null pointer",
                octet_make_fp8_linear_forward_plan(nullptr, nullptr, &plan));
  expect_status(kInvalid, "fp8_linear: problem is a null pointer",
                octet_make_fp8_linear_backward_plan(nullptr, nullptr, &plan));
  expect_status(kInvalid, "quantized layout: layout is a null pointer",
                octet_make_quantized_layout(1, 1, OCTET_E4M3, octet_block_of(1, 128), nullptr));
}

TEST(CBadInput, ANullPlanSaysSoWhateverItIsAsked) {
  EXPECT_EQ(octet_plan_workspace_bytes(nullptr), 0u);
  EXPECT_STREQ(octet_last_error(), "plan: the plan is a null pointer");
  EXPECT_EQ(octet_plan_implementation(nullptr), nullptr);
  EXPECT_EQ(octet_plan_configuration(nullptr), nullptr);
  EXPECT_EQ(octet_plan_why(nullptr), nullptr);
  EXPECT_EQ(octet_plan_problem(nullptr), nullptr);
  octet_destroy_plan(nullptr);
}

TEST(CBadInput, RefusesStructsThatAreTooSmall) {
  octet_gemm_problem problem = c_problem();
  for (const std::uint32_t size : {std::uint32_t{0}, std::uint32_t(sizeof problem - 1)}) {
    problem.struct_size = size;
    expect_gemm_problem_refused(kInvalid,
                                text("gemm: struct_size of problem must be at least ",
                                     sizeof problem, " and at most 65536, got ", size,
                                     "; OCTET_INIT or the struct's own init function sets it"),
                                problem);
  }
}

TEST(CBadInput, RefusesStructSizesThatWereNeverSet) {
  octet_gemm_problem problem = c_problem();
  problem.struct_size = 0xFFFFFFFF;
  expect_gemm_problem_refused(
      kInvalid,
      text("gemm: struct_size of problem must be at least ", sizeof problem,
           " and at most 65536, got 4294967295; OCTET_INIT or the struct's own init function sets "
           "it"),
      problem);
}

TEST(CBadInput, TakesStructsOfNewerHeadersWhoseNewFieldsAreZero) {
  struct Newer {
    octet_gemm_problem known;
    std::uint64_t added;
  } newer{c_problem(), 0};
  newer.known.struct_size = sizeof newer;
  octet_plan* plan = nullptr;
  EXPECT_EQ(octet_make_gemm_plan(&newer.known, nullptr, &plan), OCTET_OK) << octet_last_error();
  octet_destroy_plan(plan);

  newer.added = 1;
  expect_status(kUnsupported,
                text("gemm: problem comes from newer headers and uses a field that octet ",
                     OCTET_VERSION_MAJOR, ".", OCTET_VERSION_MINOR, ".", OCTET_VERSION_PATCH,
                     " does not know (struct_size ", sizeof newer, ", known ",
                     sizeof(octet_gemm_problem), ")"),
                octet_make_gemm_plan(&newer.known, nullptr, &plan));
}

TEST(CBadInput, RefusesNumbersOutsideTheEnums) {
  octet_gemm_problem problem = c_problem();
  problem.a.dtype = 0;
  expect_gemm_problem_refused(
      kInvalid, "gemm: dtype of a must be one of the numbers 1 (f32) to 8 (i64), got 0", problem);
  problem = c_problem();
  problem.out_dtype = 99;
  expect_gemm_problem_refused(
      kInvalid, "gemm: dtype of out must be one of the numbers 1 (f32) to 8 (i64), got 99",
      problem);
  problem = c_problem();
  problem.bias_dtype = 9;
  expect_gemm_problem_refused(
      kInvalid, "gemm: dtype of bias must be one of the numbers 1 (f32) to 8 (i64), got 9",
      problem);
  problem = c_problem();
  problem.device.type = 10;
  expect_gemm_problem_refused(
      kInvalid, "gemm: device type of problem must be 1 (cpu) or 2 (cuda), got 10", problem);
  problem = c_problem();
  problem.accumulate = 2;
  expect_gemm_problem_refused(kInvalid, "gemm: accumulate must be 0 or 1, got 2", problem);
  problem = c_problem();
  problem.a.block.rows = -2;
  expect_gemm_problem_refused(
      kInvalid,
      "gemm: block of a must have rows and cols of at least 0, or OCTET_ALL (-1), got -2x0",
      problem);
  problem = c_problem();
  problem.b.scale_dtype = 0;
  expect_gemm_problem_refused(
      kInvalid,
      "gemm: dtype of the scales of b must be one of the numbers 1 (f32) to 8 (i64), got 0",
      problem);
}

// "Whole tensor", "not scaled" and "no copy" are three values.
TEST(CBadInput, TellsTheSpecialBlocksApart) {
  octet_quantize_problem problem;
  octet_init_quantize_problem(&problem);
  problem.rows = problem.cols = 4;
  octet_plan* plan = nullptr;
  problem.block = octet_whole_tensor();
  ASSERT_EQ(octet_make_quantize_plan(&problem, nullptr, &plan), OCTET_OK) << octet_last_error();
  octet_destroy_plan(plan);
  plan = nullptr;
  problem.block = octet_unscaled();
  expect_status(kUnsupported,
                "quantize: block must be 1x128, 128x1, 128x128, 1xall, allx1, allxall, 1x32 or "
                "32x32, got unscaled",
                octet_make_quantize_plan(&problem, nullptr, &plan));
  problem.block = octet_no_copy();
  expect_status(kInvalid,
                "quantize: block and transposed_block are both empty: there is nothing to write",
                octet_make_quantize_plan(&problem, nullptr, &plan));
  problem.transposed_block = octet_block_of(1, 128);
  ASSERT_EQ(octet_make_quantize_plan(&problem, nullptr, &plan), OCTET_OK) << octet_last_error();
  octet_destroy_plan(plan);
}

TEST(CBadInput, RefusesNestedStructsThatWereNotInitialised) {
  octet_gemm_problem problem = c_problem();
  problem.a.struct_size = 0;
  expect_gemm_problem_refused(kInvalid,
                              text("gemm: struct_size of a must be ", sizeof problem.a,
                                   ", got 0; the function that makes it sets it"),
                              problem);
  problem = c_problem();
  problem.b.reserved[3] = 1;
  expect_gemm_problem_refused(kInvalid, "gemm: reserved room of b must be zero", problem);
}

TEST(CBadInput, RefusesFieldsOfWhatIsYetToCome) {
  const auto refused = [](const char* field, void (*set)(octet_gemm_problem*)) {
    octet_gemm_problem problem = c_problem();
    set(&problem);
    expect_gemm_problem_refused(
        kUnsupported,
        text("gemm: ", field, " is not supported by this version of octet: leave it zero"),
        problem);
  };
  refused("group_count", [](octet_gemm_problem* p) { p->group_count = 4; });
  refused("determinism", [](octet_gemm_problem* p) { p->determinism = 1; });
  refused("split_k", [](octet_gemm_problem* p) { p->split_k = 8; });

  octet_gemm_problem problem = c_problem();
  problem.reserved[6] = 1;
  expect_gemm_problem_refused(kInvalid, "gemm: reserved room of problem must be zero", problem);
  octet_fp8_linear_problem layer;
  octet_init_fp8_linear_problem(&layer);
  layer.reserved[4] = 1;
  octet_plan* refused_plan = nullptr;
  expect_status(kInvalid, "fp8_linear: reserved room of problem must be zero",
                octet_make_fp8_linear_forward_plan(&layer, nullptr, &refused_plan));
  octet_init_fp8_linear_problem(&layer);
  layer.dbias_dtype = -1;
  expect_status(kInvalid,
                "fp8_linear: dtype of dbias must be one of the numbers 1 (f32) to 8 (i64), got -1",
                octet_make_fp8_linear_forward_plan(&layer, nullptr, &refused_plan));
  octet_init_fp8_linear_problem(&layer);
  layer.activation = 1;
  octet_plan* plan = nullptr;
  expect_status(kUnsupported,
                "fp8_linear: activation is not supported by this version of octet: leave it zero",
                octet_make_fp8_linear_forward_plan(&layer, nullptr, &plan));
}

TEST(CBadInput, RefusesBadOptions) {
  const octet_gemm_problem problem = c_problem();
  octet_plan* plan = nullptr;
  octet_plan_options options;
  OCTET_INIT(&options);
  options.threads = -1;
  expect_status(kInvalid, "threads must be between 0 and 1024, got -1",
                octet_make_gemm_plan(&problem, &options, &plan));
  OCTET_INIT(&options);
  options.struct_size = 3;
  expect_status(kInvalid,
                text("gemm: struct_size of options must be at least ", sizeof options,
                     " and at most 65536, got 3; OCTET_INIT or the struct's own init function sets "
                     "it"),
                octet_make_gemm_plan(&problem, &options, &plan));
}

TEST_F(CGemm, RunsTheCallTheTestsSpoil) { EXPECT_EQ(run(), OCTET_OK) << octet_last_error(); }

TEST_F(CGemm, RefusesBadArgumentStructs) {
  expect_status(kInvalid, "gemm: args is a null pointer",
                octet_run_gemm(plan_, nullptr, nullptr, 0, nullptr));
  c_args_.struct_size = 8;
  refused(kInvalid, text("gemm: struct_size of args must be at least ", sizeof c_args_,
                         " and at most 65536, got 8; OCTET_INIT or the struct's own init function "
                         "sets it"));
  c_args_ = to_c(args_);
  c_args_.reserved0 = 1;
  refused(kInvalid, "gemm: reserved room of args must be zero");
  c_args_ = to_c(args_);
  c_args_.group_offsets = &c_args_;
  refused(kUnsupported,
          "gemm: group_offsets is not supported by this version of octet: leave it zero");
  c_args_ = to_c(args_);
  c_args_.bias = c_args_.d;
  refused(kInvalid, "gemm: a bias is given, but the problem has no bias_dtype");
}

TEST_F(CGemm, RefusesTensorsThatCannotBeRead) {
  c_args_.d.rank = 7;
  refused(kInvalid, "gemm: rank of d must be between 0 and 6, got 7");
  c_args_.d.rank = -1;
  refused(kInvalid, "gemm: rank of d must be between 0 and 6, got -1");
  c_args_ = to_c(args_);
  c_args_.b.values.dtype = -2;
  refused(kInvalid, "gemm: dtype of b must be one of the numbers 1 (f32) to 8 (i64), got -2");
  c_args_ = to_c(args_);
  c_args_.a.values.device.type = 0;
  refused(kInvalid, "gemm: device type of a must be 1 (cpu) or 2 (cuda), got 0");
  c_args_ = to_c(args_);
  c_args_.a.owns_padding = 5;
  refused(kInvalid, "gemm: owns_padding of a must be 0 or 1, got 5");
}

TEST_F(CGemm, RefusesThePlanOfAnotherOperator) {
  octet_quantize_problem problem;
  octet_init_quantize_problem(&problem);
  problem.rows = problem.cols = 4;
  octet_plan* quantize = nullptr;
  ASSERT_EQ(octet_make_quantize_plan(&problem, nullptr, &quantize), OCTET_OK) << octet_last_error();
  const std::vector<char> before = arena_.snapshot();
  expect_status(kInvalid,
                "gemm: the plan must come from octet_make_gemm_plan(), got one of "
                "octet_make_quantize_plan()",
                octet_run_gemm(quantize, &c_args_, nullptr, 0, nullptr));
  octet_destroy_plan(quantize);
  octet_fp8_linear_forward_args layer;
  OCTET_INIT(&layer);
  expect_status(
      kInvalid,
      "fp8_linear_forward: the plan must come from octet_make_fp8_linear_forward_plan(), got "
      "one of octet_make_gemm_plan()",
      octet_run_fp8_linear_forward(plan_, &layer, nullptr, 0, nullptr));
  EXPECT_EQ(arena_.snapshot(), before);
}

TEST(CBadInput, RefusesLayoutsAndTheirMemory) {
  octet_quantized_layout layout;
  const octet_block block = octet_block_of(1, 128);
  expect_status(kInvalid, "quantized layout: rows must be at least 1, got -1",
                octet_make_quantized_layout(-1, 4, OCTET_E4M3, block, &layout));
  expect_status(kInvalid, "quantized layout: dtype must be e4m3 or e5m2, got f32",
                octet_make_quantized_layout(1, 4, OCTET_F32, block, &layout));
  expect_status(kUnsupported,
                "quantized layout: blocks must be 1x128, 128x1, 128x128, 1xall, allx1, allxall, "
                "1x32 or 32x32, "
                "got 1x7",
                octet_make_quantized_layout(1, 4, OCTET_E4M3, octet_block_of(1, 7), &layout));
  ASSERT_EQ(octet_make_quantized_layout(1, 4, OCTET_E4M3, block, &layout), OCTET_OK);
  octet_quantized view;
  std::memset(&view, 0x5A, sizeof view);
  const octet_quantized before = view;
  expect_status(kInvalid, "quantized layout: memory is a null pointer",
                octet_make_quantized_view(&layout, nullptr, octet_cpu(), &view));
  void* odd = reinterpret_cast<void*>(0x1040);
  expect_status(kInvalid,
                "quantized layout: memory must be aligned to 256 bytes, got address 0x1040",
                octet_make_quantized_view(&layout, odd, octet_cpu(), &view));
  EXPECT_EQ(std::memcmp(&view, &before, sizeof view), 0);
}

}  // namespace
}  // namespace octet::bad_input
