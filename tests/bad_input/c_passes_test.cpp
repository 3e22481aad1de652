// Errors that only C callers can make, for operators with a forward and a backward plan and for
// nested structs.
#include "bad_input/both_apis.hpp"
#include "core/message.hpp"

namespace octet::bad_input {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::invalid_argument;

// Of the first version of a struct: the table of groups came later, behind the reserved room.
template <class Args>
constexpr std::size_t first_size() {
  if constexpr (requires(Args args) { args.table; }) {
    return offsetof(Args, table);
  } else {
    return sizeof(Args);
  }
}

// `name` is the operator, `pass` the plan: "rope", or "rms_norm_forward".
template <class Problem, class Options, class Args>
void expect_struct_checks(const std::string& name, const std::string& pass, const Problem& good,
                          octet_status (*plan_it)(const Problem*, const Options*, octet_plan**),
                          octet_status (*run_it)(const octet_plan*, const Args*, void*, size_t,
                                                 void*)) {
  octet_plan* made = nullptr;
  expect_status(kInvalid, name + ": problem is a null pointer", plan_it(nullptr, nullptr, &made));
  expect_status(kInvalid, pass + ": the address of the plan is a null pointer",
                plan_it(&good, nullptr, nullptr));
  const auto size_message = [&](const std::string& op, const char* what, std::size_t wanted) {
    return text(op, ": struct_size of ", what, " must be at least ", wanted,
                " and at most 65536, got 8; OCTET_INIT or the struct's own init function sets it");
  };
  Problem problem = good;
  problem.struct_size = 8;
  expect_status(kInvalid, size_message(name, "problem", sizeof problem),
                plan_it(&problem, nullptr, &made));
  problem = good;
  *std::rbegin(problem.reserved) = 1;
  expect_status(kInvalid, name + ": reserved room of problem must be zero",
                plan_it(&problem, nullptr, &made));
  EXPECT_EQ(made, nullptr);

  ASSERT_EQ(plan_it(&good, nullptr, &made), OCTET_OK) << octet_last_error();
  const PlanOwner plan(made, octet_destroy_plan);
  expect_status(kInvalid, pass + ": args is a null pointer",
                run_it(made, nullptr, nullptr, 0, nullptr));
  Args args;
  OCTET_INIT(&args);
  expect_status(kInvalid, pass + ": the plan is a null pointer",
                run_it(nullptr, &args, nullptr, 0, nullptr));
  args.struct_size = 8;
  expect_status(kInvalid, size_message(pass, "args", first_size<Args>()),
                run_it(made, &args, nullptr, 0, nullptr));
  OCTET_INIT(&args);
  args.reserved0 = 1;
  expect_status(kInvalid, pass + ": reserved room of args must be zero",
                run_it(made, &args, nullptr, 0, nullptr));
}

octet_rms_norm_problem norm_problem() {
  octet_rms_norm_problem problem;
  octet_init_rms_norm_problem(&problem);
  problem.rows = problem.cols = 4;
  return problem;
}

octet_gated_activation_problem gated_problem() {
  octet_gated_activation_problem problem;
  octet_init_gated_activation_problem(&problem);
  problem.rows = problem.cols = 4;
  return problem;
}

octet_rope_problem rope_problem() {
  octet_rope_problem problem;
  octet_init_rope_problem(&problem);
  problem.seq = problem.q_heads = problem.head_dim = 4;
  return problem;
}

octet_rms_norm_rope_problem norm_rope_problem() {
  octet_rms_norm_rope_problem problem;
  octet_init_rms_norm_rope_problem(&problem);
  problem.seq = problem.q_heads = problem.head_dim = 4;
  return problem;
}

octet_gated_mlp_problem mlp_problem() {
  octet_gated_mlp_problem problem;
  octet_init_gated_mlp_problem(&problem);
  problem.m = problem.f = problem.k = 4;
  return problem;
}

octet_attention_problem attention_problem() {
  octet_attention_problem problem;
  octet_init_attention_problem(&problem);
  problem.seq_q = problem.seq_kv = problem.heads_q = problem.heads_kv = problem.dim_qk = 4;
  return problem;
}

TEST(CPassesBadInput, RefusesBadStructs) {
  expect_struct_checks("rms_norm", "rms_norm_forward", norm_problem(),
                       octet_make_rms_norm_forward_plan, octet_run_rms_norm_forward);
  expect_struct_checks("rms_norm", "rms_norm_backward", norm_problem(),
                       octet_make_rms_norm_backward_plan, octet_run_rms_norm_backward);
  expect_struct_checks("gated_activation", "gated_activation_forward", gated_problem(),
                       octet_make_gated_activation_forward_plan,
                       octet_run_gated_activation_forward);
  expect_struct_checks("gated_activation", "gated_activation_backward", gated_problem(),
                       octet_make_gated_activation_backward_plan,
                       octet_run_gated_activation_backward);
  expect_struct_checks("rope", "rope_forward", rope_problem(), octet_make_rope_forward_plan,
                       octet_run_rope_forward);
  expect_struct_checks("rope", "rope_backward", rope_problem(), octet_make_rope_backward_plan,
                       octet_run_rope_backward);
  expect_struct_checks("rms_norm_rope", "rms_norm_rope_forward", norm_rope_problem(),
                       octet_make_rms_norm_rope_forward_plan, octet_run_rms_norm_rope_forward);
  expect_struct_checks("rms_norm_rope", "rms_norm_rope_backward", norm_rope_problem(),
                       octet_make_rms_norm_rope_backward_plan, octet_run_rms_norm_rope_backward);
  expect_struct_checks("gated_mlp", "gated_mlp_forward", mlp_problem(),
                       octet_make_gated_mlp_forward_plan, octet_run_gated_mlp_forward);
  expect_struct_checks("gated_mlp", "gated_mlp_backward", mlp_problem(),
                       octet_make_gated_mlp_backward_plan, octet_run_gated_mlp_backward);
  expect_struct_checks("attention", "attention_forward", attention_problem(),
                       octet_make_attention_forward_plan, octet_run_attention_forward);
  expect_struct_checks("attention", "attention_backward", attention_problem(),
                       octet_make_attention_backward_plan, octet_run_attention_backward);
}

TEST(CPassesBadInput, RefusesTheCostOfWhatIsNoGatedMlp) {
  std::int64_t launches = 7;
  std::int64_t bytes = 7;
  expect_status(kInvalid, "gated_mlp: the plan is a null pointer",
                octet_gated_mlp_cost(nullptr, &launches, &bytes));
  const octet_rope_problem problem = rope_problem();
  octet_plan* made = nullptr;
  ASSERT_EQ(octet_make_rope_forward_plan(&problem, nullptr, &made), OCTET_OK) << octet_last_error();
  const PlanOwner plan(made, octet_destroy_plan);
  expect_status(
      kInvalid,
      "gated_mlp: the plan must be one of gated_mlp, got one of octet_make_rope_forward_plan()",
      octet_gated_mlp_cost(made, &launches, &bytes));
  expect_status(kInvalid, "gated_mlp: bytes is a null pointer",
                octet_gated_mlp_cost(made, &launches, nullptr));
  EXPECT_EQ(launches, 7);
}

TEST(CPassesBadInput, RefusesThePlanOfTheOtherPass) {
  const octet_rms_norm_problem problem = norm_problem();
  octet_plan* made = nullptr;
  ASSERT_EQ(octet_make_rms_norm_backward_plan(&problem, nullptr, &made), OCTET_OK)
      << octet_last_error();
  const PlanOwner plan(made, octet_destroy_plan);
  octet_rms_norm_forward_args args;
  OCTET_INIT(&args);
  expect_status(
      kInvalid,
      "rms_norm_forward: the plan must come from octet_make_rms_norm_forward_plan(), got one "
      "of octet_make_rms_norm_backward_plan()",
      octet_run_rms_norm_forward(made, &args, nullptr, 0, nullptr));
}

TEST(CPassesBadInput, ReadsAnFp8OutputOnlyWhereItIsEnabled) {
  octet_gated_activation_problem problem = gated_problem();
  problem.fp8.format = 99;
  problem.fp8.block = octet_block_of(-3, 128);
  octet_plan* plan = nullptr;
  ASSERT_EQ(octet_make_gated_activation_forward_plan(&problem, nullptr, &plan), OCTET_OK)
      << octet_last_error();
  octet_destroy_plan(plan);

  const auto refused = [&](const char* message) {
    expect_status(kInvalid, message,
                  octet_make_gated_activation_forward_plan(&problem, nullptr, &plan));
  };
  problem.fp8.enabled = 1;
  refused(
      "gated_activation: dtype of fp8.format must be one of the numbers 1 (f32) to 8 (i64), got "
      "99");
  problem.fp8.format = OCTET_E5M2;
  refused(
      "gated_activation: block of fp8.out must have rows and cols of at least 0, or OCTET_ALL "
      "(-1), got -3x128");
  problem.fp8.enabled = 2;
  refused("gated_activation: fp8.enabled must be 0 or 1, got 2");
}

TEST(CPassesBadInput, RefusesNumbersOfNoRotation) {
  octet_rope_problem problem = rope_problem();
  problem.rotation.positions_dtype = 99;
  octet_plan* plan = nullptr;
  expect_status(kInvalid,
                "rope: dtype of positions must be one of the numbers 1 (f32) to 8 (i64), got 99",
                octet_make_rope_forward_plan(&problem, nullptr, &plan));
  problem = rope_problem();
  problem.rotation.full_cache = -1;
  expect_status(kInvalid, "rope: full_cache must be 0 or 1, got -1",
                octet_make_rope_forward_plan(&problem, nullptr, &plan));
  problem = rope_problem();
  problem.rotation.struct_size = 8;
  expect_status(kInvalid,
                text("rope: struct_size of rotation must be ", sizeof problem.rotation,
                     ", got 8; the function that makes it sets it"),
                octet_make_rope_forward_plan(&problem, nullptr, &plan));
}

TEST(CPassesBadInput, RefusesNumbersOfNoAttention) {
  const auto refused = [](const char* message, const auto& change) {
    octet_attention_problem problem = attention_problem();
    change(problem);
    octet_plan* plan = nullptr;
    expect_status(kInvalid, message, octet_make_attention_forward_plan(&problem, nullptr, &plan));
    expect_status(kInvalid, message, octet_make_attention_backward_plan(&problem, nullptr, &plan));
  };
  refused("attention: dtype of q must be one of the numbers 1 (f32) to 8 (i64), got 0",
          [](auto& p) { p.dtype = 0; });
  refused("attention: dtype of out must be one of the numbers 1 (f32) to 8 (i64), got 99",
          [](auto& p) { p.out_dtype = 99; });
  refused("attention: dtype of offsets must be one of the numbers 1 (f32) to 8 (i64), got -1",
          [](auto& p) { p.offsets_dtype = -1; });
  refused("attention: sink must be 0 or 1, got 2", [](auto& p) { p.sink = 2; });
  refused("attention: device type of problem must be 1 (cpu) or 2 (cuda), got 0",
          [](auto& p) { p.device.type = 0; });
  refused("attention: reserved room of problem must be zero", [](auto& p) { p.reserved0 = 1; });
}

// The inputs are a struct of both passes, with reserved room of its own.
TEST(CPassesBadInput, RefusesBadInputsOfAttention) {
  const octet_attention_problem problem = attention_problem();
  octet_plan* made = nullptr;
  ASSERT_EQ(octet_make_attention_forward_plan(&problem, nullptr, &made), OCTET_OK)
      << octet_last_error();
  const PlanOwner plan(made, octet_destroy_plan);
  octet_attention_forward_args args;
  OCTET_INIT(&args);
  args.inputs.reserved[3] = 1;
  expect_status(kInvalid, "attention: reserved room of inputs must be zero",
                octet_run_attention_forward(made, &args, nullptr, 0, nullptr));
  OCTET_INIT(&args);
  args.lse.rank = 7;
  expect_status(kInvalid, "attention: rank of lse must be between 0 and 6, got 7",
                octet_run_attention_forward(made, &args, nullptr, 0, nullptr));
  octet_attention_backward_args backward;
  OCTET_INIT(&backward);
  expect_status(
      kInvalid,
      "attention_backward: the plan must come from octet_make_attention_backward_plan(), got one "
      "of octet_make_attention_forward_plan()",
      octet_run_attention_backward(made, &backward, nullptr, 0, nullptr));
}

}  // namespace
}  // namespace octet::bad_input
