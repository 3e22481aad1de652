// Launches the Hopper product over groups: tensor maps, the kernel of a configuration, the store of d.
#include "ops/gemm/sm90/kernel.cuh"

#include "core/views.hpp"
#include "device/cuda/launch.hpp"
#include "ops/gemm/sm90/maps.hpp"
#include "ops/grouped_gemm/sm90/wgmma.hpp"

#include <algorithm>
#include <array>

namespace octet {
namespace {

using sm90::GemmMaps;
using sm90::GroupedGemmParams;
using sm90::Store;

constexpr std::string_view kOp = "grouped_gemm";

// What tensor maps depend on besides the addresses.
struct Strides {
  std::array<std::array<std::int64_t, kMaxRank>, 5> of;
  Store store;

  Strides(const GroupedGemmArgs& args, Store store_)
      : of{args.a.values.strides, args.a.scales.strides, args.b.values.strides,
           args.b.scales.strides, args.d.strides},
        store(store_) {}
  friend bool operator==(const Strides&, const Strides&) = default;
};

// Whether TMA stores d: every row of every matrix starts and ends on a 16-byte boundary. Ragged maps have
// pitches below 2^34 bytes.
bool has_boxes(const TensorView& d) {
  const std::int64_t bytes = size_bytes(d.dtype);
  bool boxes = sm90::is_aligned16(d) && d.shape[d.rank - 1] * bytes % 16 == 0;
  for (int i = 0; i < d.rank - 1; ++i) {
    boxes = boxes && (d.shape[i] == 1 || d.strides[i] * bytes % 16 == 0);
  }
  return boxes && (d.rank == 3 || d.rows() == 1 || d.strides[0] * bytes < std::int64_t{1} << 34);
}

Store store_of(const GroupedGemmProblem& problem, const TensorView& d,
               const Sm90GemmConfig& config) {
  const bool is_f32 = d.dtype == Dtype::f32;
  if (problem.accumulate && !is_f32) return Store::elements;
  if (has_boxes(d)) return is_staged(config) && !is_f32 ? Store::staged : Store::boxes;
  return is_f32 || config.columns == Columns::paired ? Store::elements : Store::rows;
}

// The matrices of a batch [batch, rows, cols], one box at a time.
CUtensorMap batch_map(const TensorView& batch, const cuda::MatrixMap& matrix) {
  const std::int64_t apart = batch.shape[0] > 1 ? batch.strides[0] * matrix.element_bytes
                                                : round_up(matrix.rows * matrix.pitch_bytes, 16);
  return cuda::encode_batch(matrix, batch.shape[0], apart);
}

// Scales [block, feature, 1] of token blocks as a matrix [feature, block].
TensorView scales_by_block(const TensorView& scales) {
  TensorView view = make_matrix(scales.data, scales.dtype, scales.shape[1], scales.shape[0],
                                scales.strides[1], scales.device);
  view.strides[1] = scales.strides[0];
  return view;
}

// 128x128 scales of token blocks: four blocks of a row of features at a time.
CUtensorMap square_scale_map(const TensorView& scales) {
  const TensorView matrix = scales_by_block(scales);
  sm90::check_square_scales(kOp, matrix);
  const std::int64_t pitch =
      matrix.rows() > 1 ? matrix.strides[0] : round_up(matrix.cols(), std::int64_t{4});
  return cuda::encode({CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, matrix.data, matrix.rows(),
                       matrix.cols(), pitch * 4, 1, 4, CU_TENSOR_MAP_SWIZZLE_NONE});
}

// Groups of 16 features from one token block to the next, in paired order.
std::int64_t paired_apart(const TensorView& blocks) {
  if (blocks.shape[0] == 1) return blocks.shape[1] / kPairedGroup;
  const std::int64_t group = kPairedGroup * blocks.strides[1];
  if (blocks.strides[0] % group != 0) {
    refuse_argument(kOp, ": token blocks of b must be whole groups of 16 rows apart, got ",
                    describe(blocks));
  }
  return blocks.strides[0] / group;
}

CUtensorMap paired_map(const TensorView& blocks, int box_rows) {
  cuda::MatrixMap matrix = sm90::operand_map(matrix_of(blocks, 0), box_rows);
  matrix.rows = blocks.shape[0] * paired_apart(blocks) * kPairedGroup;
  return cuda::encode_paired_rows(matrix);
}

// What all runs of one problem with one configuration share.
template <class Tiles>
class GroupedRun {
 public:
  GroupedRun(const GroupedGemmProblem& problem, const Sm90GroupedGemmConfig& config,
             int multiprocessors)
      : problem_(problem),
        config_(config.gemm),
        kernel_(kOverRows ? sm90_kernel_over_rows(config) : sm90_kernel_over_contraction(config)) {
    if (kernel_.function == nullptr) {
      fail(ErrorCode::internal, kOp, ": configuration ", name(config), " was not compiled");
    }
    set_tiles();
    params_.groups = static_cast<int>(problem.groups);
    params_.rows = static_cast<int>(problem.rows);
    params_.d_dtype = problem.out_dtype;
    params_.accumulate = problem.accumulate;
    const std::int64_t clusters = std::max(1, multiprocessors / config_.cluster);
    const std::int64_t most = sm90_most_tiles(problem, config);
    blocks_ = static_cast<unsigned>(std::min(most, clusters) * config_.cluster);
  }

