// Launches the Hopper product: tensor maps, the kernel of a configuration, the store of d.
#include "ops/gemm/sm90/kernel.cuh"

#include "device/cuda/launch.hpp"
#include "ops/gemm/sm90/maps.hpp"
#include "ops/gemm/sm90/wgmma.hpp"

#include <algorithm>

namespace octet {
namespace {

using sm90::GemmMaps;
using sm90::GemmParams;
using sm90::Store;

constexpr std::string_view kOp = "gemm";

// The copy engine needs 16-byte rows and writes whole 16-byte pieces: beyond the last column too, which
// may be another's memory.
Store store_of(const GemmProblem& problem, const TensorView& d, const Sm90GemmConfig& config) {
  const int bytes = size_bytes(d.dtype);
  const bool boxes = reinterpret_cast<std::uintptr_t>(d.data) % 16 == 0 &&
                     (d.rows() == 1 || d.strides[0] * bytes % 16 == 0) &&
                     d.cols() * bytes % 16 == 0;
  const bool is_f32 = d.dtype == Dtype::f32;
  if (problem.accumulate && !is_f32) return Store::elements;
  if (boxes) return is_staged(config) && !is_f32 ? Store::staged : Store::boxes;
  return is_f32 || !stores_rows(config) ? Store::elements : Store::rows;
}

// Tiles of a group along M: about 2048 rows in flight, so that both operands stay in the L2 cache.
int group_of(const Sm90GemmConfig& config) {
  return std::max(1, 2048 / (config.tile_m * cluster_m(config)));
}

// What tensor maps depend on besides the addresses: the strides that are free.
struct Strides {
  std::int64_t a[2];
  std::int64_t a_scales;
  std::int64_t b[2];
  std::int64_t b_scales[2];
  std::int64_t d;
  Store store;

  Strides(const GemmArgs& args, Store store_)
      : a{args.a.values.strides[0], args.a.values.strides[1]},
        a_scales(args.a.scales.strides[1]),
        b{args.b.values.strides[0], args.b.values.strides[1]},
        b_scales{args.b.scales.strides[0], args.b.scales.strides[1]},
        d(args.d.strides[0]),
        store(store_) {}
  friend bool operator==(const Strides&, const Strides&) = default;
};

bool are_aligned16(const GemmArgs& args, bool slice_scales) {
  using sm90::is_aligned16;
  return is_aligned16(args.a.values) && is_aligned16(args.b.values) &&
         (!slice_scales || (is_aligned16(args.a.scales) && is_aligned16(args.b.scales)));
}

// From one scale to the next along the rows of an operand.
std::int64_t scale_step(const QuantizedView& operand) {
  return operand.block == kWholeTensor ? 0 : operand.scales.strides[0];
}

// What all runs of one problem with one configuration share.
class Sm90GemmRun {
 public:
  Sm90GemmRun(const GemmProblem& problem, const Sm90GemmConfig& config, int multiprocessors)
      : problem_(problem), config_(config), kernel_(sm90_gemm_kernel(config)) {
    params_.m = static_cast<int>(problem.m);
    params_.n = static_cast<int>(problem.n);
    params_.slices = static_cast<int>(ceil_div(problem.k, slice_elements(config)));
    params_.raster = Raster(
        static_cast<int>(ceil_div(problem.m, config.tile_m * cluster_m(config))),
        static_cast<int>(ceil_div(problem.n, config.tile_n * cluster_n(config))), group_of(config));
    params_.d_dtype = problem.out_dtype;
    params_.accumulate = problem.accumulate;
    params_.bias_dtype = problem.bias_dtype.value_or(Dtype::f32);
    const int clusters = multiprocessors / config.cluster;
    blocks_ = static_cast<unsigned>(std::min(params_.raster.count(), clusters) * config.cluster);
  }

  void run(const GemmArgs& args, const RunContext& context) const {
    const cuda::DeviceScope scope(problem_.device.index);
    sm90::EndScaledParams params{};
    static_cast<GemmParams&>(params) = params_;
    params.store = store_of(problem_, args.d, config_);
    params.d = args.d.data;
    params.d_pitch = args.d.strides[0];
    params.bias = args.bias.data;
    GemmMaps maps = maps_of(args, params.store);
    if (config_.promotion == Promotion::product_of_scales) {
      params.b_scales = static_cast<const float*>(args.b.scales.data);
      params.b_scale_pitch = args.b.scales.strides[0];
      params.b_scale_rows = static_cast<int>(args.b.scales.rows());
    }
    if (has_end_scales(config_)) {
      params.a_rows = static_cast<const float*>(args.a.scales.data);
      params.a_step = scale_step(args.a);
      params.b_rows = static_cast<const float*>(args.b.scales.data);
      params.b_step = scale_step(args.b);
    }
    void* arguments[] = {&maps, &params};
    cuda::launch(
        {kernel_.function, "launch of cuda_sm90_wgmma", blocks_, kThreads,
         static_cast<std::size_t>(kernel_.shared_bytes), static_cast<cudaStream_t>(context.stream)},
        arguments);
  }

