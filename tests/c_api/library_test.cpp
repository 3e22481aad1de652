// Names, numbers, plans and layouts as a C caller sees them.
#include "bad_input/both_apis.hpp"

namespace octet {
namespace {

TEST(CApi, NamesItsNumbers) {
  EXPECT_EQ(octet_version(), OCTET_VERSION);
  EXPECT_STREQ(octet_status_name(OCTET_OK), "ok");
  EXPECT_STREQ(octet_status_name(OCTET_NO_DEVICE), "no_device");
  EXPECT_STREQ(octet_status_name(-7), "unknown status");
  EXPECT_STREQ(octet_dtype_name(OCTET_UE8M0), "ue8m0");
  EXPECT_STREQ(octet_dtype_name(0), "unknown dtype");
  EXPECT_EQ(octet_dtype_size(OCTET_BF16), 2u);
  EXPECT_EQ(octet_dtype_size(12345), 0u);
  EXPECT_EQ(octet_cuda_device_count(), cuda_device_count());
#ifdef OCTET_TESTS_HAVE_CUDA
  EXPECT_EQ(std::strlen(octet_device_sources("gemm")), 12u);
#else
  EXPECT_STREQ(octet_device_sources("gemm"), "") << "there are no kernels";
#endif
  EXPECT_STREQ(octet_device_sources("gem"), "");
  EXPECT_STREQ(octet_device_sources(nullptr), "");
}

template <class CProblem, class Problem>
void expect_defaults_of(const Problem& cpp, void (*init)(CProblem*)) {
  CProblem c;
  init(&c);
  const CProblem wanted = bad_input::to_c(cpp);
  EXPECT_EQ(std::memcmp(&c, &wanted, sizeof c), 0) << describe(cpp);
}

TEST(CApi, DefaultsAreThoseOfCpp) {
  expect_defaults_of(GemmProblem{}, octet_init_gemm_problem);
  expect_defaults_of(QuantizeProblem{}, octet_init_quantize_problem);
  expect_defaults_of(DequantizeProblem{}, octet_init_dequantize_problem);
  expect_defaults_of(RepackProblem{}, octet_init_repack_problem);
  expect_defaults_of(Fp8LinearProblem{}, octet_init_fp8_linear_problem);
  expect_defaults_of(RmsNormProblem{}, octet_init_rms_norm_problem);
  expect_defaults_of(AttentionProblem{}, octet_init_attention_problem);
  expect_defaults_of(RopeProblem{}, octet_init_rope_problem);
  expect_defaults_of(RmsNormRopeProblem{}, octet_init_rms_norm_rope_problem);
  expect_defaults_of(GatedActivationProblem{}, octet_init_gated_activation_problem);
  expect_defaults_of(GatedMlpProblem{}, octet_init_gated_mlp_problem);
  expect_defaults_of(AdamWProblem{}, octet_init_adamw_problem);
  expect_defaults_of(GroupTableProblem{}, octet_init_group_table_problem);
  expect_defaults_of(GroupedGemmProblem{}, octet_init_grouped_gemm_problem);
  expect_defaults_of(Fp8GroupedLinearProblem{}, octet_init_fp8_grouped_linear_problem);
  expect_defaults_of(MoeRouteProblem{}, octet_init_moe_route_problem);
  expect_defaults_of(MoeMapsProblem{}, octet_init_moe_maps_problem);
  expect_defaults_of(MoeMlpProblem{}, octet_init_moe_mlp_problem);
  expect_defaults_of(MoePermuteProblem{}, octet_init_moe_permute_problem);
  expect_defaults_of(MoeUnpermuteProblem{}, octet_init_moe_unpermute_problem);
  expect_defaults_of(LinearCrossEntropyProblem{}, octet_init_linear_cross_entropy_problem);
}

// The FP8 output is off by default, but its fields are filled in, so that setting `enabled` is
// enough.
TEST(CApi, AnFp8OutputHasTheDefaultsOfCppOnceItIsEnabled) {
  octet_fp8_output c;
  octet_init_fp8_output(&c);
  c.enabled = 1;
  const octet_fp8_output wanted = bad_input::to_c(std::optional(Fp8Output{}));
  EXPECT_EQ(std::memcmp(&c, &wanted, sizeof c), 0);
}

TEST(CApi, APlanTellsWhatItIs) {
  octet_gemm_problem problem;
  octet_init_gemm_problem(&problem);
  problem.m = 512;
  problem.n = 1024;
  problem.k = 768;
  octet_plan_options options;
  OCTET_INIT(&options);
  options.backend = "cpu_reference";
  options.threads = 1;
  octet_plan* plan = nullptr;
  ASSERT_EQ(octet_make_gemm_plan(&problem, &options, &plan), OCTET_OK) << octet_last_error();
  EXPECT_STREQ(octet_plan_implementation(plan), "cpu_reference");
  EXPECT_STREQ(octet_plan_why(plan), "forced by argument");
  EXPECT_STRNE(octet_plan_configuration(plan), "");
  EXPECT_STREQ(octet_plan_problem(plan),
               "gemm --shape 512x1024x768 --a e4m3:1x128 --b e4m3:128x128 --out bf16 --device cpu");
  octet_destroy_plan(plan);
}

void expect_equal(const octet_quantized_layout& c, const QuantizedLayout& cpp) {
  EXPECT_EQ(c.rows, cpp.rows);
  EXPECT_EQ(c.cols, cpp.cols);
  EXPECT_EQ(c.pitch, cpp.pitch);
  EXPECT_EQ(c.scale_shape[0], cpp.scale_shape[0]);
  EXPECT_EQ(c.scale_shape[1], cpp.scale_shape[1]);
  EXPECT_EQ(c.scale_strides[0], cpp.scale_strides[0]);
  EXPECT_EQ(c.scale_strides[1], cpp.scale_strides[1]);
  EXPECT_EQ(c.scales_offset, cpp.scales_offset);
  EXPECT_EQ(c.bytes, cpp.bytes);
}

TEST(CApi, LayoutsAndViewsAreThoseOfCpp) {
  const QuantizedLayout cpp(130, 70, Dtype::e5m2, kBlock128x128);
  octet_quantized_layout c;
  ASSERT_EQ(octet_make_quantized_layout(130, 70, OCTET_E5M2, octet_block_of(128, 128), &c),
            OCTET_OK);
  expect_equal(c, cpp);
  const Buffer memory(cpp.bytes);
  octet_quantized view;
  ASSERT_EQ(octet_make_quantized_view(&c, memory.data(), octet_cpu(), &view), OCTET_OK);
  const octet_quantized wanted = bad_input::to_c(cpp.view(memory.data()));
  EXPECT_EQ(std::memcmp(&view, &wanted, sizeof view), 0);
}

void expect_batch_view(const octet_quantized_batch_layout& c, const QuantizedBatchLayout& cpp) {
  EXPECT_EQ(c.batch, cpp.batch);
  EXPECT_EQ(c.rows, cpp.rows);
  EXPECT_EQ(c.cols, cpp.cols);
  EXPECT_EQ(c.pitch, cpp.pitch);
  EXPECT_EQ(c.scales_offset, cpp.scales_offset);
  EXPECT_EQ(c.bytes, cpp.bytes);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(c.scale_shape[i], cpp.scale_shape[i]);
    EXPECT_EQ(c.scale_strides[i], cpp.scale_strides[i]);
  }
  const Buffer memory(cpp.bytes);
  octet_quantized view;
  ASSERT_EQ(octet_make_quantized_batch_view(&c, memory.data(), octet_cpu(), &view), OCTET_OK);
  const octet_quantized wanted = bad_input::to_c(cpp.view(memory.data()));
  EXPECT_EQ(std::memcmp(&view, &wanted, sizeof view), 0);
}

TEST(CApi, LayoutsAndViewsOfBatchesAreThoseOfCpp) {
  for (const BlockShape block : {kBlock1x128, kBlock128x128}) {
    const octet_block c_block = octet_block_of(block.rows, block.cols);
    octet_quantized_batch_layout c;
    ASSERT_EQ(octet_make_quantized_batch_layout(5, 130, 70, OCTET_E5M2, c_block, &c), OCTET_OK);
    expect_batch_view(c, QuantizedBatchLayout(5, 130, 70, Dtype::e5m2, block));
    ASSERT_EQ(octet_make_token_block_layout(5, 130, OCTET_E4M3, c_block, &c), OCTET_OK);
    expect_batch_view(c, QuantizedBatchLayout::token_blocks(5, 130, Dtype::e4m3, block));
  }
}

// The rank is kept for the operators to refuse; nothing is written beyond the arrays.
TEST(CApi, ADenseTensorOfTooManyDimensionsKeepsItsRank) {
  const std::int64_t shape[] = {2, 3, 4, 5, 6, 7, 8};
  const octet_tensor tensor = octet_dense(shape, OCTET_F32, 7, shape, octet_cuda(3));
  EXPECT_EQ(tensor.rank, 7);
  for (int i = 0; i < OCTET_MAX_RANK; ++i) EXPECT_EQ(tensor.shape[i], shape[i]);
  EXPECT_EQ(tensor.strides[OCTET_MAX_RANK - 1], 1);
  EXPECT_EQ(tensor.data, static_cast<const void*>(shape));
  EXPECT_EQ(tensor.device.type, OCTET_CUDA);
  EXPECT_EQ(tensor.device.index, 3);
}

TEST(CApi, LayoutsOfTheLayerAreThoseOfCpp) {
  Fp8LinearProblem problem{.m = 30, .n = 130, .k = 70, .weights_quantized = true};
  const octet_fp8_linear_problem c = bad_input::to_c(problem);
  octet_fp8_linear_saved_layout saved;
  ASSERT_EQ(octet_make_fp8_linear_saved_layout(&c, &saved), OCTET_OK) << octet_last_error();
  expect_equal(saved.x_t, fp8_linear_saved_layout(problem).x_t);
  EXPECT_EQ(saved.w_t.bytes, 0u) << "weights that come quantised are the caller's";
  octet_fp8_linear_weights_layout weights;
  ASSERT_EQ(octet_make_fp8_linear_weights_layout(&c, &weights), OCTET_OK) << octet_last_error();
  expect_equal(weights.w, fp8_linear_weights_layout(problem).w);
  expect_equal(weights.w_t, fp8_linear_weights_layout(problem).w_t);
}

}  // namespace
}  // namespace octet
