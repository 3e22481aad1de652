// Checks every argument of a call before anything is written.
#include "core/call.hpp"
#include "core/message.hpp"
#include "core/views.hpp"
#include "ops/group_table/problem.hpp"
#include "ops/moe_mlp/parts.hpp"

namespace octet {
namespace {

constexpr std::string_view kForward = "moe_mlp_forward";
constexpr std::string_view kBackward = "moe_mlp_backward";

void check_dense(std::string_view op, std::string_view name, const TensorView& view) {
  if (!is_dense(view)) {
    refuse_argument(op, ": ", name, " must be contiguous, got ", describe(view));
  }
}

// Slots are also read as a matrix of one column.
template <class List>
void list_slots(std::string_view op, std::string_view name, TensorView& view,
                const TensorForm& form, const List& list) {
  list(name, view, form);
  check_dense(op, name, view);
}

void check_words(std::string_view op, std::string_view name, const TensorView& view) {
  check_dense(op, name, view);
  if (reinterpret_cast<std::uintptr_t>(view.data) % 16 != 0) {
    refuse_argument(op, ": ", name, " must start on a 16-byte boundary, got address ", view.data);
  }
}

QuantizedBatchForm form_of(const QuantizedBatchLayout& layout, std::string_view spelling) {
  return {layout.dtype, layout.batch, layout.rows, layout.cols, layout.block, spelling};
}

QuantizedBatchLayout weights_layout(const Fp8GroupedLinearProblem& layer) {
  return fp8_grouped_linear_weights_layout(layer).w;
}
// The transposed weights that backward reads: saved, or the caller's own.
QuantizedBatchLayout transposed_weights(const Fp8GroupedLinearProblem& layer) {
  return layer.need_dx ? fp8_grouped_linear_weights_layout(layer).w_t : QuantizedBatchLayout();
}

struct Forms {
  TensorForm slots, slot_weights, scores, logits;
  MatrixForm tokens;

