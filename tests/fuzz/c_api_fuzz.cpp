// Drives the C API with arbitrary problems and tensors, one operator per input.
#include "fuzz/c_api_adamw.hpp"
#include "fuzz/c_api_attention.hpp"
#include "fuzz/c_api_casts.hpp"
#include "fuzz/c_api_cross_entropy.hpp"
#include "fuzz/c_api_elements.hpp"
#include "fuzz/c_api_groups.hpp"
#include "fuzz/c_api_heads.hpp"
#include "fuzz/c_api_mlp.hpp"
#include "fuzz/c_api_moe.hpp"
#include "fuzz/c_api_products.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace octet::fuzz;
  Memory memory;
  Input input(data, size, memory.arena());
  switch (input.choice(23)) {
    case 0: fuzz_quantize(input, memory); break;
    case 1: fuzz_dequantize(input, memory); break;
    case 2: fuzz_repack(input, memory); break;
    case 3: fuzz_gemm(input, memory); break;
    case 4: fuzz_layer(input, memory); break;
    case 5: fuzz_layout(input, memory); break;
    case 6: fuzz_rms_norm(input, memory); break;
    case 7: fuzz_gated_activation(input, memory); break;
    case 8: fuzz_rope(input, memory); break;
    case 9: fuzz_rms_norm_rope(input, memory); break;
    case 10: fuzz_linear_cross_entropy(input, memory); break;
    case 11: fuzz_adamw(input, memory); break;
    case 12: fuzz_group_table(input, memory); break;
    case 13: fuzz_quantize_groups(input, memory); break;
    case 14: fuzz_grouped_gemm(input, memory); break;
    case 15: fuzz_moe_route(input, memory); break;
    case 16: fuzz_moe_maps(input, memory); break;
    case 17: fuzz_moe_permute(input, memory); break;
    case 18: fuzz_moe_unpermute(input, memory); break;
    case 19: fuzz_grouped_layer(input, memory); break;
    case 20: fuzz_moe_mlp(input, memory); break;
    case 21: fuzz_attention(input, memory); break;
    default: fuzz_gated_mlp(input, memory); break;
  }
  return 0;
}
