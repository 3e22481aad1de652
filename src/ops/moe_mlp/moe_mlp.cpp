// The problem, its parts, what forward saves, and the convenience class.
#include "core/checks.hpp"
#include "core/message.hpp"
#include "core/workspace.hpp"
#include "ops/fp8_linear/parts.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/gated_activation/problem.hpp"
#include "ops/group_table/problem.hpp"
#include "ops/grouped_gemm/problem.hpp"
#include "ops/moe_maps/problem.hpp"
#include "ops/moe_mlp/parts.hpp"
#include "ops/moe_route/problem.hpp"

#include <algorithm>

namespace octet {
namespace {

constexpr std::string_view kOp = "moe_mlp";

const MoeMlpProblem& training_problem(const MoeMlpProblem& problem) {
  check_trains(kOp, "MoeMlp", problem.training, problem.weights_quantized);
  if (!problem.routing) refuse_argument(kOp, ": MoeMlp needs routing; plans take given indices");
  return problem;
}

Fp8GroupedLinearProblem layer_of(const MoeMlpProblem& problem, std::int64_t n, std::int64_t k) {
  Fp8GroupedLinearProblem layer;
  layer.groups = groups_of(problem);
  layer.rows = buffer_rows(problem);
  layer.n = n;
  layer.k = k;
  layer.dtype = problem.dtype;
  layer.format = problem.format;
  layer.grad_format = problem.grad_format;
  layer.weights_quantized = problem.weights_quantized;
  layer.training = problem.training;
  layer.need_dx = problem.need_dx;
  layer.need_dw = problem.need_dw;
  layer.dw_dtype = problem.dw_dtype;
  layer.accumulate_dw = problem.accumulate_dw;
  layer.wgrad_blocks = problem.wgrad_blocks;
  layer.amax_floor = problem.amax_floor;
  layer.pow2_scales = problem.pow2_scales;
  layer.tail = GroupTail::untouched;  // only rows of groups are read again
  layer.expected_rows = problem.expected_rows;
  layer.max_multiprocessors = problem.max_multiprocessors;
  layer.device = problem.device;
  return layer;
}

QuantizeProblem gathered(const MoeMlpProblem& problem, QuantizeProblem cast) {
  cast.source_rows = problem.tokens;
  cast.source_top_k = problem.top_k;
  return cast;
}

GatedActivationProblem activation_of(const MoeMlpProblem& problem, const QuantizeProblem& cast) {
  GatedActivationProblem activation;
  activation.rows = buffer_rows(problem);
  activation.cols = problem.f;
  activation.dtype = problem.dtype;
  activation.activation = problem.activation;
  activation.row_weight = true;
  activation.fp8 = options_of(cast);
  activation.groups = groups_of(problem);
  activation.tail = GroupTail::untouched;
  activation.device = problem.device;
  return activation;
}

// Hands out the pieces of one memory that has all that is saved; null for a null memory.
class SavedPieces {
 public:
  SavedPieces(void* memory, Device device) : memory_(memory), device_(device) {}