  void run(const GroupedGemmArgs& args, const RunContext& context) const {
    const cuda::DeviceScope scope(problem_.device.index);
    GroupedGemmParams<Tiles> params = params_;
    params.store = store_of(problem_, args.d, config_);
    params.d = args.d.data;
    params.d_pitch = args.d.strides[kOverRows ? 0 : 1];
    params.d_apart = kOverRows ? 0 : args.d.strides[0];
    set_table(params, args.table);
    GemmMaps maps = maps_of(args, params.store);
    if constexpr (kOverRows) {
      params.b_scales = static_cast<const float*>(args.b.scales.data);
      params.b_scale_pitch = args.b.scales.strides[1];
      params.b_scale_rows = static_cast<int>(args.b.scales.shape[1]);
      params.b_scales_apart = args.b.scales.strides[0];
    } else if (config_.columns == Columns::paired) {
      params.paired_apart = static_cast<int>(paired_apart(args.b.values));
    }
    void* arguments[] = {&maps, &params};
    cuda::launch(
        {kernel_.function, "launch of cuda_sm90_wgmma", blocks_, kThreads,
         static_cast<std::size_t>(kernel_.shared_bytes), static_cast<cudaStream_t>(context.stream)},
        arguments);
  }

 private:
  static constexpr bool kOverRows = std::is_same_v<Tiles, RowTiles>;

  void set_tiles() {
    const int cluster_n = config_.tile_n * config_.cluster;
    Tiles& tiles = params_.tiles;
    tiles.tile_m = config_.tile_m;
    tiles.tile_n = cluster_n;
    if constexpr (kOverRows) {
      params_.m = static_cast<int>(problem_.rows);
      params_.n = static_cast<int>(problem_.n);
      tiles.across = Divisor(static_cast<int>(ceil_div(problem_.n, cluster_n)));
      tiles.slices = static_cast<int>(ceil_div(problem_.k, kBlock));
      tiles.zeros = problem_.tail == GroupTail::zero;
    } else {
      params_.m = static_cast<int>(problem_.n);
      params_.n = static_cast<int>(problem_.k);
      tiles.raster = Raster(static_cast<int>(ceil_div(problem_.n, config_.tile_m)),
                            static_cast<int>(ceil_div(problem_.k, cluster_n)),
                            static_cast<int>(kBandRows) / config_.tile_m);
      tiles.tiles = Divisor(tiles.raster.count());
      tiles.rows = params_.m;
      tiles.zeros = !problem_.accumulate;
    }
  }

  void set_table(GroupedGemmParams<Tiles>& params, const TensorView& table) const {
    const GroupTableLayout layout{problem_.groups, problem_.rows};
    const auto* words = static_cast<const std::int32_t*>(table.data);
    const std::int64_t list = !kOverRows              ? layout.order()
                              : config_.tile_m == 128 ? layout.tiles_128()
                                                      : layout.tiles_256();
    params.table = reinterpret_cast<const GroupTableHead*>(words);
    params.entries = reinterpret_cast<const typename Tiles::Entry*>(words + list);
  }

  bool has_scale_map_of_b() const { return !kOverRows; }

