#include "tool/results/result_kind.hpp"

#include "tool/results/command_line.hpp"

#include <fmt/format.h>

#include <limits>
#include <stdexcept>
#include <utility>

namespace octet::tool {
namespace {

double no_intensity(const bench::Record& /*record*/) {
  return std::numeric_limits<double>::quiet_NaN();
}

// 6 MNK operations; x, w, y, dy, dx and dw of 16 bits each.
double layer_intensity(const bench::Record& record) {
  const double m = record.number("M");
  const double n = record.number("N");
  const double k = record.number("K");
  return 6 * m * n * k / (4 * (m * n + n * k + m * k));
}

// 2 MNK operations; two operands of 8 bits and a result of 16.
double product_intensity(const bench::Record& record) {
  const double m = record.number("M");
  const double n = record.number("N");
  const double k = record.number("K");
  return 2 * m * n * k / (m * k + n * k + 2 * m * n);
}

std::vector<RateColumn> step_tflops() {
  return {{"forward", "Forward TFLOPS"},
          {"backward", "Backward TFLOPS"},
          {"step", "Combined Step TFLOPS"}};
}

std::vector<RateColumn> part_ratios() {
  return {{"forward", "Forward Ratio"}, {"backward", "Backward Ratio"}};
}

ResultKind gemm_kind() {
  return {.op = "gemm",
          .about = "one linear layer, forward and backward",
          .shape = {"M", "N", "K"},
          .name_column = "Case",
          .rates = step_tflops(),
          .time = "Combined Step Time (ms)",
          .unit = "TFLOPS",
          .baselines = {{"Combined Ratio", "Baseline", nullptr, part_ratios()}},
          .snrs = {{"Forward G1 SNR (dB)", "G1", 25},
                   {"dX G1 SNR (dB)", "G1", 25},
                   {"dW G1 SNR (dB)", "G1", 25},
                   {"Forward G2 SNR (dB)", "G2", 50},
                   {"dX G2 SNR (dB)", "G2", 50},
                   {"dW G2 SNR (dB)", "G2", 50},
                   {"Forward G4 SNR (dB)", "G4", 45},
                   {"dX G4 SNR (dB)", "G4", 45},
                   {"dW G4 SNR (dB)", "G4", 45}},
          .intensity = layer_intensity,
          .intensity_text =
              "6MNK over the bytes of x, w, y, dy, dx and dw in 16 bits, each moved once"};
}

// 6 MNK operations; x, y, dy and dx of M rows, and w and dw of every group, of 16 bits each.
double grouped_intensity(const bench::Record& record) {
  const double m = record.number("M");
  const double n = record.number("N");
  const double k = record.number("K");
  return 6 * m * n * k / (4 * (m * n + record.number("B") * n * k + m * k));
}

ResultKind grouped_gemm_kind() {
  ResultKind kind = gemm_kind();
  kind.op = "grouped-gemm";
  kind.about = "the linear layers of groups of rows, forward and backward";
  kind.is_named_in_rows = true;
  kind.shape = {"B", "M", "N", "K"};
  kind.shape_options = {"--groups"};
  kind.baselines = {};
  kind.intensity = grouped_intensity;
  kind.intensity_text =
      "6MNK over the bytes of x, y, dy and dx, and of w and dw of every group, in 16 bits";
  return kind;
}

ResultKind quantize_kind() {
  return {.op = "quantize",
          .about = "one cast",
          .shape = {"Rows", "Cols"},
          .rates = {{"step", "GB/s"}},
          .time = "Time (ms)",
          .unit = "TB/s",
          .column_per_unit = 1000,
          .baselines = {{"Memcpy Ratio", nullptr, "copy of the same bytes"}},
          .has_ceiling = true,
          .intensity = no_intensity};
}

// A memory-bound operator with forward and backward; all such operators share their columns.
ResultKind memory_kind(const char* op) {
  return {.op = op,
          .about = "an operator that memory bounds, forward and backward",
          .is_named_in_rows = true,
          .shape = {"Shape"},
          .name_column = "Case",
          .rates = {{"forward", "Forward GB/s"},
                    {"backward", "Backward GB/s"},
                    {"step", "Combined Step GB/s"}},
          .time = "Combined Step Time (ms)",
          .unit = "TB/s",
          .column_per_unit = 1000,
          .baselines = {{"Combined Copy Ratio", nullptr, "copy of the same bytes"}},
          .snrs = {{"Forward SNR (dB)", "E1", 45}, {"Backward SNR (dB)", "E1", 45}},
          .has_ceiling = true,
          .intensity = no_intensity};
}

// A memory-bound operator with one call.
ResultKind update_kind(const char* op, const char* about) {
  return {.op = op,
          .about = about,
          .is_named_in_rows = true,
          .shape = {"Shape"},
          .name_column = "Case",
          .rates = {{"step", "GB/s"}},
          .time = "Time (ms)",
          .unit = "TB/s",
          .column_per_unit = 1000,
          .baselines = {{"Copy Ratio", nullptr, "copy of the same bytes"}},
          .snrs = {{"SNR (dB)", "E1", 45}},
          .has_ceiling = true,
          .intensity = no_intensity};
}

// Forward has 4 MFK operations, 6 with --down; backward has twice as many.
double mlp_intensity(const bench::Record& record) {
  const bool down = has_option(record.at("Options"), "--down");
  return 3 * (down ? 6 : 4) * record.number("M") * record.number("F") * record.number("K") /
         (record.number("Forward Bytes") + record.number("Backward Bytes"));
}

// Every token has as many rows as experts: the operations are in the rates.
double moe_mlp_intensity(const bench::Record& record) {
  return record.number("Combined Step TFLOPS") * 1e12 *
         (record.number("Combined Step Time (ms)") * 1e-3) /
         (record.number("Forward Bytes") + record.number("Backward Bytes"));
}

ResultKind moe_mlp_kind() {
  return {.op = "moe-mlp",
          .about = "a layer of experts, forward and backward",
          .is_named_in_rows = true,
          .shape = {"M", "F", "K"},
          .name_column = "Case",
          .rates = step_tflops(),
          .time = "Combined Step Time (ms)",
          .unit = "TFLOPS",
          .intensity = moe_mlp_intensity,
          .intensity_text = "the operations of its products over the bytes of every launch"};
}

ResultKind gated_mlp_kind() {
  return {.op = "gated-mlp",
          .about = "a gated MLP, forward and backward",
          .is_named_in_rows = true,
          .shape = {"M", "F", "K"},
          .name_column = "Case",
          .rates = step_tflops(),
          .time = "Combined Step Time (ms)",
          .unit = "TFLOPS",
          .baselines = {{"Combined Ratio", nullptr, "octet unfused", part_ratios()}},
          .intensity = mlp_intensity,
          .intensity_text = "the operations of its products over the bytes of every launch"};
}

// 6 MVK operations; x, w, dx and dw of 16 bits each, and FP8 dlogits written and read twice.
double head_intensity(const bench::Record& record) {
  const double m = record.number("M");
  const double v = record.number("V");
  const double k = record.number("K");
  return 6 * m * v * k / (4 * (m * k + v * k) + 4 * m * v);
}

ResultKind linear_cross_entropy_kind() {
  return {.op = "linear-cross-entropy",
          .about = "the head of a language model and its loss, with both gradients",
          .is_named_in_rows = true,
          .shape = {"M", "V", "K"},
          .name_column = "Case",
          .rates = {{"forward", "Loss TFLOPS"}, {"step", "Combined Step TFLOPS"}},
          .time = "Combined Step Time (ms)",
          .unit = "TFLOPS",
          .intensity = head_intensity,
          .intensity_text =
              "6MVK over the bytes of x, w, dx and dw in 16 bits, and of the gradient "
              "of the logits in FP8, written and read both ways"};
}

// Operations of the step over the bytes of q, k, v, out and their gradients in 16 bits.
double attention_intensity(const bench::Record& record) {
  const double rows_q = record.number("Batch") * record.number("SeqLen");
  const double rows_kv = record.number("Batch") * record.number("SeqLenKV");
  const double dims = record.number("head_dim_qk") + record.number("head_dim_v");
  const double elements =
      dims * (rows_q * record.number("num_head_q") + rows_kv * record.number("num_head_kv"));
  return record.number("Combined Step TFLOPS") * 1e12 *
         (record.number("Combined Step Time (ms)") * 1e-3) / (4 * elements);
}

ResultKind attention_kind() {
  return {.op = "attention",
          .about = "attention, forward and backward",
          .is_named_in_rows = true,
          .shape = {"Batch", "SeqLen", "SeqLenKV", "num_head_q", "num_head_kv", "head_dim_qk",
                    "head_dim_v"},
          // Lengths of a spread are drawn for batch and seq, and so is their total.
          .shape_options = {"--batch", "--seq", "--heads", "--head-dim", "--total"},
          .name_column = "Case",
          .rates = step_tflops(),
          .time = "Combined Step Time (ms)",
          .unit = "TFLOPS",
          .baselines = {{"Combined Ratio", "Baseline", nullptr, part_ratios()}},
          .snrs = {{"Forward SNR (dB)", "A1", 50}, {"Backward SNR (dB)", "A1", 48}},
          .intensity = attention_intensity,
          .intensity_text =
              "3.5 times the operations of forward over the bytes of q, k, v, out "
              "and their gradients in 16 bits"};
}

// Written by tools/peers.py for memory-bound operators: one row per call and library.
ResultKind peers_memory_kind(const char* op, std::vector<const char*> shape) {
  return {.op = op,
          .about = "one call of a library, interleaved with the others",
          .shape = std::move(shape),
          .variant = {"Dtype", "Product"},
          .backend = "Library",
          .backend_is_key = true,
          .paired_ratio = "Ratio",
          .rates = {{"step", "TB/s"}},
          .time = "Time (ms)",
          .unit = "TB/s",
          .intensity = no_intensity};
}

// Written by tools/peers.py: one row per product and library.
ResultKind peers_kind() {
  return {.op = "product",
          .about = "one product of a library, interleaved with the others",
          .shape = {"M", "N", "K"},
          .variant = {"Dtype", "Product"},
          .backend = "Library",
          .backend_is_key = true,
          .paired_ratio = "Ratio",
          .rates = {{"step", "TFLOPS"}},
          .unit = "TFLOPS",
          .intensity = product_intensity,
          .intensity_text = "2MNK over the bytes of two FP8 operands and a 16-bit result"};
}

// The same of layers drawn at random, which have names.
ResultKind peers_random_kind() {
  ResultKind kind = peers_kind();
  kind.op = "random product";
  kind.name_column = "Case";
  return kind;
}

// 2 MNK operations; two FP8 operands, of which every group has its own weights, and a result of 16
// bits.
double grouped_product_intensity(const bench::Record& record) {
  const double m = record.number("M");
  const double n = record.number("N");
  const double k = record.number("K");
  return 2 * m * n * k / (m * k + record.number("Groups") * n * k + 2 * m * n);
}

ResultKind peers_grouped_kind() {
  ResultKind kind = peers_kind();
  kind.op = "grouped product";
  kind.shape = {"Groups", "M", "N", "K"};
  kind.variant = {"Dtype", "Product", "Group Sizes"};
  kind.intensity = grouped_product_intensity;
  kind.intensity_text =
      "2MNK over the bytes of two FP8 operands, the weights of every group, and a 16-bit result";
  return kind;
}

// Written by tools/peers.py for whole layers: one row per pass and library.
ResultKind peers_layer_kind(const char* op, std::vector<const char*> shape,
                            std::vector<const char*> variant) {
  ResultKind kind = peers_kind();
  kind.op = op;
  kind.about = "one pass of a library's layer, interleaved with the others";
  kind.shape = std::move(shape);
  kind.variant = std::move(variant);
  kind.intensity = no_intensity;
  kind.intensity_text = "";
  return kind;
}

std::vector<std::string> own_columns(const ResultKind& kind) {
  std::vector<std::string> columns(kind.shape.begin(), kind.shape.end());
  if (kind.is_named_in_rows) columns.emplace_back(kOperatorColumn);
  columns.insert(columns.end(), kind.variant.begin(), kind.variant.end());
  if (kind.name_column != nullptr) columns.emplace_back(kind.name_column);
  if (kind.time != nullptr) columns.emplace_back(kind.time);
  for (const RateColumn& rate : kind.rates) columns.emplace_back(rate.column);
  return columns;
}

bool has(const bench::Row& header, const std::string& column) {
  return std::find(header.begin(), header.end(), column) != header.end();
}

// The share of the kind's own columns that are in the header.
double likeness(const ResultKind& kind, const bench::Row& header) {
  const std::vector<std::string> columns = own_columns(kind);
  const auto present =
      std::count_if(columns.begin(), columns.end(),
                    [&](const std::string& column) { return has(header, column); });
  return static_cast<double>(present) / static_cast<double>(columns.size());
}

}  // namespace

const std::vector<ResultKind>& result_kinds() {
  static const std::vector<ResultKind> kinds{
      gemm_kind(),
      quantize_kind(),
      update_kind("dequantize", "FP8 to 16 or 32 bits"),
      update_kind("repack", "a quantised tensor into octet's layout"),
      memory_kind("rms-norm"),
      memory_kind("rope"),
      memory_kind("rms-norm-rope"),
      memory_kind("gated-activation"),
      gated_mlp_kind(),
      linear_cross_entropy_kind(),
      update_kind("adamw", "a step of an optimiser over one parameter"),
      grouped_gemm_kind(),
      memory_kind("moe-route"),
      update_kind("moe-maps", "the rows of every choice of an expert"),
      memory_kind("moe-permute"),
      memory_kind("moe-unpermute"),
      moe_mlp_kind(),
      attention_kind(),
      peers_grouped_kind(),  // both before the kind whose columns they have, too
      peers_random_kind(),
      peers_kind(),
      peers_layer_kind("experts", {"Tokens", "F", "K", "Experts", "Top K"}, {"Dtype", "Product"}),
      peers_layer_kind(
          "attention pass",
          {"Batch", "SeqLen", "num_head_q", "num_head_kv", "head_dim_qk", "head_dim_v"},
          {"Dtype", "Product", "Mask"}),
      peers_memory_kind("kernel", {"Rows", "Cols"}),
      peers_memory_kind("rotation", {"Batch", "Seq", "Hidden"})};
  return kinds;
}

const ResultKind& result_kind(std::string_view op) {
  const auto found = std::find_if(result_kinds().begin(), result_kinds().end(),
                                  [&](const ResultKind& kind) { return kind.op == op; });
  if (found == result_kinds().end())
    throw std::logic_error(fmt::format("no kind of results is called {}", op));
  return *found;
}

std::string shape_of(const ResultKind& kind, const bench::Record& record) {
  std::vector<std::string> extents;
  extents.reserve(kind.shape.size());
  for (const char* column : kind.shape) extents.push_back(record.at(column));
  return fmt::format("{}", fmt::join(extents, "x"));
}

double rate_of(const ResultKind& kind, const bench::Record& record) {
  return record.number(kind.rates.back().column) / kind.column_per_unit;
}

const ResultKind* kind_of(const bench::Row& header, const bench::Row& row) {
  const ResultKind* best = nullptr;
  const std::string op = bench::Record(header, row).at(kOperatorColumn);
  // Shape columns are not enough to identify a kind: they are up to 3 of 5 columns.
  double most = 2.0 / 3;
  for (const ResultKind& kind : result_kinds()) {
    if (kind.is_named_in_rows && kind.op != op) continue;
    // A kind that the row names has all columns of the kind it extends.
    const double share = likeness(kind, header);
    const bool extends = best != nullptr && kind.is_named_in_rows;
    if (share < most || (share == most && !extends)) continue;
    best = &kind;
    most = share;
  }
  return best;
}

std::vector<std::string> missing_columns(const ResultKind& kind, const bench::Row& header) {
  std::vector<std::string> columns{"GPU", "Check", kind.backend, "Commit", "Command"};
  for (const std::string& column : own_columns(kind)) columns.push_back(column);
  std::erase_if(columns, [&](const std::string& column) { return has(header, column); });
  return columns;
}

}  // namespace octet::tool
