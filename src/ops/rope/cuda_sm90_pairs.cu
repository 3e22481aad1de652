// Launches the kernels that take one pair at a time, of rope and of both passes of rms_norm_rope.
#include "ops/rope/cuda_sm90_pairs.cuh"

#include "device/cuda_runtime.hpp"
#include "ops/rope/cuda_sm90_call.cuh"

#include <algorithm>

namespace octet::sm90 {
namespace {

constexpr std::int64_t kBlocksPerMultiprocessor = 16;

PairParams params_of(const RotatedHeads& heads, const RotationArgs& rotation, bool inverse) {
  PairParams params{};
  params.angles = angles_of(heads, rotation, inverse);
  params.seq = heads.seq;
  params.tokens = heads.tokens();
  params.head_dim = static_cast<int>(heads.head_dim);
  params.rotary_dim = static_cast<int>(heads.rotation.rotary_dim);
  params.style = heads.rotation.style;
  params.dtype = heads.dtype;
  return params;
}

// How many elements are normed together, in a tensor with this number of heads.
void set_norms(PairTensor& tensor, std::int64_t heads, std::int64_t head_dim, HeadNorm norm) {
  tensor.heads = static_cast<int>(heads);
  tensor.norms = norm == HeadNorm::head ? tensor.heads : 1;
  const std::int64_t normed = norm == HeadNorm::head ? 1 : heads;
  tensor.one_over_count = 1.0f / static_cast<float>(normed * head_dim);
}

void launch(const void* kernel, PairParams& params, void* stream) {
  void* arguments[] = {&params};
  cuda::launch(
      {kernel, "launch of cuda_sm90_pairs", params.tensors[0].blocks + params.tensors[1].blocks,
       kPairThreads, 0, static_cast<cudaStream_t>(stream)},
      arguments);
}

}  // namespace

void launch_rotate_pairs(const RotateCall& call, HeadNorm norm) {
  PairParams params = params_of(call.heads, call.rotation, call.inverse);
  params.eps = call.eps;
  params.one_plus_weight = call.one_plus_weight;
  for (std::size_t i = 0; i < call.sides.size(); ++i) {
    const RotatedSide& side = call.sides[i];
    PairTensor& tensor = params.tensors[i];
    set_norms(tensor, side.heads, call.heads.head_dim, norm);
    tensor.in = heads_of(side.in);
    tensor.out = heads_of(side.out);
    tensor.g = {side.g.data, side.g.dtype};
    tensor.rstd = static_cast<float*>(side.rstd.data);
    tensor.blocks = static_cast<unsigned>(
        std::min(params.tokens * tensor.norms,
                 kBlocksPerMultiprocessor * cuda::multiprocessors(call.heads.device.index)));
  }
  launch(reinterpret_cast<const void*>(rotate_pairs_kernel), params, call.stream);
}

void launch_rotate_pairs_back(const RotateBackCall& call, HeadNorm norm) {
  PairParams params = params_of(call.heads, call.rotation, true);
  params.one_plus_weight = call.one_plus_weight;
  for (std::size_t i = 0; i < call.sides.size(); ++i) {
    const RotatedBackSide& side = call.sides[i];
    PairTensor& tensor = params.tensors[i];
    set_norms(tensor, side.heads, call.heads.head_dim, norm);
    tensor.in = heads_of(side.dout);
    tensor.x = heads_of(side.x);
    tensor.out = heads_of(side.dx);
    tensor.g = {side.g.data, side.g.dtype};
    tensor.rstd = static_cast<float*>(side.rstd.data);
    tensor.partials = side.partials;
    tensor.blocks = static_cast<unsigned>(side.blocks);
  }
  launch(reinterpret_cast<const void*>(rotate_pairs_back_kernel), params, call.stream);
}

}  // namespace octet::sm90