  explicit Forms(const MoeMlpProblem& problem)
      : slots(Dtype::i32, {problem.tokens, problem.top_k}, "[tokens, top_k]"),
        slot_weights(Dtype::f32, {problem.tokens, problem.top_k}, "[tokens, top_k]"),
        scores(Dtype::f32, {problem.tokens, problem.experts}, "[tokens, experts]"),
        logits(problem.routing.value_or(MoeRouting{}).dtype, {problem.tokens, problem.experts},
               "[tokens, experts]"),
        tokens{problem.dtype, problem.tokens, problem.k, "[tokens, K]"} {}
};

// Lists what is saved: list(name, view, form), list_quantized(name, view, layout, spelling).
template <class List, class ListQuantized>
void list_saved(std::string_view op, const MoeMlpProblem& problem, const Forms& forms,
                MoeMlpSaved& saved, const List& list, const ListQuantized& list_quantized) {
  const std::int64_t rows = buffer_rows(problem);
  if (problem.routing) {
    list("saved.scores", saved.scores, forms.scores);
    list("saved.indices", saved.indices, forms.slots);
  } else {
    saved.scores = saved.indices = {};
  }
  list_slots(op, "saved.row_of", saved.row_of, forms.slots, list);
  list("saved.source", saved.source, TensorForm(Dtype::i32, {rows}, "[rows]"));
  list("saved.table", saved.table,
       TensorForm(Dtype::i32, {group_table_words(groups_of(problem), rows)},
                  "[group_table_words(experts, rows)]"));
  check_words(op, "saved.table", saved.table);
  list("saved.row_weight", saved.row_weight, TensorForm(Dtype::f32, {rows}, "[rows]"));
  list("saved.gate_up", saved.gate_up,
       MatrixForm{problem.dtype, rows, 2 * problem.f, "[rows, 2F]"});
  const Fp8GroupedLinearSavedLayout gate_up =
      fp8_grouped_linear_saved_layout(gate_up_layer(problem));
  const Fp8GroupedLinearSavedLayout down = fp8_grouped_linear_saved_layout(down_layer(problem));
  list_quantized("saved.x_t", saved.x_t, gate_up.x_t, "[max_token_blocks(experts, rows), K, 128]");
  list_quantized("saved.h_t", saved.h_t, down.x_t, "[max_token_blocks(experts, rows), F, 128]");
}

// On the CPU, reads what forward is said to have saved before anything is written: the parts take
// the maps as they are.
void check_maps(const MoeMlpProblem& problem, const MoeMlpSaved& saved) {
  if (problem.device.type != DeviceType::cpu) return;
  const GroupRows groups(kBackward, saved.table, groups_of(problem), buffer_rows(problem));
  const auto* source = static_cast<const std::int32_t*>(saved.source.data);
  const std::int64_t slots = problem.tokens * problem.top_k;
  for (std::int64_t r = 0; r < groups.grouped_rows(); ++r) {
    if (source[r] >= 0 && source[r] < slots) continue;
    refuse_argument(kBackward, ": saved.source[", r, "] must be 0 to ", slots - 1, ", got ",
                    source[r]);
  }
}

}  // namespace

MoeMlpForwardArgs check_call(const MoeMlpForwardPlan& plan, MoeMlpForwardArgs args,
                             const Workspace& workspace) {
  const MoeMlpProblem& problem = plan.problem;
  const Fp8GroupedLinearProblem gate_up = gate_up_layer(problem);
  const Fp8GroupedLinearProblem down = down_layer(problem);
  const Forms forms(problem);
  const bool routes = problem.routing.has_value();
  Call call(kForward, problem.device);
  call.reads("x", args.x, forms.tokens);
  call.reads_if(routes, "logits", args.logits, forms.logits);
  call.reads_if(routes && problem.routing->bias, "bias", args.bias,
                TensorForm(Dtype::f32, {problem.experts}, "[experts]"));
  call.reads_if(!routes, "indices", args.indices, forms.slots);
  call.reads_if(!routes, "weights", args.weights, forms.slot_weights);
  if (!routes) check_dense(kForward, "weights", args.weights);
  if (problem.weights_quantized) {
    call.reads("experts.gate_up.w", args.experts.gate_up.w,
               form_of(weights_layout(gate_up), "[experts, 2F, K]"));
    call.reads("experts.down.w", args.experts.down.w,
               form_of(weights_layout(down), "[experts, K, F]"));
  } else {
    call.reads(
        "w_gate_up", args.w_gate_up,
        TensorForm(problem.dtype, {gate_up.groups, gate_up.n, gate_up.k}, "[experts, 2F, K]"));
    call.reads("w_down", args.w_down,
               TensorForm(problem.dtype, {down.groups, down.n, down.k}, "[experts, K, F]"));
  }
  call.writes("y", args.y, forms.tokens);
  if (problem.training) {
    MoeMlpSaved& saved = args.saved;
    const auto writes = [&](std::string_view name, auto& view, const auto& form) {
      call.writes(name, view, form);
    };
    const auto writes_layout = [&](std::string_view name, QuantizedView& view,
                                   const QuantizedBatchLayout& layout, std::string_view spelling) {
      call.writes_if(layout.bytes != 0, name, view, form_of(layout, spelling));
    };
    list_saved(kForward, problem, forms, saved, writes, writes_layout);
    call.writes("saved.sizes", saved.sizes, TensorForm(Dtype::i32, {gate_up.groups}, "[experts]"));
    call.writes("saved.status", saved.status,
                TensorForm(Dtype::i32, {kMoeMapsStatusWords}, "[kMoeMapsStatusWords]"));
    check_words(kForward, "saved.status", saved.status);
    writes_layout("saved.w_gate_up_t", saved.w_gate_up_t,
                  fp8_grouped_linear_saved_layout(gate_up).w_t, "[experts, K, 2F]");
    writes_layout("saved.w_down_t", saved.w_down_t, fp8_grouped_linear_saved_layout(down).w_t,
                  "[experts, F, K]");
  }
  call.check_apart(plan.workspace_bytes, workspace);
  return args;
}

MoeMlpBackwardArgs check_call(const MoeMlpBackwardPlan& plan, MoeMlpBackwardArgs args,
                              const Workspace& workspace) {
  const MoeMlpProblem& problem = plan.problem;
  const Fp8GroupedLinearProblem gate_up = gate_up_layer(problem);
  const Fp8GroupedLinearProblem down = down_layer(problem);
  const Forms forms(problem);
  const bool routes = problem.routing.has_value();
  Call call(kBackward, problem.device);
  call.reads("dy", args.dy, forms.tokens);
  call.reads_if(routes && args.dscores.data != nullptr, "dscores", args.dscores, forms.scores);
  const auto reads = [&](std::string_view name, auto& view, const auto& form) {
    call.reads(name, view, form);
  };
  const auto reads_layout = [&](std::string_view name, QuantizedView& view,
                                const QuantizedBatchLayout& layout, std::string_view spelling) {
    call.reads_if(layout.bytes != 0, name, view, form_of(layout, spelling));
  };
  list_saved(kBackward, problem, forms, args.saved, reads, reads_layout);
  reads_layout("saved.w_gate_up_t", args.saved.w_gate_up_t, transposed_weights(gate_up),
               "[experts, K, 2F]");
  reads_layout("saved.w_down_t", args.saved.w_down_t, transposed_weights(down), "[experts, F, K]");
  call.writes_if(problem.need_dx, "dx", args.dx, forms.tokens);
  call.writes_if(routes, "dlogits", args.dlogits, forms.logits);
  call.writes_if(!routes, "dweights", args.dweights, forms.slot_weights);
  if (!routes) check_dense(kBackward, "dweights", args.dweights);
  call.writes_if(
      problem.need_dw, "dw_gate_up", args.dw_gate_up,
      TensorForm(problem.dw_dtype, {gate_up.groups, gate_up.n, gate_up.k}, "[experts, 2F, K]"));
  call.writes_if(problem.need_dw, "dw_down", args.dw_down,
                 TensorForm(problem.dw_dtype, {down.groups, down.n, down.k}, "[experts, K, F]"));
  call.check_apart(plan.workspace_bytes, workspace);
  check_maps(problem, args.saved);
  return args;
}

}  // namespace octet
