#include "tool/advise/precisions.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace octet::tool {
namespace {

// What octet reaches on one GPU, as a geometric mean over shapes of real models.
struct GpuRates {
  const char* gpu;
  double fp8_tflops;              // products whose slices have one scale, or none
  double fp8_both_scaled_tflops;  // 1x128 . 1x128
  double bf16_tflops;
  double cast_bytes_per_second;
  double seconds_per_launch;  // of the host, below which no launch of a chain takes less
};

// H200: results/h200/peers12.csv, rows of octet: forward 1237, dgrad 1242, wgrad 2d 1230; wgrad 1d
// 972 (tools/peers.py --op gemm). With a scale per row they are as fast, 1253, 1248 and 1244, and bf16
// has 657, 677 and 675 (granularity_peers.csv, the same 12 shapes); a scale per tensor is taken to be
// as fast as one per row. Casts: results/h200/quantize.csv, 3.77 TB/s both ways in 1x128, 3.76 in
// 128x128. Launches: results/h200/host.csv, 3.44 us for run(gemm).
constexpr GpuRates kMeasuredRates[] = {{"NVIDIA H200", 1237, 972, 670, 3.77e12, 3.44e-6}};

constexpr double kTera = 1e12;

std::vector<std::string> fp8(std::initializer_list<const char*> more) {
  std::vector<std::string> options{"--dtype", "fp8", "--granularity"};
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

double elements(std::int64_t rows, std::int64_t cols) {
  return static_cast<double>(rows) * static_cast<double>(cols);
}

// A cast of 16-bit elements both ways: a byte per element and copy. Scales are left out.
double cast_bytes(const Precision& precision, double count) {
  return precision.reads == 0 ? 0 : (2.0 * precision.reads + 2) * count;
}

Figure calculated(double value) { return {value, Source::calculated}; }

}  // namespace

std::string LayerShape::text() const { return fmt::format("{}x{}x{}", m, n, k); }

double LayerShape::forward_operations() const {
  return 2 * elements(m, n) * static_cast<double>(k);
}

const char* name(Source source) {
  switch (source) {
    case Source::measured: return "measured here";
    case Source::published: return "published";
    case Source::calculated: return "calculated";
    default: return "";
  }
}

const std::vector<Precision>& precisions() {
  static const std::vector<Precision> all{
      {"bf16", {"--dtype", "bf16"}},
      {"fp8 blockwise 1d", fp8({"blockwise", "--wgrad-blocks", "1d"}), 28.6, 1, kBlock1x128,
       kBlock128x128, true},
      {"fp8 blockwise 2d", fp8({"blockwise", "--wgrad-blocks", "2d"}), 28.6, 1, kBlock128x128,
       kBlock128x128},
      {"fp8 tensorwise", fp8({"tensorwise"}), 28.5, 2, kWholeTensor, kWholeTensor},
      {"fp8 rowwise", fp8({"rowwise"}), 28.5, 2, kEachRow, kEachRow},
      // Folded to the blocks of blockwise.
      {"mxfp8 1d", fp8({"mxfp8", "--wgrad-blocks", "1d"}), 27.6, 1, kBlock1x128, kBlock128x128,
       true},
      {"mxfp8 2d", fp8({"mxfp8", "--wgrad-blocks", "2d"}), 28.0, 1, kBlock128x128, kBlock128x128}};
  return all;
}

double saved_bytes(const Precision& precision, const LayerShape& shape) {
  if (precision.x_t == kUnscaled) return 2 * elements(shape.m, shape.k);
  return static_cast<double>(QuantizedLayout(shape.k, shape.m, Dtype::e4m3, precision.x_t).bytes +
                             QuantizedLayout(shape.k, shape.n, Dtype::e4m3, precision.w_t).bytes);
}

LayerCost calculated_cost(const Precision& precision, const LayerShape& shape,
                          const std::string& gpu) {
  const auto rates = std::find_if(std::begin(kMeasuredRates), std::end(kMeasuredRates),
                                  [&](const GpuRates& one) { return one.gpu == gpu; });
  if (rates == std::end(kMeasuredRates)) return {};
  const bool is_fp8 = precision.reads > 0;
  const double x = elements(shape.m, shape.k);
  const double w = elements(shape.n, shape.k);
  const double y = elements(shape.m, shape.n);
  const double operand_bytes = is_fp8 ? 1 : 2;
  // Few tokens: a product takes as long as the copy of its tensors.
  const auto product = [&](double left, double right, double out, double tflops) {
    return std::max(shape.forward_operations() / (tflops * kTera),
                    (operand_bytes * (left + right) + 2 * out) / rates->cast_bytes_per_second);
  };
  const double tflops = is_fp8 ? rates->fp8_tflops : rates->bf16_tflops;
  const double wgrad_tflops =
      precision.slices_scaled_twice ? rates->fp8_both_scaled_tflops : tflops;
  const double forward_casts = cast_bytes(precision, x + w) / rates->cast_bytes_per_second;
  const double backward_casts = cast_bytes(precision, y) / rates->cast_bytes_per_second;
  // Two casts and one product, then one cast and two products.
  const auto launched = [&](double seconds, int casts, int products) {
    const int launches = casts * precision.reads + products;
    return calculated(std::max(seconds, launches * rates->seconds_per_launch));
  };
  return {
      launched(forward_casts + product(x, w, y, tflops), 2, 1),
      launched(backward_casts + product(y, w, x, tflops) + product(y, x, w, wgrad_tflops), 1, 2),
      is_fp8 ? launched(forward_casts + backward_casts, 3, 0) : Figure{},
      is_fp8 ? calculated(precision.normal_snr_db) : Figure{}};
}

}  // namespace octet::tool
