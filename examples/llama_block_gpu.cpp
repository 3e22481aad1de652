// A whole transformer block in FP8 on a GPU (llama_block.hpp): both passes from CUDA graphs.
//
//   octet_example_llama_block_gpu [FILE.safetensors]
//   octet_example_llama_block_gpu --bench [RESULT.csv]    a block of Llama-3.1-8B, 8192 tokens
//
// FILE gets every input, result and gradient, as that of llama_block.cpp. The benchmark times the
// replays of both graphs back to back, on random data.
#include "llama_block.hpp"

#include <octet/bench/timing.hpp>
#include <octet/octet.h>

#include <cuda_runtime_api.h>

#include <cstring>
#include <optional>

constexpr octet::Device kGpu{octet::DeviceType::cuda, 0};
constexpr Shape kLlama{
    .batch = 1, .seq = 8192, .heads = 32, .kv_heads = 8, .head_dim = 128, .hidden = 14336};

static void check(cudaError_t error) {
  if (error != cudaSuccess)
    throw octet::Error(octet::ErrorCode::device_error, cudaGetErrorString(error));
}

// What a function queues on a stream, to be launched many times.
class Graph {
 public:
  template <class Work>
  Graph(cudaStream_t stream, const Work& work) {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    work(stream);
    check(cudaStreamEndCapture(stream, &graph));
    check(cudaGraphInstantiate(&launchable_, graph, 0));
    check(cudaGraphDestroy(graph));
  }
  ~Graph() { cudaGraphExecDestroy(launchable_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(cudaStream_t stream) const { check(cudaGraphLaunch(launchable_, stream)); }

 private:
  cudaGraphExec_t launchable_ = nullptr;
};

// A block on the GPU with its tensors, and a graph for each pass.
class CapturedBlock {
 public:
  CapturedBlock(const Shape& shape, const BlockTensors& host, cudaStream_t stream)
      : tensors_(shape, kGpu), block_(shape, kGpu) {
    for (std::size_t i = 0; i < host.inputs().size(); ++i) {
      octet::copy(*host.inputs()[i].second, *tensors_.inputs()[i].second, stream);
    }
    forward_.emplace(stream, [&](void* on) { forward(block_, tensors_, on); });
    backward_.emplace(stream, [&](void* on) { backward(block_, tensors_, on); });
  }
  const Graph& forward_graph() const { return *forward_; }
  const Graph& backward_graph() const { return *backward_; }
  void copy_results(const BlockTensors& host, cudaStream_t stream) const {
    for (std::size_t i = 0; i < host.results().size(); ++i) {
      octet::copy(*tensors_.results()[i].second, *host.results()[i].second, stream);
    }
  }

 private:
  BlockTensors tensors_;
  Block block_;
  std::optional<Graph> forward_, backward_;
};

// The digests of the kernels that a block runs, as `octet doctor` prints them.
static std::string kernels() {
  std::string all;
  for (const char* op : {"attention", "fp8_linear", "gated_mlp", "rms_norm", "rope"}) {
    all += (all.empty() ? "" : " ") + std::string(op) + ":" + octet_device_sources(op);
  }
  return all;
}

static void bench(const char* path) {
  octet::bench::DeviceTiming timing(kGpu);
  const auto stream = static_cast<cudaStream_t>(timing.stream());
  const BlockTensors host = random_tensors(kLlama);
  const CapturedBlock block(kLlama, host, stream);
  const octet::bench::Samples times =
      timing.measure({[&](std::int64_t) { block.forward_graph().launch(stream); },
                      [&](std::int64_t) { block.backward_graph().launch(stream); }},
                     {.seconds = 5});
  cudaDeviceProp gpu{};
  check(cudaGetDeviceProperties(&gpu, 0));
  const octet::bench::GpuReading reading = times.gpu.value_or(octet::bench::GpuReading{});
  std::FILE* file = path == nullptr ? stdout : std::fopen(path, "w");
  if (file == nullptr)
    throw octet::Error(octet::ErrorCode::file_error, "cannot write " + std::string(path));
  std::fprintf(file,
               "GPU,Model,Tokens,Forward (ms),Backward (ms),Spread (%%),Clock (MHz),Power (W),"
               "Kernels,Command\n"
               "%s,Llama-3.1-8B,%lld,%.4f,%.4f,%.2f,%.0f,%.0f,%s,%s\n",
               gpu.name, static_cast<long long>(kLlama.tokens()), times.median_seconds(0) * 1e3,
               times.median_seconds(1) * 1e3, times.spread() * 1e2, reading.clock_mhz,
               reading.power_w, kernels().c_str(), "octet_example_llama_block_gpu --bench");
  if (file != stdout) std::fclose(file);
}

static void run_small(const char* path) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream));
  const BlockTensors host = random_tensors(kSmall);
  {
    const CapturedBlock block(kSmall, host, stream);
    for (int replay = 0; replay < 2; ++replay) {
      block.forward_graph().launch(stream);
      block.backward_graph().launch(stream);
    }
    block.copy_results(host, stream);
  }
  check(cudaStreamDestroy(stream));
  if (path != nullptr) write(path, host);
  std::printf("a block of %lld tokens, forward and backward, from graphs\n",
              static_cast<long long>(kSmall.tokens()));
}

int main(int argc, char** argv) {
  if (octet::cuda_device_count() == 0) {
    std::puts("skipped: this machine has no CUDA device");
    return 77;
  }
  try {
    const bool benchmark = argc > 1 && std::strcmp(argv[1], "--bench") == 0;
    if (benchmark) {
      bench(argc > 2 ? argv[2] : nullptr);
    } else {
      run_small(argc > 1 ? argv[1] : nullptr);
    }
  } catch (const octet::Error& error) {
    std::fprintf(stderr, "llama_block_gpu: %s\n", error.what());
    return 1;
  }
  return 0;
}
