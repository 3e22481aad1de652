#include "check/findings.hpp"

#include "check/decode.hpp"
#include "check/random.hpp"
#include "check/reference.hpp"
#include "core/message.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>

namespace octet {
namespace {

double decibels(double signal, double noise) {
  if (noise == 0) return Findings::kNone;
  return 10 * std::log10(signal / noise);
}

struct FloatFormat {
  double half_ulp_of_one;
  double smallest_normal;
  double overflow;  // the smallest magnitude that rounds to infinity
};

FloatFormat float_format(Dtype dtype) {
  if (dtype == Dtype::f16) return {std::ldexp(1, -11), std::ldexp(1, -14), 65520};
  const double half_ulp = std::ldexp(1, dtype == Dtype::bf16 ? -8 : -24);
  return {half_ulp, std::ldexp(1, -126), std::ldexp(2 - half_ulp, 127)};
}

// Half the distance of neighbours in the format around a magnitude.
double half_ulp(const FloatFormat& format, double magnitude) {
  const double power_of_two =
      std::bit_cast<double>(std::bit_cast<std::uint64_t>(magnitude) & 0x7FF0000000000000u);
  return std::max(power_of_two, format.smallest_normal) * format.half_ulp_of_one;
}

// The output as the reference sees it: perhaps transposed, perhaps only some of its rows.
struct Comparison {
  ProductClaim claim;
  ElementBound bound;
  std::vector<std::int64_t> rows;  // empty: all
  bool transposed = false;
  bool strips_down = true;  // columns of tiles are judged as well as rows
  FloatFormat format{};
  double close_factor = 0;  // 1 / sqrt(K)
  bool elements = true;

  std::int64_t row_of(const ReferenceTile& tile, int row) const {
    const std::int64_t index = tile.first_row + row;
    return rows.empty() ? index : rows[static_cast<std::size_t>(index)];
  }
};

struct Strip {
  double signal = 0;
  double noise = 0;
  double scale = 0;  // energy of sum |a * b|
  int count = 0;

  void add(double ref, double error, double magnitude) {
    signal += ref * ref;
    noise += error * error;
    scale += magnitude * magnitude;
    ++count;
  }
  bool is_judged() const {
    return count >= kStripLength && signal >= kCancelling * kCancelling * scale;
  }
};

// How an element compares: its error, and what it may be.
struct Element {
  double error = 0;
  double share = 0;
  bool counts = true;  // towards SNRs; false where reference and output are rightly not finite
};

Element judge_element(const Comparison& comparison, double out, double ref, double magnitude) {
  if (!std::isfinite(ref)) return {0, std::isfinite(out) ? Findings::kNone : 0, false};
  const double slack =
      comparison.bound.relative * magnitude + (magnitude > 0 ? comparison.bound.absolute : 0);
  if (!std::isfinite(out)) {
    const bool overflow = std::isinf(out) && std::signbit(out) == std::signbit(ref) &&
                          std::fabs(ref) + slack >= comparison.format.overflow;
    return {overflow ? 0 : Findings::kNone, overflow ? 0 : Findings::kNone, !overflow};
  }
  const double error = std::fabs(out - ref);
  if (error == 0) return {};
  if (ref == 0 && magnitude == 0) return {error, Findings::kNone, true};
  return {error, error / (half_ulp(comparison.format, std::fabs(ref) + slack) + slack), true};
}

class TileSearch {
 public:
  TileSearch(const Comparison& comparison, const ReferenceTile& tile)
      : comparison_(comparison), tile_(tile) {}

  Findings search() {
    for (int row = 0; row < tile_.rows; ++row) search_row(row);
    for (int col = 0; comparison_.strips_down && col < tile_.cols; ++col) {
      judge_strip(down_[col], col, true);
    }
    return std::move(findings_);
  }

 private:
  void read_row(const TensorView& matrix, std::int64_t row, double* to) const {
    decode_panel(matrix, &row, 1, 1, tile_.first_col, tile_.cols, to);
  }

