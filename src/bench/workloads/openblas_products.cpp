#include "bench/workloads/openblas.hpp"
#include "bench/workloads/workload.hpp"
#include "core/message.hpp"
#include "core/numeric.hpp"
#include "cpu/threads.hpp"
#include "dispatch/machine.hpp"

#include <algorithm>
#include <limits>

namespace octet::bench {
namespace {

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
  OpenBlasProducts(const LayerShape& shape, Dtype dtype, bool accumulate_dw,
                   const WorkloadOptions& options)
      : shape_(shape),
        dtype_(dtype),
        accumulate_dw_(accumulate_dw),
        options_(options),
        threads_(this_machine(kCpu, options.threads).threads),
        library_(OpenBlas::load()) {
    if (std::max({shape.m, shape.n, shape.k}) > std::numeric_limits<int>::max()) {
      fail(ErrorCode::unsupported, "baseline openblas: M, N and K must be below 2^31");
    }
    implementation_ = "openblas";
    configuration_ = library_.configuration();
  }

  // Six operands and three results in f32, and the inputs they are made of.
  std::size_t bytes() const override {
    return LayerInputs::bytes(shape_, dtype_) + 3 * LayerInputs::bytes(shape_, Dtype::f32);
  }

  // One set, four times as big as an FP8 one: what stays in the cache helps the peer.
  void allocate(std::int64_t /*uses*/) override {
    const std::vector<LayerInputs> inputs = make_layer_inputs(shape_, dtype_, kCpu, options_, 1);
    x_ = widened(inputs[0].x, threads_);
    w_ = widened(inputs[0].w, threads_);
    dy_ = widened(inputs[0].dy, threads_);
    x_t_ = widened(transposed(inputs[0].x), threads_);
    w_t_ = widened(transposed(inputs[0].w), threads_);
    dy_t_ = widened(transposed(inputs[0].dy), threads_);
    y_ = Tensor(Dtype::f32, {shape_.m, shape_.n});
    dx_ = Tensor(Dtype::f32, {shape_.m, shape_.k});
    dw_ = Tensor(Dtype::f32, {shape_.n, shape_.k});
    library_.set_threads(threads_);
  }

  void forward(std::int64_t /*iteration*/) override {
    multiply(shape_.m, shape_.n, shape_.k, x_, w_, y_, false);
  }

  void backward(std::int64_t /*iteration*/) override {
    multiply(shape_.m, shape_.k, shape_.n, dy_, w_t_, dx_, false);
    multiply(shape_.n, shape_.k, shape_.m, dy_t_, x_t_, dw_, accumulate_dw_);
  }

 private:
  void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const Tensor& a, const Tensor& b,
                const Tensor& d, bool accumulate) const {
    library_.sgemm_nt(static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), data(a),
                      data(b), static_cast<float*>(d.data()), accumulate);
  }

  LayerShape shape_;
  Dtype dtype_;
  bool accumulate_dw_;
  WorkloadOptions options_;
  int threads_;
  const OpenBlas& library_;
  Tensor x_, w_, dy_;        // [M, K], [N, K], [M, N]
  Tensor x_t_, w_t_, dy_t_;  // [K, M], [K, N], [N, M]
  Tensor y_, dx_, dw_;
};

}  // namespace

std::unique_ptr<Workload> make_openblas_products(const LayerShape& shape, Dtype dtype,
                                                 bool accumulate_dw,
                                                 const WorkloadOptions& options) {
  return std::make_unique<OpenBlasProducts>(shape, dtype, accumulate_dw, options);
}

}  // namespace octet::bench
