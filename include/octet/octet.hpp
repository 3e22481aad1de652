// The C++ API. octet/octet.h is the same in plain C.
#pragma once

#include <octet/buffer.hpp>
#include <octet/device.hpp>
#include <octet/dtype.hpp>
#include <octet/error.hpp>
#include <octet/ops/adamw.hpp>
#include <octet/ops/attention.hpp>
#include <octet/ops/dequantize.hpp>
#include <octet/ops/fp8_grouped_linear.hpp>
#include <octet/ops/fp8_linear.hpp>
#include <octet/ops/gated_activation.hpp>
#include <octet/ops/gated_mlp.hpp>
#include <octet/ops/gemm.hpp>
#include <octet/ops/group_table.hpp>
#include <octet/ops/grouped_gemm.hpp>
#include <octet/ops/linear_cross_entropy.hpp>
#include <octet/ops/moe_maps.hpp>
#include <octet/ops/moe_mlp.hpp>
#include <octet/ops/moe_permute.hpp>
#include <octet/ops/moe_route.hpp>
#include <octet/ops/moe_unpermute.hpp>
#include <octet/ops/quantize.hpp>
#include <octet/ops/repack.hpp>
#include <octet/ops/rms_norm.hpp>
#include <octet/ops/rms_norm_rope.hpp>
#include <octet/ops/rope.hpp>
#include <octet/plan.hpp>
#include <octet/quantized.hpp>
#include <octet/tensor.hpp>
#include <octet/tuning.hpp>
#include <octet/version.h>

namespace octet {

// The version of the loaded library, as OCTET_VERSION spells it.
OCTET_API int version() noexcept;

}  // namespace octet
