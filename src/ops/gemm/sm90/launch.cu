// Launches the Hopper product: tensor maps, the kernel of a configuration, the store of d.
#include "ops/gemm/sm90/kernel.cuh"

#include "core/checks.hpp"
#include "device/cuda/launch.hpp"
#include "device/cuda/tensor_map.hpp"
#include "ops/gemm/sm90/wgmma.hpp"

#include <algorithm>
#include <atomic>
#include <memory>

namespace octet {
namespace {

using sm90::GemmMaps;
using sm90::GemmParams;
using sm90::Store;

cuda::MatrixMap operand(const TensorView& values, int box_rows) {
  const std::int64_t pitch = values.rows() > 1 ? values.strides[0] : round_up(values.cols(), 16);
  return {CU_TENSOR_MAP_DATA_TYPE_UINT8,
          1,
          values.data,
          values.rows(),
          values.cols(),
          pitch,
          box_rows,
          kSliceBytes,
          CU_TENSOR_MAP_SWIZZLE_128B};
}

// 1x128 scales as the kernel reads them: [slice][row].
CUtensorMap scale_map(const char* argument, const TensorView& scales, int box_rows) {
  const bool one_slice = scales.cols() == 1;
  if ((scales.rows() > 1 && scales.strides[0] != 1) || (!one_slice && scales.strides[1] % 4 != 0) ||
      reinterpret_cast<std::uintptr_t>(scales.data) % 16 != 0) {
    refuse_argument("gemm: scale of ", argument,
                    " must be contiguous along the rows, with 16-byte slices, got ",
                    describe(scales), "; repack copies it into such a layout");
  }
  const std::int64_t pitch = one_slice ? round_up(scales.rows(), 4) : scales.strides[1];
  return cuda::encode({CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, scales.data, scales.cols(),
                       scales.rows(), pitch * 4, 1, box_rows, CU_TENSOR_MAP_SWIZZLE_NONE});
}

void check_square_scales(const TensorView& scales) {
  if ((scales.cols() > 1 && scales.strides[1] != 1) ||
      (scales.rows() > 1 && scales.strides[0] % 4 != 0) ||
      reinterpret_cast<std::uintptr_t>(scales.data) % 16 != 0) {
    refuse_argument(
        "gemm: scale of b must be contiguous along the contraction, with rows padded to "
        "16 bytes, got ",
        describe(scales), "; repack copies it into such a layout");
  }
}

// The copy engine needs 16-byte rows and writes whole 16-byte pieces: beyond the last column too, which
// may be another's memory.
Store store_of(const GemmProblem& problem, const TensorView& d, Columns columns) {
  const int bytes = size_bytes(d.dtype);
  const bool boxes = reinterpret_cast<std::uintptr_t>(d.data) % 16 == 0 &&
                     (d.rows() == 1 || d.strides[0] * bytes % 16 == 0) &&
                     d.cols() * bytes % 16 == 0;
  const bool is_f32 = d.dtype == Dtype::f32;
  if (problem.accumulate && !is_f32) return Store::elements;
  if (boxes) return Store::boxes;
  return is_f32 || columns == Columns::paired ? Store::elements : Store::rows;
}

CUtensorMap output_map(const TensorView& d, Store store, const Sm90GemmConfig& config) {
  if (store != Store::boxes) return {};
  const int bytes = size_bytes(d.dtype);
  const std::int64_t pitch = d.rows() > 1 ? d.strides[0] * bytes : round_up(d.cols() * bytes, 16);
  const CUtensorMapDataType type = d.dtype == Dtype::f32    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                   : d.dtype == Dtype::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                            : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  const int cols = box_cols(config, bytes);
  return cuda::encode(
      {type, bytes, d.data, d.rows(), d.cols(), pitch, kBoxRows, cols,
       cols * bytes == kBoxBytes ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B});
}

// Tiles of a group along M: about 2048 rows in flight, so that both operands stay in the L2 cache.
int group_of(const Sm90GemmConfig& config) { return std::max(1, 2048 / config.tile_m); }

// What tensor maps depend on besides the addresses: the strides that are free.
struct Strides {
  std::int64_t a;
  std::int64_t a_scales;
  std::int64_t b;
  std::int64_t b_scales[2];
  std::int64_t d;
  Store store;

