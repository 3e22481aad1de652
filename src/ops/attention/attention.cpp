#include "core/call.hpp"
#include "core/message.hpp"
#include "ops/attention/problem.hpp"

#include <array>
#include <cmath>

namespace octet {
namespace {

constexpr std::string_view kOp = "attention";
// One head of one row; a limit against products that overflow.
constexpr std::int64_t kMaxHeadDim = 1 << 16;

void check_heads(const AttentionProblem& problem) {
  check_extent(kOp, "heads_q", problem.heads_q);
  check_extent(kOp, "heads_kv", problem.heads_kv);
  if (problem.heads_q % problem.heads_kv != 0) {
    refuse_argument(kOp, ": heads_q must be a multiple of heads_kv = ", problem.heads_kv, ", got ",
                    problem.heads_q);
  }
  for (const auto& [name, dim] :
       {std::pair<std::string_view, std::int64_t>("dim_qk", problem.dim_qk),
        {"dim_v", problem.dim_v}}) {
    if (dim < 1 || dim > kMaxHeadDim) {
      refuse_argument(kOp, ": ", name, " must be 1 to ", kMaxHeadDim, ", got ", dim);
    }
  }
}

void check_mask(const AttentionMask& mask) {
  for (const auto& [name, reach] :
       {std::pair<std::string_view, std::int64_t>("left", mask.left), {"right", mask.right}}) {
    if (reach < kNoWindow || reach > std::int64_t{1} << 40) {
      refuse_argument(kOp, ": mask.", name, " must be -1 (no limit) or 0 to 2^40 keys, got ",
                      reach);
    }
  }
  if (mask.align != MaskAlignment::bottom_right && mask.align != MaskAlignment::top_left) {
    refuse_argument(kOp, ": mask.align must be bottom_right or top_left, got ",
                    static_cast<std::int32_t>(mask.align));
  }
}

void check_sequences(const AttentionProblem& problem) {
  check_count(kOp, "batch", problem.batch);
  check_count(kOp, "seq_q", problem.seq_q);
  check_count(kOp, "seq_kv", problem.seq_kv);
  check_size(kOp, problem.batch, problem.seq_q, Dtype::f32);
  check_size(kOp, problem.batch, problem.seq_kv, Dtype::f32);
  if (!problem.offsets_dtype) {
    if (problem.total_q != 0 || problem.total_kv != 0) {
      refuse_argument(kOp, ": total_q and total_kv are for sequences with offsets, got ",
                      problem.total_q, " and ", problem.total_kv, " without offsets_dtype");
    }
    return;
  }
  if (*problem.offsets_dtype != Dtype::i32 && *problem.offsets_dtype != Dtype::i64) {
    refuse_argument(kOp, ": offsets_dtype must be i32 or i64, got ", name(*problem.offsets_dtype));
  }
  check_count(kOp, "total_q", problem.total_q);
  check_count(kOp, "total_kv", problem.total_kv);
}

std::int64_t rows_q(const AttentionProblem& problem) {
  return problem.offsets_dtype ? problem.total_q : problem.batch * problem.seq_q;
}
std::int64_t rows_kv(const AttentionProblem& problem) {
  return problem.offsets_dtype ? problem.total_kv : problem.batch * problem.seq_kv;
}

// The tensors of a call.
struct Forms {
  TensorForm q, k, v, out, lse, sink, offsets;

  explicit Forms(const AttentionProblem& p)
      : q(heads(p, p.dtype, true, p.dim_qk, "[batch, seq_q, heads_q, dim_qk]",
                "[total_q, heads_q, dim_qk]")),
        k(heads(p, p.dtype, false, p.dim_qk, "[batch, seq_kv, heads_kv, dim_qk]",
                "[total_kv, heads_kv, dim_qk]")),
        v(heads(p, p.dtype, false, p.dim_v, "[batch, seq_kv, heads_kv, dim_v]",
                "[total_kv, heads_kv, dim_v]")),
        out(heads(p, *p.out_dtype, true, p.dim_v, "[batch, seq_q, heads_q, dim_v]",
                  "[total_q, heads_q, dim_v]")),
        lse(p.offsets_dtype
                ? TensorForm(Dtype::f32, {p.heads_q, p.total_q}, "[heads_q, total_q]")
                : TensorForm(Dtype::f32, {p.batch, p.heads_q, p.seq_q}, "[batch, heads_q, seq_q]")),
        sink(Dtype::f32, {p.heads_q}, "[heads_q]"),
        offsets(p.offsets_dtype.value_or(Dtype::i32), {p.batch + 1}, "[batch + 1]") {}

