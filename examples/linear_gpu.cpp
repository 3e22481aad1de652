// One FP8 linear layer on a GPU: forward and backward on a stream, then both from a CUDA graph.
// With power-of-two scales small integers are exact in FP8, so the results can be checked by hand.
#include <octet/octet.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cstdio>

// bf16 is the upper half of f32.
static octet::Tensor filled(std::int64_t rows, std::int64_t cols, float value) {
  octet::Tensor tensor(octet::Dtype::bf16, {rows, cols});
  std::fill_n(static_cast<std::uint16_t*>(tensor.data()), rows * cols,
              static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
  return tensor;
}
static float first(const octet::Tensor& tensor) {
  return std::bit_cast<float>(std::uint32_t{*static_cast<std::uint16_t*>(tensor.data())} << 16);
}

int main() {
  if (octet::cuda_device_count() == 0) {
    std::puts("skipped: this machine has no CUDA device");
    return 77;
  }
  const std::int64_t tokens = 256, outputs = 512, inputs = 1024;
  const octet::Tensor host_x = filled(tokens, inputs, 2), host_w = filled(outputs, inputs, 7);
  const octet::Tensor host_dy = filled(tokens, outputs, 1), host_dw = filled(outputs, inputs, 0);
  // clang-format off
  // [readme]
  const octet::Device gpu{octet::DeviceType::cuda, 0};
  const auto on_gpu = [&](std::int64_t rows, std::int64_t cols) {
    return octet::Tensor(octet::Dtype::bf16, {rows, cols}, gpu);
  };
  octet::Fp8Linear layer({.m = tokens, .n = outputs, .k = inputs, .pow2_scales = true, .device = gpu});
  octet::Tensor x = on_gpu(tokens, inputs), w = on_gpu(outputs, inputs), y = on_gpu(tokens, outputs);
  octet::Tensor dy = on_gpu(tokens, outputs), dx = on_gpu(tokens, inputs), dw = on_gpu(outputs, inputs);
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  octet::copy(host_x, x, stream);
  octet::copy(host_w, w, stream);
  octet::copy(host_dy, dy, stream);
  layer.forward(x, w, y, stream);
  layer.backward(dy, dx, dw, stream);
  octet::copy(dw, host_dw, stream);  // waits until dw is there
  // [/readme]
  // clang-format on
  std::printf("dw %g (%s)\n", first(host_dw), layer.backward_plan().configuration.c_str());

  // The same step from a graph, with new activations.
  cudaGraph_t graph;
  cudaGraphExec_t step;
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  layer.forward(x, w, y, stream);
  layer.backward(dy, dx, dw, stream);
  cudaStreamEndCapture(stream, &graph);
  cudaGraphInstantiate(&step, graph, 0);
  octet::copy(filled(tokens, inputs, 3), x, stream);
  cudaGraphLaunch(step, stream);
  const octet::Tensor again = filled(outputs, inputs, 0);
  octet::copy(dw, again, stream);
  std::printf("dw %g from a graph\n", first(again));
  const bool right = first(host_dw) == 2 * tokens && first(again) == 3 * tokens;
  cudaGraphExecDestroy(step);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  return right ? 0 : 1;
}