  Strides(const GemmArgs& args, Store store_)
      : a(args.a.values.strides[0]),
        a_scales(args.a.scales.strides[1]),
        b(args.b.values.strides[0]),
        b_scales{args.b.scales.strides[0], args.b.scales.strides[1]},
        d(args.d.strides[0]),
        store(store_) {}
  friend bool operator==(const Strides&, const Strides&) = default;
};

bool are_aligned16(const GemmArgs& args) {
  std::uintptr_t bits = 0;
  for (const TensorView* view : {&args.a.values, &args.a.scales, &args.b.values, &args.b.scales}) {
    bits |= reinterpret_cast<std::uintptr_t>(view->data);
  }
  return bits % 16 == 0;
}

// What all runs of one problem with one configuration share. The first run encodes the tensor maps; later
// runs of the same strides copy them and replace the addresses.
class Sm90GemmRun {
 public:
  Sm90GemmRun(const GemmProblem& problem, const Sm90GemmConfig& config, int multiprocessors)
      : problem_(problem), config_(config), kernel_(sm90_gemm_kernel(config)) {
    params_.m = static_cast<int>(problem.m);
    params_.n = static_cast<int>(problem.n);
    params_.slices = static_cast<int>(ceil_div(problem.k, kBlock));
    params_.raster = Raster(static_cast<int>(ceil_div(problem.m, config.tile_m)),
                            static_cast<int>(ceil_div(problem.n, config.tile_n * config.cluster)),
                            group_of(config));
    params_.d_dtype = problem.out_dtype;
    params_.accumulate = problem.accumulate;
    params_.bias_dtype = problem.bias_dtype.value_or(Dtype::f32);
    const int clusters = multiprocessors / config.cluster;
    blocks_ = static_cast<unsigned>(std::min(params_.raster.count(), clusters) * config.cluster);
  }
  ~Sm90GemmRun() { delete template_.load(); }
  Sm90GemmRun(const Sm90GemmRun&) = delete;
  Sm90GemmRun& operator=(const Sm90GemmRun&) = delete;

  void run(const GemmArgs& args, const RunContext& context) const {
    const cuda::DeviceScope scope(problem_.device.index);
    GemmParams params = params_;
    params.store = store_of(problem_, args.d, config_.columns);
    params.d = args.d.data;
    params.d_pitch = args.d.strides[0];
    params.bias = args.bias.data;
    GemmMaps maps = maps_of(args, params.store);
    if (config_.promotion == Promotion::product_of_scales) {
      params.b_scales = static_cast<const float*>(args.b.scales.data);
      params.b_scale_pitch = args.b.scales.strides[0];
      params.b_scale_rows = static_cast<int>(args.b.scales.rows());
    }
    void* arguments[] = {&maps, &params};
    cuda::launch(
        {kernel_.function, "launch of cuda_sm90_wgmma", blocks_, kThreads,
         static_cast<std::size_t>(kernel_.shared_bytes), static_cast<cudaStream_t>(context.stream)},
        arguments);
  }

 private:
  struct Template {
    Strides strides;
    GemmMaps maps;
  };

  GemmMaps maps_of(const GemmArgs& args, Store store) const {
    const Strides strides(args, store);
    const Template* known = template_.load(std::memory_order_acquire);
    if (known != nullptr && known->strides == strides && are_aligned16(args)) {
      return with_addresses(known->maps, args, store);
    }
    const GemmMaps maps = encode(args, store);
    if (known == nullptr) {
      auto made = std::make_unique<const Template>(Template{strides, maps});
      if (template_.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) {
        (void)made.release();
      }
    }
    return maps;
  }

  GemmMaps with_addresses(GemmMaps maps, const GemmArgs& args, Store store) const {
    cuda::replace_address(maps.a.values, args.a.values.data);
    cuda::replace_address(maps.a.scales, args.a.scales.data);
    if (is_load_bound(config_)) {
      cuda::replace_address(maps.a_last.values, args.a.values.data);
      cuda::replace_address(maps.a_last.scales, args.a.scales.data);
    }
    cuda::replace_address(maps.b.values, args.b.values.data);
    if (config_.promotion == Promotion::one_by_one) {
      cuda::replace_address(maps.b.scales, args.b.scales.data);
    }
    if (store == Store::boxes) cuda::replace_address(maps.d, args.d.data);
    return maps;
  }

  // Throws where the kernel cannot read a layout.
  GemmMaps encode(const GemmArgs& args, Store store) const {
    GemmMaps maps{};
    maps.a.values = cuda::encode(operand(args.a.values, config_.tile_m / config_.cluster));
    maps.a.scales = scale_map("a", args.a.scales, config_.tile_m);
    if (is_load_bound(config_)) {
      const auto rows = static_cast<int>((problem_.m - 1) % config_.tile_m + 1);
      maps.a_last.values = cuda::encode(operand(args.a.values, rows));
      maps.a_last.scales = scale_map("a", args.a.scales, round_up(rows, 4));
    }
    maps.b.values = config_.columns == Columns::paired
                        ? cuda::encode_paired_rows(operand(args.b.values, config_.tile_n))
                        : cuda::encode(operand(args.b.values, config_.tile_n));
    if (config_.promotion == Promotion::one_by_one) {
      maps.b.scales = scale_map("b", args.b.scales, config_.tile_n);
    } else {
      check_square_scales(args.b.scales);
    }
    maps.d = output_map(args.d, store, config_);
    return maps;
  }

  GemmProblem problem_;
  Sm90GemmConfig config_;
  const Sm90GemmKernel& kernel_;
  GemmParams params_{};
  unsigned blocks_;
  mutable std::atomic<const Template*> template_{nullptr};  // set once, by whichever run is first
};

}  // namespace

std::function<void(const GemmArgs&, const RunContext&)> sm90_gemm_run(const GemmProblem& problem,
                                                                      const Sm90GemmConfig& config,
                                                                      int multiprocessors) {
  return [run = std::make_shared<const Sm90GemmRun>(problem, config, multiprocessors)](
             const GemmArgs& args, const RunContext& context) { run->run(args, context); };
}

}  // namespace octet
