#include "check/reference/reference.hpp"

#include "check/reference/decode.hpp"
#include "core/message.hpp"
#include "cpu/instruction_set.hpp"
#include "cpu/threads.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace octet {
namespace {

constexpr int kPanelRows = 8;
constexpr int kPanelCols = 16;

// The innermost loop of the product, over packed panels.
struct PanelProducts {
  void (*values)(const double*, const double*, int, double*);
  void (*magnitudes)(const float*, const float*, int, float*);
};

namespace plain {
constexpr int kVectorBytes = 16;
constexpr int kRowStep = 1;
#include "check/reference/product_panels.inl"
}  // namespace plain

#if defined(__x86_64__) && !defined(__clang__)
#define OCTET_WIDER_PANELS
#pragma GCC push_options
#pragma GCC target("avx2")
namespace avx2 {
constexpr int kVectorBytes = 32;
constexpr int kRowStep = 2;
#include "check/reference/product_panels.inl"
}  // namespace avx2
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f")
namespace avx512 {
constexpr int kVectorBytes = 64;
constexpr int kRowStep = 8;
#include "check/reference/product_panels.inl"
}  // namespace avx512
#pragma GCC pop_options
#endif

const PanelProducts& products() {
#ifdef OCTET_WIDER_PANELS
  static const PanelProducts& chosen = __builtin_cpu_supports("avx512f") ? avx512::kProducts
                                       : __builtin_cpu_supports("avx2")  ? avx2::kProducts
                                                                         : plain::kProducts;
  return chosen;
#else
  return plain::kProducts;
#endif
}

// value[i * kTile + j] += sum over k < depth of a[k * kPanelRows + i] * b[k * kPanelCols + j]
void multiply_panels(const double* a, const double* b, int depth, double* value) {
  products().values(a, b, depth, value);
}
// The same for magnitudes, in f32: they are only used for error bounds.
void multiply_panels(const float* a, const float* b, int depth, float* value) {
  products().magnitudes(a, b, depth, value);
}
// to[i] = |from[i]|
OCTET_CPU_CLONES void magnitudes_of(const double* from, long count, float* to) {
  for (long i = 0; i < count; ++i) to[i] = static_cast<float>(std::fabs(from[i]));
}

constexpr int kDepth = 128;            // of one pass over a tile: its panels fit the L1 cache
constexpr int kGroupRows = 2 * kTile;  // of a, decoded once for all of b

std::int64_t depth_passes(std::int64_t k) { return (k + kDepth - 1) / kDepth; }

int depth_of_pass(std::int64_t pass, std::int64_t k) {
  return static_cast<int>(std::min<std::int64_t>(kDepth, k - pass * kDepth));
}

// One pass of some rows, cut into panels: panel p lies at p * Width * kDepth, [k][Width].
template <int Width>
void decode_rows(const QuantizedView& view, const std::int64_t* rows, int count, std::int64_t pass,
                 double* out) {
  const int depth = depth_of_pass(pass, view.values.cols());
  for (int i = 0; i < count; i += Width) {
    decode_panel(view, rows + i, std::min(Width, count - i), Width, pass * kDepth, depth,
                 out + static_cast<std::ptrdiff_t>(i) * kDepth);
  }
}

// A group of rows of a over the whole contraction.
struct DecodedGroup {
  std::vector<double> values;     // [pass][kGroupRows * kDepth]
  std::vector<float> magnitudes;  // the same

