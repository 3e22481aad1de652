// The casts and products of grouped linear layers, and the state of fp8_grouped_linear's plans.
#pragma once

#include <octet/ops/fp8_grouped_linear.hpp>
#include <octet/ops/grouped_gemm.hpp>
#include <octet/ops/quantize.hpp>

namespace octet {

// y[T, N] = x w_g^T,  dx[T, K] = dy w_g,  dw[groups, N, K] = dy_g^T x_g
struct GroupedLinearProducts {
  GroupedGemmProblem y;
  GroupedGemmProblem dx;
  GroupedGemmProblem dw;
};

GroupedLinearProducts fp8_products(const Fp8GroupedLinearProblem& layer);
// The same products with operands in the layer's dtype; w_g^T is a view.
GroupedLinearProducts plain_products(const Fp8GroupedLinearProblem& layer);

// The layer that one group has, with all rows.
Fp8LinearProblem dense_layer(const Fp8GroupedLinearProblem& layer);

// x and dy are cast over groups, w is a batch. Copies that backward does not need are not made.
QuantizeProblem cast_of_x(const Fp8GroupedLinearProblem& layer);
QuantizeProblem cast_of_w(const Fp8GroupedLinearProblem& layer);
QuantizeProblem cast_of_dy(const Fp8GroupedLinearProblem& layer);

// The layouts of what these casts write; 0 bytes for copies that they do not make.
struct GroupedCopies {
  QuantizedLayout rows;  // [T, features] 1x128
  QuantizedBatchLayout token_blocks;
};
GroupedCopies copies_of(const QuantizeProblem& cast_over_groups);
Fp8GroupedLinearWeightsLayout weight_copies_of(const QuantizeProblem& cast_of_batch);

// A fixed sequence of quantize and grouped_gemm plans, and where their operands lie in the
// workspace.
struct Fp8GroupedLinearForwardState {
  QuantizePlan quantize_x;
  std::optional<QuantizePlan> quantize_w;
  GroupedGemmPlan product;
  QuantizedLayout x_layout;
  QuantizedBatchLayout w_layout;
};

struct Fp8GroupedLinearBackwardState {
  QuantizePlan quantize_dy;
  std::optional<GroupedGemmPlan> dx_product;
  std::optional<GroupedGemmPlan> dw_product;
  GroupedCopies dy;
};

void check(const Fp8GroupedLinearProblem& problem);
// The same for a layer that is part of another operator. Errors name `op`.
void check_grouped_layer(std::string_view op, const Fp8GroupedLinearProblem& layer);

}  // namespace octet
