// The launches of the kernels that take a pair at a time (cuda_sm90_pairs.cuh).
#pragma once

#include <octet/tensor.hpp>

namespace octet::sm90 {

enum class HeadNorm;
struct RotateCall;
struct RotateBackCall;

void launch_rotate_pairs(const RotateCall& call, HeadNorm norm);
void launch_rotate_pairs_back(const RotateBackCall& call, HeadNorm norm);

}  // namespace octet::sm90
