// Launches the Hopper product over groups: tensor maps, the kernel of a configuration, the store of d.
#include "ops/gemm/sm90/kernel.cuh"

#include "core/views.hpp"
#include "device/cuda/launch.hpp"
#include "ops/gemm/sm90/maps.hpp"
#include "ops/grouped_gemm/sm90/row_widths.cuh"
#include "ops/grouped_gemm/sm90/wgmma.hpp"

#include <algorithm>
#include <array>
#include <optional>

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
  return is_f32 || !stores_rows(config) ? Store::elements : Store::rows;
}

// The matrices of a batch [batch, rows, cols], one box at a time.
CUtensorMap batch_map(const TensorView& batch, const cuda::MatrixMap& matrix) {
  const std::int64_t apart = batch.shape[0] > 1 ? batch.strides[0] * size_bytes(batch.dtype)
                                                : round_up(matrix.rows * matrix.pitch_bytes, 16);
  return cuda::encode_batch(matrix, batch.shape[0], apart);
}

// Tokens of 16-bit operands [T, features] as boxes of 64 features that end with a group.
CUtensorMap token_map(const TensorView& tokens, const Sm90GemmConfig& config) {
  cuda::MatrixMap matrix = sm90::panel_map(transposed(tokens), slice_elements(config));
  return cuda::encode_ragged_rows(matrix);
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

void launch_kernel(const Sm90GroupedGemmKernel& kernel, unsigned blocks, const RunContext& context,
                   void** arguments) {
  cuda::launch(
      {kernel.function, "launch of cuda_sm90_wgmma", blocks, kThreads,
       static_cast<std::size_t>(kernel.shared_bytes), static_cast<cudaStream_t>(context.stream)},
      arguments);
}

// What all runs of one problem with tiles of one shape share: how its maps and parameters are made.
template <class Tiles>
class TilesOfProblem {
 public:
  TilesOfProblem(const GroupedGemmProblem& problem, const Sm90GroupedGemmConfig& config,
                 int multiprocessors)
      : problem_(problem), config_(config.gemm) {
    set_tiles();
    params_.groups = static_cast<int>(problem.groups);
    params_.rows = static_cast<int>(problem.rows);
    params_.d_dtype = problem.out_dtype;
    params_.accumulate = problem.accumulate;
    const std::int64_t clusters = std::max(1, multiprocessors / config_.cluster);
    const std::int64_t most = sm90_most_tiles(problem, config);
    blocks_ = static_cast<unsigned>(std::min(most, clusters) * config_.cluster);
  }

  unsigned blocks() const { return blocks_; }

  // The device of the problem is the current one.
  void prepare(const GroupedGemmArgs& args, GemmMaps& maps,
               GroupedGemmParams<Tiles>& params) const {
    params = params_;
    params.store = store_of(problem_, args.d, config_);
    params.d = args.d.data;
    params.d_pitch = args.d.strides[kOverRows ? 0 : 1];
    params.d_apart = kOverRows ? 0 : args.d.strides[0];
    set_table(params, args.table);
    maps = maps_of(args, params.store);
    if (!has_slice_scales(config_)) return;
    if constexpr (kOverRows) {
      params.b_scales = static_cast<const float*>(args.b.scales.data);
      params.b_scale_pitch = args.b.scales.strides[1];
      params.b_scale_rows = static_cast<int>(args.b.scales.shape[1]);
      params.b_scales_apart = args.b.scales.strides[0];
    } else if (config_.columns == Columns::paired) {
      params.paired_apart = static_cast<int>(paired_apart(args.b.values));
    }
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
      tiles.slices = static_cast<int>(ceil_div(problem_.k, slice_elements(config_)));
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

  bool has_scale_maps() const { return has_slice_scales(config_); }

  GemmMaps maps_of(const GroupedGemmArgs& args, Store store) const {
    const Strides strides(args, store);
    const bool aligned = sm90::is_aligned16(args.a.values) && sm90::is_aligned16(args.b.values) &&
                         sm90::is_aligned16(args.a.scales) && sm90::is_aligned16(args.b.scales);
    if (const GemmMaps* kept = kept_.find(strides); kept != nullptr && aligned) {
      GemmMaps maps = *kept;
      cuda::replace_address(maps.a.values, args.a.values.data);
      cuda::replace_address(maps.b.values, args.b.values.data);
      if (has_scale_maps()) {
        cuda::replace_address(maps.a.scales, args.a.scales.data);
        cuda::replace_address(kOverRows ? maps.a_last.scales : maps.b.scales,
                              kOverRows ? args.a.scales.data : args.b.scales.data);
      }
      if (sm90::stores_boxes(store)) cuda::replace_address(maps.d, args.d.data);
      return maps;
    }
    if (!is_fp8(config_.a)) {
      sm90::check_lines16(kOp, "a", args.a.values);
      sm90::check_lines16(kOp, "b", args.b.values);
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
    const TensorView weights = matrix_of(args.b.values, 0);
    maps.b.values =
        batch_map(args.b.values, config_.b_major == Major::k
                                     ? sm90::operand_map(weights, config_.tile_n)
                                     : sm90::panel_map(weights, slice_elements(config_)));
    if (has_scale_maps()) encode_row_scales(args, maps);
    if (sm90::stores_boxes(store)) {
      maps.d = cuda::encode_ragged_rows(sm90::output_map(args.d, config_, box_rows(store)));
    }
    return maps;
  }

  void encode_row_scales(const GroupedGemmArgs& args, GemmMaps& maps) const {
    maps.a.scales = sm90::scale_map(kOp, "a", args.a.scales, config_.tile_m);
    maps.a_last.scales = sm90::scale_map(kOp, "a", args.a.scales, kScalesAtOnce);
    sm90::check_square_scales(kOp, matrix_of(args.b.scales, 0));
    if (problem_.groups > 1 && args.b.scales.strides[0] % 4 != 0) {
      refuse_argument(
          kOp, ": scales of b must be a multiple of 16 bytes apart from group to group, got ",
          describe(args.b.scales));
    }
  }

  GemmMaps encode_contraction(const GroupedGemmArgs& args, Store store) const {
    GemmMaps maps{};
    if (sm90::stores_boxes(store)) {
      maps.d = batch_map(args.d, sm90::output_map(matrix_of(args.d, 0), config_, box_rows(store)));
    }
    if (!is_fp8(config_.a)) {
      maps.a.values = token_map(args.a.values, config_);
      maps.b.values = token_map(args.b.values, config_);
      return maps;
    }
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
    return maps;
  }

  GroupedGemmProblem problem_;
  Sm90GemmConfig config_;
  GroupedGemmParams<Tiles> params_{};
  unsigned blocks_;
  mutable sm90::MapCache<Strides, GemmMaps> kept_;
};

// A kernel of one tile.
template <class Tiles>
class OneTileRun {
 public:
  OneTileRun(const GroupedGemmProblem& problem, const Sm90GroupedGemmConfig& config,
             int multiprocessors)
      : device_(problem.device.index),
        kernel_(kernel_of(config)),
        table_{problem.groups, problem.rows},
        tiles_(problem, config, multiprocessors) {
    if (kernel_.function == nullptr) {
      fail(ErrorCode::internal, kOp, ": configuration ", name(config), " was not compiled");
    }
  }

  void run(const GroupedGemmArgs& args, const RunContext& context) const {
    const cuda::DeviceScope scope(device_);
    GemmMaps maps;
    AnyParams params;
    tiles_.prepare(args, maps, params);
    if constexpr (!kOverRows) {
      params.first_rows = static_cast<const std::int32_t*>(args.table.data) + table_.first_row();
    }
    void* arguments[] = {&maps, &params};
    launch_kernel(kernel_, tiles_.blocks(), context, arguments);
  }

 private:
  static constexpr bool kOverRows = std::is_same_v<Tiles, RowTiles>;
  // A kernel of FP8 operands takes the front of it.
  using AnyParams =
      std::conditional_t<kOverRows, GroupedGemmParams<Tiles>, sm90::PlainContractionParams>;

  static Sm90GroupedGemmKernel kernel_of(const Sm90GroupedGemmConfig& config) {
    if (config.gemm.a == Dtype::bf16) return sm90_grouped_kernel_bf16(config);
    if (config.gemm.a == Dtype::f16) return sm90_grouped_kernel_f16(config);
    return kOverRows ? sm90_kernel_over_rows(config) : sm90_kernel_over_contraction(config);
  }

  int device_;
  Sm90GroupedGemmKernel kernel_;
  GroupTableLayout table_;
  TilesOfProblem<Tiles> tiles_;
};

// The kernel of all widths over rows: of a fixed width, or of whichever the sizes fill best.
class RowWidthsRun {
 public:
  RowWidthsRun(const GroupedGemmProblem& problem, const Sm90GroupedGemmConfig& config,
               int multiprocessors)
      : device_(problem.device.index),
        table_{problem.groups, problem.rows},
        all_(sm90_row_widths(config.gemm)),
        kernel_(is_fp8(config.gemm.a) ? sm90_kernel_of_row_widths()
                                      : sm90_kernel_of_row_widths16(config.gemm)) {
    constexpr double kMostClocks = 1 << 30;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const Sm90GroupedGemmConfig& width = all_[i];
      if (config.width == Width::fixed && !(width == config)) continue;
      widths_[i].tiles.emplace(problem, width, multiprocessors);
      widths_[i].tile_clocks = static_cast<std::int32_t>(
          std::min(sm90_row_tile_clocks(problem, width.gemm), kMostClocks));
      blocks_ = std::max(blocks_, widths_[i].tiles->blocks());
    }
    by_sizes_ = config.width == Width::by_sizes;
  }

  void run(const GroupedGemmArgs& args, const RunContext& context) const {
    const cuda::DeviceScope scope(device_);
    sm90::RowWidthsLaunch launch{};
    launch.table = static_cast<const GroupTableHead*>(args.table.data);
    launch.entries = reinterpret_cast<const GroupTile*>(
        static_cast<const std::int32_t*>(args.table.data) + table_.tiles_128());
    launch.last_entry = static_cast<int>(table_.max_tiles(128)) - 1;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (!widths_[i].tiles || (by_sizes_ && !is_offered(i, args.d))) continue;
      GemmMaps maps;
      widths_[i].tiles->prepare(args, maps, launch.params[i]);
      launch.tile_clocks[i] = widths_[i].tile_clocks;
      launch.across[i] = static_cast<std::int32_t>(launch.params[i].tiles.across.value);
      launch.a = maps.a;
      launch.a_last = maps.a_last;
      launch.b[i].values = maps.b.values;
      launch.d[i] = maps.d;
    }
    launch.store = launch.params[0].store;
    launch.blocks = Divisor(static_cast<int>(blocks_));
    void* arguments[] = {&launch};
    launch_kernel(kernel_, blocks_, context, arguments);
  }

 private:
  // Tiles that store 16-bit rows of any alignment element by element are slower than all others there.
  bool is_offered(std::size_t width, const TensorView& d) const {
    return has_boxes(d) || stores_rows(all_[width].gemm);
  }

  struct OfWidth {
    std::optional<TilesOfProblem<RowTiles>> tiles;
    std::int32_t tile_clocks = 0;
  };
  int device_;
  GroupTableLayout table_;
  std::span<const Sm90GroupedGemmConfig> all_;
  Sm90GroupedGemmKernel kernel_;
  std::array<OfWidth, kRowWidths> widths_;
  unsigned blocks_ = 0;
  bool by_sizes_;
};

template <class Run>
std::function<void(const GroupedGemmArgs&, const RunContext&)> make_run(
    const GroupedGemmProblem& problem, const Sm90GroupedGemmConfig& config, int multiprocessors) {
  return [run = std::make_shared<const Run>(problem, config, multiprocessors)](
             const GroupedGemmArgs& args, const RunContext& context) { run->run(args, context); };
}

}  // namespace

std::function<void(const GroupedGemmArgs&, const RunContext&)> sm90_grouped_gemm_run(
    const GroupedGemmProblem& problem, const Sm90GroupedGemmConfig& config, int multiprocessors) {
  if (config.groups == Groups::contraction) {
    return make_run<OneTileRun<ContractionTiles>>(problem, config, multiprocessors);
  }
  if (is_row_width(config) || config.width == Width::by_sizes) {
    return make_run<RowWidthsRun>(problem, config, multiprocessors);
  }
  return make_run<OneTileRun<RowTiles>>(problem, config, multiprocessors);
}

}  // namespace octet
