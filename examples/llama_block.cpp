// A whole transformer block in FP8 on the CPU, forward and backward: norm, qkv, rotary embedding,
// attention, projection, norm, gated MLP (llama_block.hpp).
//
//   octet_example_llama_block [FILE.safetensors]
//
// FILE gets every input, result and gradient; python/tests/test_llama_block.py computes them again in
// PyTorch. llama_block_gpu.cpp runs the same block on a GPU.
#include "llama_block.hpp"

int main(int argc, char** argv) {
  const BlockTensors tensors = random_tensors(kSmall);
  Block block(kSmall, octet::kCpu);
  forward(block, tensors, nullptr);
  backward(block, tensors, nullptr);
  if (argc > 1) write(argv[1], tensors);
  std::printf("a block of %lld tokens, forward and backward\n",
              static_cast<long long>(kSmall.tokens()));
  return 0;
}
