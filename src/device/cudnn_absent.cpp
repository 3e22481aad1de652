// A build without CUDA, or without the headers of cuDNN.
#include "device/cuda_runtime.hpp"

namespace octet::cuda {

void* cudnn_library() { return nullptr; }
int cudnn_version() { return kBuiltWithoutCudnn; }

}  // namespace octet::cuda