  void search_row(int row) {
    const std::int64_t out_row = comparison_.row_of(tile_, row);
    double out[kTile];
    double old[kTile] = {};
    read_row(comparison_.claim.out, out_row, out);
    if (comparison_.claim.old.data != nullptr) read_row(comparison_.claim.old, out_row, old);
    Strip along;
    double worst = findings_.element_share;
    int worst_col = -1;
    for (int col = 0; col < tile_.cols; ++col) {
      const int i = row * kTile + col;
      const double ref = tile_.value[i] + old[col];
      const double magnitude =
          comparison_.elements ? double{tile_.magnitude[i]} + std::fabs(old[col]) : 0;
      const Element element = judge_element(comparison_, out[col], ref, magnitude);
      if (element.share > worst) {
        worst = element.share;
        worst_col = col;
      }
      if (!element.counts) continue;
      const double close = 0.01 * (std::fabs(ref) + magnitude * comparison_.close_factor);
      if (element.error > findings_.close_share * close) {
        findings_.close_share = close > 0 ? element.error / close : Findings::kNone;
      }
      along.add(ref, element.error, magnitude);
      down_[col].add(ref, element.error, magnitude);
    }
    if (worst_col >= 0) {
      const double ref = tile_.value[row * kTile + worst_col] + old[worst_col];
      name_element(out_row, tile_.first_col + worst_col, worst, out[worst_col], ref);
    }
    findings_.signal += along.signal;
    findings_.noise += along.noise;
    judge_strip(along, row, false);
  }

  void name_element(std::int64_t row, std::int64_t col, double share, double out, double ref) {
    if (comparison_.transposed) std::swap(row, col);
    findings_.element_share = share;
    if (share <= 1) return;
    findings_.element = text("row ", row, ", column ", col, ": ", out, " instead of ", ref);
  }

  void judge_strip(const Strip& strip, int index, bool down) {
    if (!strip.is_judged()) return;
    const double db = decibels(strip.signal, strip.noise);
    if (!(db < findings_.strip_db)) return;
    findings_.strip_db = db;
    const std::int64_t across = down ? tile_.first_col + index : comparison_.row_of(tile_, index);
    const std::int64_t first = down ? tile_.first_row : tile_.first_col;
    const bool is_column = down != comparison_.transposed;
    findings_.strip =
        text(is_column ? "column " : "row ", across, is_column ? ", rows " : ", columns ", first,
             "..", first + (down ? tile_.rows : tile_.cols) - 1);
  }

  const Comparison& comparison_;
  const ReferenceTile& tile_;
  Strip down_[kTile];
  Findings findings_;
};

void merge(Findings& into, Findings&& part) {
  into.signal += part.signal;
  into.noise += part.noise;
  into.close_share = std::max(into.close_share, part.close_share);
  if (part.strip_db < into.strip_db) {
    into.strip_db = part.strip_db;
    into.strip = std::move(part.strip);
  }
  if (part.element_share > into.element_share) {
    into.element_share = part.element_share;
    into.element = std::move(part.element);
  }
}

void search_tiles(const Comparison& comparison, int threads, Findings& findings) {
  std::mutex mutex;
  for_each_tile(
      {comparison.claim.a, comparison.claim.b, comparison.rows, comparison.elements, threads},
      [&](const ReferenceTile& tile) {
        Findings part = TileSearch(comparison, tile).search();
        const std::lock_guard lock(mutex);
        merge(findings, std::move(part));
      });
}

ProductClaim transposed(const ProductClaim& claim) {
  ProductClaim result{octet::transposed(claim.out), claim.b, claim.a, {}};
  if (claim.old.data != nullptr) result.old = octet::transposed(claim.old);
  return result;
}

// One row of every tile of rows.
std::vector<std::int64_t> sample_rows(std::int64_t rows, RandomStream stream) {
  std::vector<std::int64_t> result;
  for (std::int64_t first = 0; first < rows; first += kTile) {
    const auto left = static_cast<std::uint32_t>(std::min<std::int64_t>(kTile, rows - first));
    result.push_back(first + random_below(stream, RandomUse::sample, result.size(), left));
  }
  return result;
}

}  // namespace

double Findings::snr_db() const { return decibels(signal, noise); }

Findings compare(const ProductClaim& claim, const SearchOptions& options) {
  Comparison comparison;
  comparison.claim = claim;
  comparison.bound = options.bound;
  comparison.elements = options.elements;
  comparison.format = float_format(claim.out.dtype);
  comparison.close_factor = 1 / std::sqrt(static_cast<double>(claim.a.values.cols()));
  Findings findings;
  findings.outputs = claim.out.rows() * claim.out.cols();
  findings.sampled = findings.outputs > options.sample_beyond;
  if (!findings.sampled) {
    search_tiles(comparison, options.threads, findings);
    return findings;
  }
  comparison.strips_down = false;
  comparison.rows = sample_rows(claim.out.rows(), {options.seed, 0});
  search_tiles(comparison, options.threads, findings);
  comparison.claim = transposed(claim);
  comparison.transposed = true;
  comparison.rows = sample_rows(claim.out.cols(), {options.seed, 1});
  search_tiles(comparison, options.threads, findings);
  return findings;
}

}  // namespace octet