  void decode(const ReferenceProduct& product, const std::int64_t* rows, int count, int threads) {
    constexpr std::int64_t kPass = kGroupRows * kDepth;
    const std::int64_t passes = depth_passes(product.a.values.cols());
    values.resize(static_cast<std::size_t>(passes * kPass));
    if (product.magnitudes) magnitudes.resize(values.size());
    parallel_for(threads, passes, [&](std::int64_t pass) {
      double* out = values.data() + pass * kPass;
      decode_rows<kPanelRows>(product.a, rows, count, pass, out);
      if (product.magnitudes) magnitudes_of(out, kPass, magnitudes.data() + pass * kPass);
    });
  }
};

template <class T>
void multiply_pass(const T* a, int rows, const T* b, int cols, int depth, T* value) {
  for (int j = 0; j < cols; j += kPanelCols) {
    for (int i = 0; i < rows; i += kPanelRows) {
      multiply_panels(a + static_cast<std::ptrdiff_t>(i) * kDepth,
                      b + static_cast<std::ptrdiff_t>(j) * kDepth, depth,
                      value + static_cast<std::ptrdiff_t>(i) * kTile + j);
    }
  }
}

// The product of a group and the 128 rows of b that begin at `first_col`: two tiles at most.
void multiply_group(const ReferenceProduct& product, const DecodedGroup& group,
                    std::int64_t first_row, int rows, std::int64_t first_col,
                    const std::function<void(const ReferenceTile&)>& use) {
  constexpr std::size_t kPass = static_cast<std::size_t>(kGroupRows) * kDepth;
  const std::int64_t k = product.a.values.cols();
  const int cols =
      static_cast<int>(std::min<std::int64_t>(kTile, product.b.values.rows() - first_col));
  std::vector<std::int64_t> b_rows(static_cast<std::size_t>(cols));
  std::iota(b_rows.begin(), b_rows.end(), first_col);
  std::vector<double> b(static_cast<std::size_t>(kTile) * kDepth);
  std::vector<float> b_magnitudes(product.magnitudes ? b.size() : 0);
  std::vector<double> value(static_cast<std::size_t>(kGroupRows) * kTile);
  std::vector<float> magnitude(product.magnitudes ? value.size() : 0);

  for (std::int64_t pass = 0; pass < depth_passes(k); ++pass) {
    const int depth = depth_of_pass(pass, k);
    decode_rows<kPanelCols>(product.b, b_rows.data(), cols, pass, b.data());
    multiply_pass(group.values.data() + pass * kPass, rows, b.data(), cols, depth, value.data());
    if (!product.magnitudes) continue;
    magnitudes_of(b.data(), static_cast<long>(b.size()), b_magnitudes.data());
    multiply_pass(group.magnitudes.data() + pass * kPass, rows, b_magnitudes.data(), cols, depth,
                  magnitude.data());
  }
  for (int row = 0; row < rows; row += kTile) {
    const std::ptrdiff_t offset = static_cast<std::ptrdiff_t>(row) * kTile;
    use({first_row + row, first_col, std::min(kTile, rows - row), cols, value.data() + offset,
         product.magnitudes ? magnitude.data() + offset : nullptr});
  }
}

}  // namespace

void for_each_tile(const ReferenceProduct& product,
                   const std::function<void(const ReferenceTile&)>& use) {
  if (product.a.values.cols() != product.b.values.cols()) {
    refuse_argument("reference product: a and b must have the same K, got a",
                    describe_shape(product.a.values), " and b", describe_shape(product.b.values));
  }
  std::vector<std::int64_t> rows = product.rows;
  if (rows.empty()) {
    rows.resize(static_cast<std::size_t>(product.a.values.rows()));
    std::iota(rows.begin(), rows.end(), 0);
  }
  const int threads = product.threads != 0 ? product.threads : default_threads();
  if (product.a.values.device.type == DeviceType::cuda) {
    return for_each_tile_on_cuda(product, rows, threads, use);
  }
  const auto total = static_cast<std::int64_t>(rows.size());
  const std::int64_t col_tiles = (product.b.values.rows() + kTile - 1) / kTile;
  DecodedGroup group;
  for (std::int64_t first = 0; first < total; first += kGroupRows) {
    const int count = static_cast<int>(std::min<std::int64_t>(kGroupRows, total - first));
    group.decode(product, rows.data() + first, count, threads);
    parallel_for(threads, col_tiles, [&](std::int64_t tile) {
      multiply_group(product, group, first, count, tile * kTile, use);
    });
  }
}

}  // namespace octet