 private:
  GemmMaps maps_of(const GemmArgs& args, Store store) const {
    const Strides strides(args, store);
    if (const GemmMaps* kept = kept_.find(strides);
        kept != nullptr && are_aligned16(args, has_slice_scales(config_))) {
      return with_addresses(*kept, args, store);
    }
    const GemmMaps maps = encode(args, store);
    kept_.keep(strides, maps);
    return maps;
  }

  GemmMaps with_addresses(GemmMaps maps, const GemmArgs& args, Store store) const {
    cuda::replace_address(maps.a.values, args.a.values.data);
    if (is_load_bound(config_)) cuda::replace_address(maps.a_last.values, args.a.values.data);
    if (has_slice_scales(config_)) {
      cuda::replace_address(maps.a.scales, args.a.scales.data);
      if (is_load_bound(config_)) cuda::replace_address(maps.a_last.scales, args.a.scales.data);
    }
    cuda::replace_address(maps.b.values, args.b.values.data);
    if (config_.promotion == Promotion::one_by_one) {
      cuda::replace_address(maps.b.scales, args.b.scales.data);
    }
    if (sm90::stores_boxes(store)) cuda::replace_address(maps.d, args.d.data);
    return maps;
  }

  // Throws where the kernel cannot read a layout.
  GemmMaps encode(const GemmArgs& args, Store store) const {
    GemmMaps maps{};
    using sm90::operand_map;
    const auto values_map = [&](const QuantizedView& operand, Major major, int rows) {
      return cuda::encode(major == Major::k
                              ? operand_map(operand.values, rows)
                              : sm90::panel_map(operand.values, slice_elements(config_)));
    };
    if (!is_fp8(config_.a)) {
      sm90::check_lines16(kOp, "a", args.a.values, "; the backend cublaslt takes any");
      sm90::check_lines16(kOp, "b", args.b.values, "; the backend cublaslt takes any");
    }
    const auto rows_of_last = static_cast<int>((problem_.m - 1) % config_.tile_m + 1);
    maps.a.values = values_map(args.a, config_.a_major, loaded_rows_of_a(config_));
    if (is_load_bound(config_)) {
      maps.a_last.values = cuda::encode(operand_map(args.a.values, rows_of_last));
    }
    maps.b.values = config_.columns == Columns::paired
                        ? cuda::encode_paired_rows(operand_map(args.b.values, config_.tile_n))
                        : values_map(args.b, config_.b_major, loaded_rows_of_b(config_));
    if (has_slice_scales(config_)) encode_scales(args, maps, round_up(rows_of_last, 4));
    if (sm90::stores_boxes(store))
      maps.d = cuda::encode(sm90::output_map(args.d, config_, box_rows(store)));
    return maps;
  }

  void encode_scales(const GemmArgs& args, GemmMaps& maps, int last_rows) const {
    using sm90::scale_map;
    maps.a.scales = scale_map(kOp, "a", args.a.scales, config_.tile_m);
    if (is_load_bound(config_)) {
      maps.a_last.scales = scale_map(kOp, "a", args.a.scales, last_rows);
    }
    if (config_.promotion == Promotion::one_by_one) {
      maps.b.scales = scale_map(kOp, "b", args.b.scales, config_.tile_n);
    } else {
      sm90::check_square_scales(kOp, args.b.scales);
    }
  }

  GemmProblem problem_;
  Sm90GemmConfig config_;
  const Sm90GemmKernel& kernel_;
  GemmParams params_{};
  unsigned blocks_;
  mutable sm90::MapCache<Strides, GemmMaps> kept_;
};

}  // namespace

std::function<void(const GemmArgs&, const RunContext&)> sm90_gemm_run(const GemmProblem& problem,
                                                                      const Sm90GemmConfig& config,
                                                                      int multiprocessors) {
  return [run = std::make_shared<const Sm90GemmRun>(problem, config, multiprocessors)](
             const GemmArgs& args, const RunContext& context) { run->run(args, context); };
}

}  // namespace octet
