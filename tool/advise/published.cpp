#include "tool/advise/published.hpp"

#include "tool/results/command_line.hpp"
#include "tool/results/parsed_results.hpp"
#include "tool/results/provenance.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

namespace octet::tool {

// Made by the build, from results/*/dense84*.csv.
std::string_view embedded_result_file(std::string_view name);
std::vector<std::string_view> embedded_result_file_names();

namespace {

struct PublishedRow {
  LayerShape shape;
  const ParsedRow* row;
  std::map<std::string, std::string> options;  // of the problem
  double snr_db;                               // the least; NaN if there is none
  bool other_kernels;                          // than this build has
};

const std::vector<ParsedResults>& embedded_results() {
  static const std::vector<ParsedResults> all = [] {
    std::vector<ParsedResults> results;
    for (const std::string_view name : embedded_result_file_names()) {
      auto parsed = parse_results(embedded_result_file(name), std::string(name));
      if (parsed && std::string_view(parsed->kind->op) == "gemm") {
        results.push_back(std::move(*parsed));
      }
    }
    return results;
  }();
  return all;
}

double least_snr_db(const ParsedResults& results, const bench::Record& record) {
  double least = std::nan("");
  for (const SnrColumn& snr : results.kind->snrs) {
    // G2 is the error of the kernel alone.
    if (std::string_view(snr.gate) != "G2") least = std::fmin(least, record.number(snr.column));
  }
  return least;
}

// The layers as `octet bench gemm --suite dense84` runs them: with casts, and no backend forced.
const std::vector<PublishedRow>& published_rows() {
  static const std::vector<PublishedRow> all = [] {
    std::vector<PublishedRow> rows;
    for (const ParsedResults& results : embedded_results()) {
      for (std::size_t i = 0; i < results.rows.size(); ++i) {
        const bench::Record record = results.record(i);
        const std::string command = record.at("Command");
        const bool is_usual =
            environment_of(command).empty() && !has_option(command, "--backend") &&
            !has_option(command, "--prequantized") && !has_option(command, "--cold") &&
            !has_option(command, "--fast-accumulation");
        if (!results.rows[i].passed() || !is_usual) continue;
        const std::string ours =  // empty without CUDA
            device_sources(digest_of(command, record.at("Configuration")));
        const auto extent = [&](const char* column) {
          return static_cast<std::int64_t>(record.number(column));
        };
        rows.push_back({{extent("M"), extent("N"), extent("K")},
                        &results.rows[i],
                        problem_options_of(command),
                        least_snr_db(results, record),
                        !ours.empty() && ours != record.at("Device Sources")});
      }
    }
    return rows;
  }();
  return all;
}

bool has_options(const PublishedRow& row, const std::vector<std::string>& wanted) {
  for (std::size_t i = 0; i + 1 < wanted.size(); i += 2) {
    const auto found = row.options.find(wanted[i]);
    if (found == row.options.end() || found->second != wanted[i + 1]) return false;
  }
  return true;
}

// The product of the ratios of the extents, at least 1.
double distance(const LayerShape& a, const LayerShape& b) {
  const auto ratio = [](std::int64_t x, std::int64_t y) {
    return static_cast<double>(std::max(x, y)) / static_cast<double>(std::min(x, y));
  };
  return ratio(a.m, b.m) * ratio(a.n, b.n) * ratio(a.k, b.k);
}

}  // namespace

std::vector<std::string> published_gpus() {
  std::set<std::string> gpus;
  for (const PublishedRow& one : published_rows()) gpus.insert(one.row->device);
  return {gpus.begin(), gpus.end()};
}

std::optional<PublishedLayer> published_layer(const Precision& precision, const LayerShape& shape,
                                              const std::string& gpu) {
  const PublishedRow* nearest = nullptr;
  for (const PublishedRow& one : published_rows()) {
    if (one.row->device != gpu || !has_options(one, precision.options)) continue;
    const double far = distance(one.shape, shape);
    if (far <= kFarthestLayer && (nearest == nullptr || far < distance(nearest->shape, shape))) {
      nearest = &one;
    }
  }
  if (nearest == nullptr) return std::nullopt;
  const auto seconds = [&](double operations, double tflops) {
    return Figure{operations / (tflops * 1e12), Source::published};
  };
  PublishedLayer layer;
  layer.layer = nearest->row->label();
  layer.other_kernels = nearest->other_kernels;
  const std::vector<double>& rates = nearest->row->rates;  // forward, backward, step
  layer.cost.forward_seconds = seconds(shape.forward_operations(), rates[0]);
  layer.cost.backward_seconds = seconds(2 * shape.forward_operations(), rates[1]);
  if (!std::isnan(nearest->snr_db)) layer.cost.snr_db = {nearest->snr_db, Source::published};
  return layer;
}

}  // namespace octet::tool