  GemmMaps maps_of(const GroupedGemmArgs& args, Store store) const {
    const Strides strides(args, store);
    const bool aligned = sm90::is_aligned16(args.a.scales) && sm90::is_aligned16(args.b.scales);
    if (const GemmMaps* kept = kept_.find(strides); kept != nullptr && aligned) {
      GemmMaps maps = *kept;
      cuda::replace_address(maps.a.values, args.a.values.data);
      cuda::replace_address(maps.a.scales, args.a.scales.data);
      if (kOverRows) cuda::replace_address(maps.a_last.scales, args.a.scales.data);
      cuda::replace_address(maps.b.values, args.b.values.data);
      if (has_scale_map_of_b()) cuda::replace_address(maps.b.scales, args.b.scales.data);
      if (sm90::stores_boxes(store)) cuda::replace_address(maps.d, args.d.data);
      return maps;
    }
    const GemmMaps maps = kOverRows ? encode_rows(args, store) : encode_contraction(args, store);
    kept_.keep(strides, maps);
    return maps;
  }

  // Throws where the kernel cannot read a layout.
  GemmMaps encode_rows(const GroupedGemmArgs& args, Store store) const {
    GemmMaps maps{};
    const int a_rows = config_.tile_m / config_.cluster;
    maps.a.values = cuda::encode(sm90::operand_map(args.a.values, a_rows));
    maps.a.scales = sm90::scale_map(kOp, "a", args.a.scales, config_.tile_m);
    maps.a_last.scales = sm90::scale_map(kOp, "a", args.a.scales, kScalesAtOnce);
    const TensorView weights = matrix_of(args.b.values, 0);
    maps.b.values = batch_map(args.b.values, sm90::operand_map(weights, config_.tile_n));
    sm90::check_square_scales(kOp, matrix_of(args.b.scales, 0));
    if (problem_.groups > 1 && args.b.scales.strides[0] % 4 != 0) {
      refuse_argument(
          kOp, ": scales of b must be a multiple of 16 bytes apart from group to group, got ",
          describe(args.b.scales));
    }
    if (sm90::stores_boxes(store)) {
      maps.d = cuda::encode_ragged_rows(sm90::output_map(args.d, config_, box_rows(store)));
    }
    return maps;
  }

  GemmMaps encode_contraction(const GroupedGemmArgs& args, Store store) const {
    GemmMaps maps{};
    const int a_rows = config_.tile_m / config_.cluster;
    const TensorView a = matrix_of(args.a.values, 0);
    maps.a.values = batch_map(args.a.values, sm90::operand_map(a, a_rows));
    maps.a.scales = sm90::scale_map(kOp, "a", scales_by_block(args.a.scales), config_.tile_m);
    const TensorView b = matrix_of(args.b.values, 0);
    maps.b.values = config_.columns == Columns::paired
                        ? paired_map(args.b.values, config_.tile_n)
                        : batch_map(args.b.values, sm90::operand_map(b, config_.tile_n));
    maps.b.scales = config_.promotion == Promotion::one_by_one
                        ? sm90::scale_map(kOp, "b", scales_by_block(args.b.scales), config_.tile_n)
                        : square_scale_map(args.b.scales);
    if (sm90::stores_boxes(store)) {
      maps.d = batch_map(args.d, sm90::output_map(matrix_of(args.d, 0), config_, box_rows(store)));
    }
    return maps;
  }

  GroupedGemmProblem problem_;
  Sm90GemmConfig config_;
  Sm90GroupedGemmKernel kernel_;
  GroupedGemmParams<Tiles> params_{};
  unsigned blocks_;
  mutable sm90::MapCache<Strides, GemmMaps> kept_;
};

template <class Tiles>
std::function<void(const GroupedGemmArgs&, const RunContext&)> make_run(
    const GroupedGemmProblem& problem, const Sm90GroupedGemmConfig& config, int multiprocessors) {
  return [run = std::make_shared<const GroupedRun<Tiles>>(problem, config, multiprocessors)](
             const GroupedGemmArgs& args, const RunContext& context) { run->run(args, context); };
}

}  // namespace

std::function<void(const GroupedGemmArgs&, const RunContext&)> sm90_grouped_gemm_run(
    const GroupedGemmProblem& problem, const Sm90GroupedGemmConfig& config, int multiprocessors) {
  return config.groups == Groups::rows
             ? make_run<RowTiles>(problem, config, multiprocessors)
             : make_run<ContractionTiles>(problem, config, multiprocessors);
}

}  // namespace octet