 private:
  static TensorForm heads(const AttentionProblem& p, Dtype dtype, bool queries, std::int64_t dim,
                          std::string_view spelling, std::string_view packed_spelling) {
    const std::int64_t count = queries ? p.heads_q : p.heads_kv;
    if (p.offsets_dtype) {
      return TensorForm(dtype, {queries ? p.total_q : p.total_kv, count, dim}, packed_spelling);
    }
    return TensorForm(dtype, {p.batch, queries ? p.seq_q : p.seq_kv, count, dim}, spelling);
  }
};

// On a GPU the host does not read them: there they are clamped.
void check_offsets(std::string_view name, const TensorView& offsets, std::int64_t batch,
                   std::int64_t total, std::int64_t longest) {
  if (offset_at(offsets, 0) != 0) {
    refuse_argument(kOp, ": ", name, "[0] must be 0, got ", offset_at(offsets, 0));
  }
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t begin = offset_at(offsets, b), end = offset_at(offsets, b + 1);
    if (end < begin || end > total) {
      refuse_argument(kOp, ": ", name, "[", b + 1, "] must be ", begin, " (the offset before) to ",
                      total, " (the rows), got ", end);
    }
    if (end - begin > longest) {
      refuse_argument(kOp, ": sequence ", b, " has ", end - begin, " rows in ", name,
                      ", the problem allows ", longest);
    }
  }
}

void read_inputs(Call& call, const AttentionProblem& problem, const Forms& forms,
                 AttentionInputs& inputs) {
  call.reads("q", inputs.q, forms.q);
  call.reads("k", inputs.k, forms.k);
  call.reads("v", inputs.v, forms.v);
  call.reads_if(problem.sink, "sink", inputs.sink, forms.sink);
  const bool packed = problem.offsets_dtype.has_value();
  call.reads_if(packed, "offsets_q", inputs.offsets_q, forms.offsets);
  call.reads_if(packed, "offsets_kv", inputs.offsets_kv, forms.offsets);
  if (!packed || problem.device.type != DeviceType::cpu) return;
  check_offsets("offsets_q", inputs.offsets_q, problem.batch, problem.total_q, problem.seq_q);
  check_offsets("offsets_kv", inputs.offsets_kv, problem.batch, problem.total_kv, problem.seq_kv);
}

// Unused views are cleared.
AttentionForwardArgs checked(const AttentionProblem& problem, AttentionForwardArgs args,
                             std::size_t workspace_bytes, const Workspace& workspace) {
  const Forms forms(problem);
  Call call(kOp, problem.device);
  read_inputs(call, problem, forms, args.inputs);
  call.writes("out", args.out, forms.out);
  call.writes_if(args.lse.data != nullptr, "lse", args.lse, forms.lse);
  call.check_apart(workspace_bytes, workspace);
  return args;
}

AttentionBackwardArgs checked(const AttentionProblem& problem, AttentionBackwardArgs args,
                              std::size_t workspace_bytes, const Workspace& workspace) {
  const Forms forms(problem);
  Call call(kOp, problem.device);
  read_inputs(call, problem, forms, args.inputs);
  call.reads("out", args.out, forms.out);
  call.reads("lse", args.lse, forms.lse);
  call.reads("dout", args.dout, forms.out);
  call.reads_if(args.dlse.data != nullptr, "dlse", args.dlse, forms.lse);
  call.writes("dq", args.dq, forms.q);
  call.writes("dk", args.dk, forms.k);
  call.writes("dv", args.dv, forms.v);
  call.writes_if(problem.sink, "dsink", args.dsink, forms.sink);
  call.check_apart(workspace_bytes, workspace);
  return args;
}

Request request_of(const AttentionProblem& problem, const PlanOptions& options) {
  return make_request(kOp, "other", describe(problem), options.backend);
}

std::string describe_mask(const AttentionMask& mask) {
  std::string result;
  const auto reach = [](std::int64_t keys) {
    return keys == kNoWindow ? std::string("all") : std::to_string(keys);
  };
  if (mask.left == kNoWindow && mask.right == 0) {
    result = " --causal";
  } else if (mask.left != kNoWindow || mask.right != kNoWindow) {
    result = text(" --window ", reach(mask.left), ",", reach(mask.right));
  }
  if (mask.align == MaskAlignment::top_left) result += " --align top-left";
  return result;
}

// 1 / sqrt(dim_qk); 0 where there is no such number.
float usual_scale(std::int64_t dim_qk) {
  return dim_qk > 0 ? static_cast<float>(1 / std::sqrt(static_cast<double>(dim_qk))) : 0;
}

// "4096", or "128x4096" where queries and keys differ.
std::string both(std::int64_t q, std::int64_t kv) {
  return q == kv ? std::to_string(q) : text(q, "x", kv);
}

}  // namespace

