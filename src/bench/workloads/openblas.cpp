#include "bench/workloads/openblas.hpp"

#include "bench/workloads/tensors.hpp"
#include "bench/workloads/workload.hpp"
#include "core/message.hpp"
#include "core/numeric.hpp"
#include "cpu/threads.hpp"
#include "dispatch/machine.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace octet::bench {
namespace {

// The constants of CBLAS.
constexpr int kRowMajor = 101;
constexpr int kNoTranspose = 111;
constexpr int kTranspose = 112;

const float* data(const Tensor& tensor) { return static_cast<const float*>(tensor.data()); }

// An f32 copy, and an f32 copy of the transpose.
Tensor widened(const TensorView& from, int threads) {
  Tensor to(Dtype::f32, {from.rows(), from.cols()});
  parallel_for(threads, from.rows(), [&](std::int64_t r) {
    for (std::int64_t c = 0; c < from.cols(); ++c) {
      const std::int64_t index = r * from.strides[0] + c * from.strides[1];
      static_cast<float*>(to.data())[r * from.cols() + c] = load_f32(from.data, index, from.dtype);
    }
  });
  return to;
}

class OpenBlasProducts : public Workload {
 public:
  OpenBlasProducts(const Fp8LinearProblem& problem, const DataOptions& options)
      : problem_(problem),
        options_(options),
        threads_(this_machine(kCpu, options.threads).threads),
        library_(OpenBlas::load()) {
    if (std::max({problem.m, problem.n, problem.k}) > std::numeric_limits<int>::max()) {
      fail(ErrorCode::unsupported, "baseline openblas: M, N and K must be below 2^31");
    }
    calls_ = {{"openblas", library_.configuration()}, {"openblas", library_.configuration()}};
  }

  // Six operands and three results in f32, and the inputs they are made from.
  std::size_t bytes() const override {
    return LayerInputs::bytes(problem_, problem_.dtype) +
           3 * LayerInputs::bytes(problem_, Dtype::f32);
  }

  // One set, four times as large as an FP8 one: whatever stays in the cache favours the peer.
  void allocate(std::int64_t /*uses*/) override {
    const std::vector<LayerInputs> inputs = make_layer_inputs(problem_, options_, 1);
    x_ = widened(inputs[0].x, threads_);
    w_ = widened(inputs[0].w, threads_);
    dy_ = widened(inputs[0].dy, threads_);
    x_t_ = widened(transposed(inputs[0].x), threads_);
    w_t_ = widened(transposed(inputs[0].w), threads_);
    dy_t_ = widened(transposed(inputs[0].dy), threads_);
    y_ = Tensor(Dtype::f32, {problem_.m, problem_.n});
    dx_ = Tensor(Dtype::f32, {problem_.m, problem_.k});
    dw_ = Tensor(Dtype::f32, {problem_.n, problem_.k});
    library_.set_threads(threads_);
  }

  Task task() override {
    return {[this](std::int64_t) { forward(); }, [this](std::int64_t) { backward(); }};
  }

 private:
  void forward() const { multiply(problem_.m, problem_.n, problem_.k, x_, w_, y_, false); }

  void backward() const {
    multiply(problem_.m, problem_.k, problem_.n, dy_, w_t_, dx_, false);
    multiply(problem_.n, problem_.k, problem_.m, dy_t_, x_t_, dw_, problem_.accumulate_dw);
  }

  void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const Tensor& a, const Tensor& b,
                const Tensor& d, bool accumulate) const {
    library_.sgemm_nt(static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), data(a),
                      data(b), static_cast<float*>(d.data()), accumulate);
  }

  Fp8LinearProblem problem_;
  DataOptions options_;
  int threads_;
  const OpenBlas& library_;
  Tensor x_, w_, dy_;        // [M, K], [N, K], [M, N]
  Tensor x_t_, w_t_, dy_t_;  // [K, M], [K, N], [N, M]
  Tensor y_, dx_, dw_;
};

}  // namespace

const OpenBlas& OpenBlas::load() {
  static const OpenBlas library;
  return library;
}

OpenBlas::OpenBlas() {
  // OpenBLAS's threads would spin for 2^26 cycles after every call, on the cores where ours take
  // their turn. 2^4 makes them sleep at once. The variable is read when the library is loaded; a
  // value set by the user wins.
  setenv("OPENBLAS_THREAD_TIMEOUT", "4", 0);
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(ErrorCode::unsupported, "baseline openblas: the library cannot be loaded (", dlerror(),
         "); apt-get install libopenblas0-pthread");
  }
  sgemm_ = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
  set_threads_ = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  if (sgemm_ == nullptr || set_threads_ == nullptr) {
    fail(ErrorCode::unsupported,
         "baseline openblas: libopenblas.so.0 lacks cblas_sgemm or openblas_set_num_threads; "
         "apt-get install libopenblas0-pthread");
  }
  const auto config = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_config"));
  configuration_ = config != nullptr ? config() : "OpenBLAS";
}

void OpenBlas::sgemm_nt(int m, int n, int k, const float* a, const float* b, float* d,
                        bool accumulate) const {
  sgemm_(kRowMajor, kNoTranspose, kTranspose, m, n, k, 1.0f, a, k, b, k, accumulate ? 1.0f : 0.0f,
         d, n);
}

std::unique_ptr<Workload> make_openblas_products(const Fp8LinearProblem& problem,
                                                 const DataOptions& options) {
  return std::make_unique<OpenBlasProducts>(problem, options);
}

}  // namespace octet::bench