  TensorView tensor(Dtype dtype, std::initializer_list<std::int64_t> shape) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : shape) elements *= extent;
    return make_view(take(static_cast<std::size_t>(elements * size_bytes(dtype))), dtype, shape,
                     device_);
  }
  QuantizedView quantized(const QuantizedBatchLayout& layout) {
    if (layout.bytes == 0) return {};
    void* const piece = take(layout.bytes);
    return memory_ == nullptr ? QuantizedView() : layout.view(piece, device_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void* take(std::size_t bytes) {
    void* const piece = memory_ == nullptr ? nullptr : static_cast<char*>(memory_) + bytes_;
    bytes_ += aligned_bytes(bytes);
    return piece;
  }

  void* memory_;
  Device device_;
  std::size_t bytes_ = 0;
};

MoeMlpSaved carve(const MoeMlpProblem& problem, SavedPieces& pieces) {
  const std::int64_t groups = groups_of(problem);
  const std::int64_t rows = buffer_rows(problem);
  MoeMlpSaved saved;
  if (problem.routing) {
    saved.scores = pieces.tensor(Dtype::f32, {problem.tokens, problem.experts});
    saved.indices = pieces.tensor(Dtype::i32, {problem.tokens, problem.top_k});
  }
  saved.row_of = pieces.tensor(Dtype::i32, {problem.tokens, problem.top_k});
  saved.source = pieces.tensor(Dtype::i32, {rows});
  saved.sizes = pieces.tensor(Dtype::i32, {groups});
  saved.table = pieces.tensor(Dtype::i32, {group_table_words(groups, rows)});
  saved.status = pieces.tensor(Dtype::i32, {kMoeMapsStatusWords});
  saved.row_weight = pieces.tensor(Dtype::f32, {rows});
  saved.gate_up = pieces.tensor(problem.dtype, {rows, 2 * problem.f});
  if (!problem.training) return saved;
  const Fp8GroupedLinearSavedLayout gate_up =
      fp8_grouped_linear_saved_layout(gate_up_layer(problem));
  const Fp8GroupedLinearSavedLayout down = fp8_grouped_linear_saved_layout(down_layer(problem));
  saved.x_t = pieces.quantized(gate_up.x_t);
  saved.w_gate_up_t = pieces.quantized(gate_up.w_t);
  saved.h_t = pieces.quantized(down.x_t);
  saved.w_down_t = pieces.quantized(down.w_t);
  return saved;
}

std::string describe_routing(const MoeMlpProblem& problem) {
  if (!problem.routing) return " --given-experts";
  const MoeRouting& routing = *problem.routing;
  std::string result;
  if (routing.dtype != Dtype::f32) result += text(" --logits ", name(routing.dtype));
  if (routing.score == RouteScore::sigmoid) result += " --score sigmoid";
  if (routing.bias) result += " --bias";
  if (routing.expert_groups != 1) {
    result += text(" --expert-groups ", routing.expert_groups, " --top-groups ", routing.top_groups,
                   " --group-score ",
                   routing.group_score == ExpertGroupScore::best ? "best" : "best_two");
  }
  if (!routing.normalize) result += " --no-normalize";
  if (routing.scale != 1) result += " --scale " + exact_text(routing.scale);
  return result;
}

}  // namespace

Fp8GroupedLinearProblem gate_up_layer(const MoeMlpProblem& problem) {
  return layer_of(problem, 2 * problem.f, problem.k);
}

Fp8GroupedLinearProblem down_layer(const MoeMlpProblem& problem) {
  Fp8GroupedLinearProblem layer = layer_of(problem, problem.k, problem.f);
  layer.need_dx = problem.need_dx || problem.need_dw;
  return layer;
}

MoeRouteProblem route_of(const MoeMlpProblem& problem) {
  const MoeRouting& routing = *problem.routing;
  MoeRouteProblem route;
  route.tokens = problem.tokens;
  route.experts = problem.experts;
  route.top_k = problem.top_k;
  route.dtype = routing.dtype;
  route.score = routing.score;
  route.bias = routing.bias;
  route.expert_groups = routing.expert_groups;
  route.top_groups = routing.top_groups;
  route.group_score = routing.group_score;
  route.normalize = routing.normalize;
  route.scale = routing.scale;
  route.device = problem.device;
  return route;
}

MoeMapsProblem maps_of(const MoeMlpProblem& problem) {
  MoeMapsProblem maps;
  maps.tokens = problem.tokens;
  maps.top_k = problem.top_k;
  maps.experts = problem.experts;
  maps.first_expert = problem.first_expert;
  maps.groups = groups_of(problem);
  maps.rows = buffer_rows(problem);
  maps.capacity = problem.capacity;
  maps.device = problem.device;
  return maps;
}

MoePermuteProblem weights_to_rows(const MoeMlpProblem& problem) {
  MoePermuteProblem permute;
  permute.tokens = problem.tokens * problem.top_k;
  permute.top_k = 1;
  permute.rows = buffer_rows(problem);
  permute.cols = 1;
  permute.dtype = Dtype::f32;
  permute.tail = GroupTail::untouched;
  permute.device = problem.device;
  return permute;
}

MoeUnpermuteProblem rows_to_tokens(const MoeMlpProblem& problem) {
  MoeUnpermuteProblem unpermute;
  unpermute.tokens = problem.tokens;
  unpermute.top_k = problem.top_k;
  unpermute.rows = buffer_rows(problem);
  unpermute.cols = problem.k;
  unpermute.dtype = problem.dtype;
  unpermute.device = problem.device;
  return unpermute;
}

QuantizeProblem gather_x(const MoeMlpProblem& problem) {
  return gathered(problem, cast_of_x(gate_up_layer(problem)));
}
QuantizeProblem gather_dy(const MoeMlpProblem& problem) {
  return gathered(problem, cast_of_dy(down_layer(problem)));
}
GatedActivationProblem activation_forward(const MoeMlpProblem& problem) {
  return activation_of(problem, cast_of_x(down_layer(problem)));
}
GatedActivationProblem activation_backward(const MoeMlpProblem& problem) {
  return activation_of(problem, cast_of_dy(gate_up_layer(problem)));
}

void check(const MoeMlpProblem& problem) {
  check_extent(kOp, "tokens", problem.tokens);
  check_extent(kOp, "F", problem.f);
  check_extent(kOp, "K", problem.k);
  if (problem.experts < 1 || problem.experts > kMaxExperts) {
    refuse_argument(kOp, ": experts must be 1 to ", kMaxExperts, ", got ", problem.experts);
  }
  check_slots(kOp, problem.tokens, problem.top_k, std::max<std::int64_t>(problem.rows, 1));
  check_count(kOp, "rows", problem.rows);
  check_count(kOp, "capacity", problem.capacity);
  check_count(kOp, "local_experts", problem.local_experts);
  if (problem.first_expert < 0 || problem.first_expert > problem.experts - groups_of(problem)) {
    refuse_argument(kOp, ": first_expert and local_experts must lie within the ", problem.experts,
                    " experts, got ", problem.first_expert, " and ", problem.local_experts);
  }
  check_activation(kOp, problem.activation);
  check_size(kOp, 2, problem.f, Dtype::f32);  // so that 2F does not overflow
  check_grouped_layer(kOp, gate_up_layer(problem));
  check_grouped_layer(kOp, down_layer(problem));
  check_size(kOp, problem.tokens, problem.k, Dtype::f32);
  if (problem.routing) check(route_of(problem));
  check(maps_of(problem));
}

std::string describe(const MoeMlpProblem& problem) {
  std::string result =
      text("moe-mlp --shape ", problem.tokens, "x", problem.f, "x", problem.k, " --experts ",
           problem.experts, " --top-k ", problem.top_k, " --dtype fp8", describe_routing(problem));
  if (problem.first_expert != 0) result += text(" --first-expert ", problem.first_expert);
  if (problem.local_experts != 0) result += text(" --local-experts ", problem.local_experts);
  if (problem.rows != 0) result += text(" --rows ", problem.rows);
  if (problem.capacity != 0) result += text(" --capacity ", problem.capacity);
  result += text(" --activation ", name(problem.activation));
  if (problem.dtype != Dtype::bf16) result += text(" --input ", name(problem.dtype));
  if (problem.format != Dtype::e4m3) result += text(" --format ", name(problem.format));
  if (problem.grad_format != Dtype::e4m3) {
    result += text(" --grad-format ", name(problem.grad_format));
  }
  result += text(" --wgrad-blocks ", problem.wgrad_blocks == WgradBlocks::square ? "2d" : "1d");
  if (problem.dw_dtype != Dtype::bf16) result += text(" --dw ", name(problem.dw_dtype));
  if (problem.accumulate_dw) result += " --accumulate-dw";
  if (problem.weights_quantized) result += " --weights-quantized";
  if (problem.amax_floor != 0) result += " --amax-floor " + exact_text(problem.amax_floor);
  if (problem.pow2_scales) result += " --pow2-scales";
  if (problem.expected_rows != 0) result += text(" --expected-rows ", problem.expected_rows);
  if (problem.max_multiprocessors != 0) {
    result += text(" --max-multiprocessors ", problem.max_multiprocessors);
  }
  return result + " --device " + name(problem.device);
}

MoeMlpSavedLayout moe_mlp_saved_layout(const MoeMlpProblem& problem) {
  check(problem);
  SavedPieces pieces(nullptr, problem.device);
  (void)carve(problem, pieces);
  return {problem, pieces.bytes()};
}

MoeMlpSaved MoeMlpSavedLayout::view(void* memory) const {
  SavedPieces pieces(memory, problem.device);
  return carve(problem, pieces);
}

MoeMlp::MoeMlp(const MoeMlpProblem& problem, const Fp8LinearOptions& options,
               const Allocator& allocator)
    : forward_(plan_moe_mlp_forward(training_problem(problem), options)),
      backward_(plan_moe_mlp_backward(problem, options)),
      saved_(moe_mlp_saved_layout(problem).bytes, problem.device, allocator),
      workspace_(std::max(forward_.workspace_bytes, backward_.workspace_bytes), problem.device,
                 allocator) {}

MoeMlpSaved MoeMlp::saved() const {
  return MoeMlpSavedLayout{forward_.problem, saved_.bytes()}.view(saved_.data());
}

void MoeMlp::forward(const TensorView& x, const TensorView& logits, const TensorView& bias,
                     const TensorView& w_gate_up, const TensorView& w_down, const TensorView& y,
                     void* stream) {
  MoeMlpForwardArgs args;
  args.x = x;
  args.logits = logits;
  args.bias = bias;
  args.w_gate_up = w_gate_up;
  args.w_down = w_down;
  args.y = y;
  args.saved = saved();
  run(forward_, args, {workspace_.data(), workspace_.bytes()}, stream);
  has_saved_ = true;
}

void MoeMlp::backward(const TensorView& dy, const TensorView& dx, const TensorView& dlogits,
                      const TensorView& dw_gate_up, const TensorView& dw_down, void* stream) {
  check_has_saved(kOp, has_saved_);
  MoeMlpBackwardArgs args;
  args.dy = dy;
  args.saved = saved();
  args.dx = dx;
  args.dlogits = dlogits;
  args.dw_gate_up = dw_gate_up;
  args.dw_down = dw_down;
  run(backward_, args, {workspace_.data(), workspace_.bytes()}, stream);
}

}  // namespace octet