std::span<const AttentionForwardImplementation> attention_forward_implementations() {
  static const std::array list{kAttentionForwardCudaSm90Wgmma, kAttentionForwardCudnn,
                               kAttentionForwardCudnnNondeterministic, kAttentionForwardCpuSimd,
                               kAttentionForwardCpuReference};
  return list;
}

std::span<const AttentionBackwardImplementation> attention_backward_implementations() {
  static const std::array list{kAttentionBackwardCudaSm90Wgmma, kAttentionBackwardCudnn,
                               kAttentionBackwardCudnnNondeterministic, kAttentionBackwardCpuSimd,
                               kAttentionBackwardCpuReference};
  return list;
}

AttentionProblem completed(const AttentionProblem& problem) {
  AttentionProblem result = problem;
  if (result.dim_v == 0) result.dim_v = result.dim_qk;
  if (!result.out_dtype) result.out_dtype = result.dtype;
  if (result.scale == 0) result.scale = usual_scale(result.dim_qk);
  return result;
}

std::string describe(const AttentionProblem& given) {
  const AttentionProblem problem = completed(given);
  std::string result =
      text("attention --batch ", problem.batch, " --seq ", both(problem.seq_q, problem.seq_kv),
           " --heads ", both(problem.heads_q, problem.heads_kv), " --head-dim ",
           both(problem.dim_qk, problem.dim_v), describe_mask(problem.mask));
  // A problem has one text, whether its defaults are filled in or not: tuning tables are read by it.
  if (problem.scale != usual_scale(problem.dim_qk)) {
    result += " --scale " + exact_text(problem.scale);
  }
  if (problem.sink) result += " --sink";
  if (problem.offsets_dtype) {
    result += text(" --total ", both(problem.total_q, problem.total_kv), " --offsets ",
                   name(*problem.offsets_dtype));
  }
  result += text(" --dtype ", name(problem.dtype));
  if (*problem.out_dtype != problem.dtype) result += text(" --out ", name(*problem.out_dtype));
  if (problem.workspace_limit != AttentionProblem{}.workspace_limit) {
    result += text(" --workspace-limit ", problem.workspace_limit);
  }
  return result + " --device " + name(problem.device);
}

void check(const AttentionProblem& given) {
  const AttentionProblem problem = completed(given);
  check_heads(problem);
  check_sequences(problem);
  check_mask(problem.mask);
  check_float({kOp, "dtype"}, problem.dtype);
  if (*problem.out_dtype != problem.dtype && *problem.out_dtype != Dtype::f32) {
    refuse_argument(kOp, ": out_dtype must be ", name(problem.dtype), " (that of q) or f32, got ",
                    name(*problem.out_dtype));
  }
  if (!std::isfinite(problem.scale)) {
    refuse_argument(kOp, ": scale must be finite, got ", problem.scale);
  }
  for (const std::int64_t dim : {problem.dim_qk, problem.dim_v}) {
    check_size(kOp, problem.heads_q, dim, Dtype::f32);
    check_size(kOp, rows_q(problem), problem.heads_q * dim, Dtype::f32);
    check_size(kOp, rows_kv(problem), problem.heads_kv * dim, Dtype::f32);
  }
  // Implementations count the heads of sequences, of empty ones too.
  check_size(kOp, problem.batch + 1, problem.heads_q, Dtype::f32);
  check_device(kOp, problem.device);
}

AttentionForwardPlan plan_attention_forward(const AttentionProblem& problem,
                                            const PlanOptions& options) {
  check(problem);
  return make_plan<ForwardPass>(attention_forward_implementations(), completed(problem),
                                request_of(problem, options), options);
}

AttentionBackwardPlan plan_attention_backward(const AttentionProblem& problem,
                                              const PlanOptions& options) {
  check(problem);
  return make_plan<BackwardPass>(attention_backward_implementations(), completed(problem),
                                 request_of(problem, options), options);
}

void run(const AttentionForwardPlan& plan, const AttentionForwardArgs& args, Workspace workspace,
         void* stream) {
  check_plan("attention_forward", plan.state.get());
  run_plan(plan, checked(plan.problem, args, plan.workspace_bytes, workspace), workspace, stream);
}

void run(const AttentionBackwardPlan& plan, const AttentionBackwardArgs& args, Workspace workspace,
         void* stream) {
  check_plan("attention_backward", plan.state.get());
  run_plan(plan, checked(plan.problem, args, plan.workspace_bytes, workspace), workspace, stream);
}

}  // namespace octet
