// Streams and graphs of the CUDA runtime, for tests. A build without CUDA compiles them but never
// creates one, because its tests skip.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#ifdef OCTET_TESTS_HAVE_CUDA  // set by tests/CMakeLists.txt if the build has CUDA
#include <cuda_runtime_api.h>
#endif

namespace octet::testing {

#ifdef OCTET_TESTS_HAVE_CUDA

inline void check_cuda(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

class Stream {
 public:
  Stream() { check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { (void)cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void* handle() const { return stream_; }
  void synchronize() const { check_cuda(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

// Captures what `work` puts on a stream, without running it. In global mode, any allocation or
// synchronisation fails the capture.
class Graph {
 public:
  Graph(const Stream& stream, const std::function<void(void*)>& work) {
    const auto handle = static_cast<cudaStream_t>(stream.handle());
    check_cuda(cudaStreamBeginCapture(handle, cudaStreamCaptureModeGlobal));
    try {
      work(stream.handle());
    } catch (...) {
      cudaGraph_t broken = nullptr;
      (void)cudaStreamEndCapture(handle, &broken);
      throw;
    }
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamEndCapture(handle, &graph));
    const cudaError_t status = cudaGraphInstantiate(&graph_, graph, 0);
    (void)cudaGraphDestroy(graph);
    check_cuda(status);
  }
  ~Graph() { (void)cudaGraphExecDestroy(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(const Stream& stream) const {
    check_cuda(cudaGraphLaunch(graph_, static_cast<cudaStream_t>(stream.handle())));
  }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

#else

class Stream {
 public:
  Stream() { throw std::runtime_error("this build has no CUDA"); }
  void* handle() const { return nullptr; }
  void synchronize() const {}
};

class Graph {
 public:
  Graph(const Stream&, const std::function<void(void*)>&) {}
  void launch(const Stream&) const {}
};

#endif

}  // namespace octet::testing
