#include "ops/fp8_output/checks.hpp"
#include "ops/group_table/problem.hpp"
#include "ops/quantize/problem.hpp"

#include <array>
#include <limits>

namespace octet {
namespace {

constexpr std::string_view kOp = "quantize";

bool gathers(const QuantizeProblem& problem) { return problem.source_rows > 0; }

void check_batch(const QuantizeProblem& problem) {
  check_count(kOp, "batch", problem.batch);
  if (problem.batch == 0) return;
  if (problem.groups != 0) {
    refuse_argument(kOp, ": batch and groups do not go together, got a batch of ", problem.batch,
                    " and ", problem.groups, " groups");
  }
  check_size(kOp, problem.batch, problem.rows * problem.cols, Dtype::f32);
}

void check_groups_and_source(const QuantizeProblem& problem) {
  if (problem.source_rows < 0 || problem.source_rows > std::numeric_limits<std::int32_t>::max()) {
    refuse_argument(kOp, ": source_rows must be 0 to 2^31 - 1, got ", problem.source_rows);
  }
  if (problem.groups == 0 && gathers(problem)) {
    refuse_argument(kOp, ": source_rows goes with groups, got ", problem.source_rows,
                    " without groups");
  }
  check_count(kOp, "source_top_k", problem.source_top_k);
  if (problem.source_top_k > 0 && !gathers(problem)) {
    refuse_argument(kOp, ": source_top_k goes with source_rows, got ", problem.source_top_k,
                    " without source_rows");
  }
  if (problem.groups == 0) return;
  if (gathers(problem) &&
      slots_per_row(problem) > std::numeric_limits<std::int32_t>::max() / problem.source_rows) {
    refuse_argument(kOp, ": source_rows * source_top_k must be at most 2^31 - 1, got ",
                    problem.source_rows, " * ", problem.source_top_k);
  }
  check_groups(kOp, problem.groups, problem.rows);
  check_tail(kOp, problem.tail);
  check_size(kOp, max_token_blocks(problem.groups, problem.rows) * kBlock, problem.cols,
             Dtype::f32);
  check_size(kOp, problem.source_rows, problem.cols, Dtype::f32);
}

// The blocks that a batch leaves.
void check_batch_blocks(const QuantizeProblem& problem) {
  if (problem.block == kBlock128x1 || problem.transposed_block == kBlock128x1) {
    fail(ErrorCode::unsupported, kOp, ": ",
         problem.block == kBlock128x1 ? "block" : "transposed_block",
         " must be 1x128 or 128x128 with a batch, got 128x1");
  }
}

// On the CPU, reads what the table and the source say, before anything is written.
void check_contents(const QuantizeProblem& problem, const QuantizeArgs& args) {
  const GroupRows groups(kOp, args.table, problem.groups, problem.rows);
  if (!gathers(problem)) return;
  const auto* source = static_cast<const std::int32_t*>(args.source.data);
  for (std::int64_t r = 0; r < groups.grouped_rows(); ++r) {
    if (source[r] < 0 || source[r] >= source_slots(problem)) {
      refuse_argument(kOp, ": source[", r, "] must be 0 to ", source_slots(problem) - 1, ", got ",
                      source[r]);
    }
  }
}

void read_input(Call& call, const QuantizeProblem& problem, const QuantizeArgs& args) {
  const Dtype dtype = problem.input_dtype;
  if (problem.batch > 0) {
    const TensorForm form(dtype, {problem.batch, problem.rows, problem.cols},
                          "[batch, rows, cols]");
    return call.reads("input", args.input, form);
  }
  call.reads("input", args.input,
             gathers(problem)
                 ? MatrixForm{dtype, problem.source_rows, problem.cols, "[source_rows, cols]"}
                 : MatrixForm{dtype, problem.rows, problem.cols, "[rows, cols]"});
  if (problem.groups == 0) return;
  read_table(call, args.table, problem.groups, problem.rows);
  if (gathers(problem)) {
    call.reads("source", args.source, TensorForm(Dtype::i32, {problem.rows}, "[rows]"));
  }
}

void write_batch(Call& call, const QuantizeProblem& problem, const QuantizeArgs& args) {
  const auto form = [&](BlockShape block, std::int64_t rows, std::int64_t cols, const char* shape) {
    return QuantizedBatchForm{problem.format, problem.batch, rows, cols, block, shape};
  };
  if (problem.block) {
    call.writes("out", args.out,
                form(*problem.block, problem.rows, problem.cols, "[batch, rows, cols]"));
  }
  if (problem.transposed_block) {
    call.writes("transposed", args.transposed,
                form(*problem.transposed_block, problem.cols, problem.rows, "[batch, cols, rows]"));
  }
}

}  // namespace

std::span<const QuantizeImplementation> quantize_implementations() {
  static const std::array<QuantizeImplementation, 3> list{kQuantizeCudaSm90Tile, kQuantizeCpuSimd,
                                                          kQuantizeCpuReference};
  return list;
}

std::string describe(const QuantizeProblem& problem) {
  std::string result = text("quantize --shape ", problem.rows, "x", problem.cols);
  if (problem.batch != 0) result += text(" --batch ", problem.batch);
  if (problem.groups != 0) result += text(" --groups ", problem.groups);
  if (problem.source_rows != 0) result += text(" --source-rows ", problem.source_rows);
  if (problem.source_top_k != 0) result += text(" --source-top-k ", problem.source_top_k);
  if (problem.groups != 0 && problem.tail != GroupTail::zero) {
    result += text(" --tail ", name(problem.tail));
  }
  result += text(" --dtype ", name(problem.input_dtype), " --format ", name(problem.format),
                 " --block ", problem.block ? name(*problem.block) : "none");
  if (problem.transposed_block) result += " --transposed-block " + name(*problem.transposed_block);
  if (problem.amax_floor != 0) result += " --amax-floor " + exact_text(problem.amax_floor);
  if (problem.pow2_scales) result += " --pow2-scales";
  return result + " --device " + name(problem.device);
}

void check(const QuantizeProblem& problem) {
  check_extent(kOp, "rows", problem.rows);
  check_extent(kOp, "cols", problem.cols);
  check_float({kOp, "input_dtype"}, problem.input_dtype);
  check_size(kOp, problem.rows, problem.cols, Dtype::f32);
  check_batch(problem);
  check_groups_and_source(problem);
  check_fp8_output(kOp, options_of(problem));
  if (problem.given_scales || problem.fold_mx || problem.mx_scale != MxScale::floor) {
    fail(ErrorCode::unsupported, kOp, ": given_scales, fold_mx and mx_scale are not built yet");
  }
  if (problem.batch > 0) check_batch_blocks(problem);
  if (problem.groups > 0) check_fp8_groups(kOp, options_of(problem));
  check_device(kOp, problem.device);
}

void check(const QuantizeProblem& problem, const QuantizeArgs& args, std::size_t workspace_bytes,
           const Workspace& workspace) {
  Fp8Copies copies{args.out, args.transposed};
  Call call(kOp, problem.device);
  read_input(call, problem, args);
  if (problem.batch > 0) {
    write_batch(call, problem, args);
  } else if (problem.groups > 0) {
    write_fp8_groups(call, options_of(problem), copies, problem.groups, problem.rows, problem.cols,
                     {.out = "out",
                      .transposed = "transposed",
                      .transposed_shape = "[max_token_blocks(groups, rows), cols, 128]"});
  } else {
    write_fp8_copies(call, options_of(problem), copies, problem.rows, problem.cols,
                     {.out = "out", .transposed = "transposed"});
  }
  call.check_apart(workspace_bytes, workspace);
  if (problem.groups > 0 && problem.device.type == DeviceType::cpu) check_contents(problem, args);
}

QuantizePlan plan_quantize(const QuantizeProblem& problem, const PlanOptions& options) {
  check(problem);
  return make_plan(quantize_implementations(), problem,
                   make_request(kOp, "fp8", describe(problem), options.backend), options);
}

void run(const QuantizePlan& plan, const QuantizeArgs& args, Workspace workspace, void* stream) {
  check_plan(kOp, plan.state.get());
  check(plan.problem, args, plan.workspace_bytes, workspace);
  run_plan(plan, args, workspace, stream);
}

}  // namespace octet
