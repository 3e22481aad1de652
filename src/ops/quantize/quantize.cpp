#include "core/block_scales.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/group_table/problem.hpp"
#include "ops/quantize/forms.hpp"
#include "ops/quantize/launches.hpp"
#include "ops/quantize/problem.hpp"

#include <array>
#include <cmath>
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

// The copies that a problem asks for, with their names.
struct Copy {
  const char* name;
  std::optional<BlockShape> block;
};
std::array<Copy, 2> copies_of(const QuantizeProblem& problem) {
  return {{{"block", problem.block}, {"transposed_block", problem.transposed_block}}};
}

// The blocks that a batch leaves.
void check_batch_blocks(const QuantizeProblem& problem) {
  for (const auto& [name, block] : copies_of(problem)) {
    if (block && *block != kBlock1x128 && *block != kBlock128x128) {
      fail(ErrorCode::unsupported, kOp, ": ", name, " must be 1x128 or 128x128 with a batch, got ",
           octet::name(*block));
    }
  }
}

void check_blocks(const QuantizeProblem& problem) {
  check_fp8({kOp, "format"}, problem.format);
  if (!problem.block && !problem.transposed_block) {
    refuse_argument(kOp, ": block and transposed_block are both empty: there is nothing to write");
  }
  for (const auto& [name, block] : copies_of(problem)) {
    if (block) check_any_block(kOp, name, *block);
    if (problem.fold_mx && block && *block != kBlock1x128 && *block != kBlock128x128) {
      refuse_argument(kOp, ": fold_mx folds mx blocks into 1x128 and 128x128 ones, got a ", name,
                      " of ", octet::name(*block));
    }
  }
}

bool has_mx_blocks(const QuantizeProblem& problem) {
  return problem.fold_mx || has_mx_block(options_of(problem));
}

// Options of scales that contradict each other, or that the blocks do not have.
void check_scale_options(const QuantizeProblem& problem) {
  check_amax_floor(kOp, problem.amax_floor);
  const auto scale = static_cast<std::int32_t>(problem.mx_scale);
  if (scale < 0 || scale > 2) {
    refuse_argument(kOp, ": mx_scale must be 0 (floor), 1 (even) or 2 (up), got ", scale);
  }
  if (has_mx_blocks(problem)) {
    check_mx_scales(kOp, options_of(problem));
  } else if (problem.mx_scale != MxScale::floor) {
    refuse_argument(kOp, ": mx_scale ", name(problem.mx_scale),
                    " goes with 1x32 and 32x32 blocks and with fold_mx");
  }
  if (!problem.given_scales) return;
  if (has_mx_blocks(problem)) {
    fail(ErrorCode::unsupported, kOp,
         ": given_scales does not go with mx blocks, whose scales follow from their elements");
  }
  if (problem.amax_floor != 0 || problem.pow2_scales) {
    refuse_argument(kOp, ": ", problem.pow2_scales ? "pow2_scales" : "amax_floor",
                    " says how scales are computed, with given_scales they are read");
  }
}

// What batches and groups do not take.
void check_single_matrix(const QuantizeProblem& problem) {
  if (problem.batch == 0 && problem.groups == 0) return;
  if (problem.given_scales || problem.fold_mx) {
    fail(ErrorCode::unsupported, kOp, ": ", problem.given_scales ? "given_scales" : "fold_mx",
         " is for one matrix, without ", problem.batch > 0 ? "a batch" : "groups");
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

// The memory of a copy whose scales are given: its values are written, its scales are read. Both
// copies may have the same ones.
TensorView written_values(const QuantizedView& copy) {
  return copy.owns_padding ? with_padding(copy.values, value_lines(copy.values)) : copy.values;
}

void check_given_scales(const char* name, const TensorView& scales) {
  const auto* data = static_cast<const float*>(scales.data);
  for (std::int64_t r = 0; r < scales.rows(); ++r) {
    for (std::int64_t c = 0; c < scales.cols(); ++c) {
      const float scale = data[r * scales.strides[0] + c * scales.strides[1]];
      if (!std::isnormal(scale) || scale < 0) {
        refuse_argument(kOp, ": scale of ", name, " at [", r, ", ", c,
                        "] must be a positive, normal number, got ", scale);
      }
    }
  }
}

// The tensors of a call with given scales.
void check_given(const QuantizeProblem& problem, const QuantizeArgs& args,
                 std::size_t workspace_bytes, const Workspace& workspace) {
  Call call(kOp, problem.device);
  read_input(call, problem, args);
  TensorView out;
  TensorView transposed;
  const auto list = [&](const QuantizedView& copy, BlockShape block, std::int64_t rows,
                        std::int64_t cols, const char* name, const char* scale_name,
                        const char* shape, TensorView& written) {
    check_view({kOp, name}, copy, QuantizedForm{problem.format, rows, cols, block, shape},
               problem.device);
    written = written_values(copy);
    call.reads_checked(scale_name, copy.scales);
    call.writes(name, written, MatrixForm{problem.format, written.rows(), written.cols(), shape});
  };
  if (problem.block) {
    list(args.out, *problem.block, problem.rows, problem.cols, "out", "scale of out",
         "[rows, cols]", out);
  }
  if (problem.transposed_block) {
    list(args.transposed, *problem.transposed_block, problem.cols, problem.rows, "transposed",
         "scale of transposed", "[cols, rows]", transposed);
  }
  call.check_apart(workspace_bytes, workspace);
  if (problem.device.type != DeviceType::cpu) return;
  if (problem.block) check_given_scales("out", args.out.scales);
  if (problem.transposed_block) check_given_scales("transposed", args.transposed.scales);
}

}  // namespace

std::string_view name(MxScale scale) {
  return scale == MxScale::even ? "even" : scale == MxScale::up ? "up" : "floor";
}

std::span<const QuantizeImplementation> quantize_implementations() {
  static const std::array<QuantizeImplementation, 5> list{
      kQuantizeCudaSm90Tile, kQuantizeCudaSm90Mx, kQuantizeCudaSm90Lines, kQuantizeCpuSimd,
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
  if (problem.given_scales) result += " --given-scales";
  if (problem.mx_scale != MxScale::floor) result += text(" --mx-scale ", name(problem.mx_scale));
  if (problem.fold_mx) result += " --fold-mx";
  return result + " --device " + name(problem.device);
}

void check(const QuantizeProblem& problem) {
  check_extent(kOp, "rows", problem.rows);
  check_extent(kOp, "cols", problem.cols);
  check_float({kOp, "input_dtype"}, problem.input_dtype);
  check_size(kOp, problem.rows, problem.cols, Dtype::f32);
  check_batch(problem);
  check_groups_and_source(problem);
  check_blocks(problem);
  check_scale_options(problem);
  check_single_matrix(problem);
  if (problem.batch > 0) check_batch_blocks(problem);
  if (problem.groups > 0) check_fp8_groups(kOp, options_of(problem));
  check_device(kOp, problem.device);
}

void check(const QuantizeProblem& problem, const QuantizeArgs& args, std::size_t workspace_bytes,
           const Workspace& workspace) {
  if (problem.given_scales) return check_given(problem, args, workspace_bytes, workspace);
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
