#include "check/judge/findings.hpp"

#include "check/data/random.hpp"
#include "check/reference/decode.hpp"
#include "check/reference/on_host.hpp"
#include "check/reference/reference.hpp"
#include "core/message.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>

namespace octet {
namespace {

// A bound that every finite output meets.
constexpr double kAnyError = 1e300;

double decibels(double signal, double noise) {
  if (noise == 0) return Findings::kNone;
  return 10 * std::log10(signal / noise);
}

// One pass over the tiles of the reference, and the output in the same orientation: possibly
// transposed, possibly only some of its rows.
struct SearchPass {
  ProductClaim claim;
  ElementBound bound;
  std::vector<std::int64_t> rows;  // empty: all
  bool transposed = false;
  bool strips_down = true;  // columns of tiles are judged as well as rows
  FloatFormat format{};
  double close_factor = 0;  // 1 / sqrt(K)
  bool elements = true;
  bool closeness = false;
  RowsOnHost out{};
  RowsOnHost old{};

  void read_outputs() {
    out = RowsOnHost(claim.out, rows);
    old = RowsOnHost(claim.old, rows);
  }
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

  bool is_judged() const {
    return count >= kStripLength && signal >= kCancelling * kCancelling * scale;
  }
};

class TileSearch {
 public:
  TileSearch(const SearchPass& pass, const ReferenceTile& tile) : pass_(pass), tile_(tile) {}

  Findings search() {
    for (int row = 0; row < tile_.rows; ++row) search_row(row);
    for (int col = 0; pass_.strips_down && col < tile_.cols; ++col) {
      judge_strip({signal_[col], noise_[col], scale_[col], tile_.rows}, col, true);
    }
    return std::move(findings_);
  }

 private:
  void read_row(const RowsOnHost& matrix, int row, double* to) const {
    const std::int64_t at = matrix.find(tile_.first_row + row, pass_.row_of(tile_, row));
    decode_panel(matrix.view(), &at, 1, 1, tile_.first_col, tile_.cols, to);
  }

  // The old output, if any, is part of the reference and one more term of the sum of magnitudes.
  void prepare_row(int row) {
    row_.cols = tile_.cols;
    read_row(pass_.out, row, row_.out);
    double old[kTile] = {};
    if (!pass_.old.empty()) read_row(pass_.old, row, old);
    for (int col = 0; col < tile_.cols; ++col) {
      const int i = row * kTile + col;
      row_.ref[col] = tile_.value[i] + old[col];
      row_.magnitude[col] =
          tile_.magnitude != nullptr ? double{tile_.magnitude[i]} + std::fabs(old[col]) : 1;
    }
  }

  void search_row(int row) {
    prepare_row(row);
    row_.judge(pass_.bound, pass_.format);
    const Largest worst = largest(row_.share);
    if (worst.value > findings_.element_share) {
      name_element(pass_.row_of(tile_, row), tile_.first_col + worst.index, worst.value,
                   row_.out[worst.index], row_.ref[worst.index]);
    }
    if (pass_.closeness) find_closeness();
    const Strip along{energy(row_.ref), energy(row_.error), energy(row_.magnitude), row_.counted};
    findings_.signal += along.signal;
    findings_.noise += along.noise;
    findings_.fourth_powers += fourth_powers(row_.ref);
    judge_strip(along, row, false);
    if (!pass_.strips_down) return;
    add_squares(row_.ref, signal_);
    add_squares(row_.error, noise_);
    add_squares(row_.magnitude, scale_);
  }

  void find_closeness() {
    for (int col = 0; col < tile_.cols; ++col) {
      if (row_.error[col] == 0) continue;
      const double wanted =
          0.01 * (std::fabs(row_.ref[col]) + row_.magnitude[col] * pass_.close_factor);
      findings_.close_share =
          std::max(findings_.close_share, wanted > 0 ? row_.error[col] / wanted : Findings::kNone);
    }
  }

  void name_element(std::int64_t row, std::int64_t col, double share, double out, double ref) {
    if (pass_.transposed) std::swap(row, col);
    findings_.element_share = share;
    if (share <= 1) return;
    findings_.element = text("row ", row, ", column ", col, ": ", out, " instead of ", ref);
  }

  void judge_strip(const Strip& strip, int index, bool down) {
    if (!strip.is_judged()) return;
    const double db = decibels(strip.signal, strip.noise);
    if (!(db < findings_.strip_db)) return;
    findings_.strip_db = db;
    const std::int64_t across = down ? tile_.first_col + index : pass_.row_of(tile_, index);
    const std::int64_t first = down ? tile_.first_row : tile_.first_col;
    const bool is_column = down != pass_.transposed;
    findings_.strip =
        text(is_column ? "column " : "row ", across, is_column ? ", rows " : ", columns ", first,
             "..", first + (down ? tile_.rows : tile_.cols) - 1);
  }

  const SearchPass& pass_;
  const ReferenceTile& tile_;
  RowErrors row_;
  double signal_[kTile] = {};  // of the strips down the columns
  double noise_[kTile] = {};
  double scale_[kTile] = {};
  Findings findings_;
};

void merge(Findings& into, Findings&& part) {
  into.signal += part.signal;
  into.noise += part.noise;
  into.fourth_powers += part.fourth_powers;
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

void search_tiles(SearchPass& pass, int threads, Findings& findings) {
  pass.read_outputs();
  std::mutex mutex;
  for_each_tile({pass.claim.a, pass.claim.b, pass.rows, pass.elements, threads},
                [&](const ReferenceTile& tile) {
                  Findings part = TileSearch(pass, tile).search();
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

Findings search_product(const ProductClaim& claim, const SearchOptions& options) {
  SearchPass pass;
  pass.claim = claim;
  pass.bound = options.elements ? options.bound : ElementBound{0, kAnyError};
  pass.elements = options.elements;
  pass.closeness = options.closeness;
  pass.format = float_format(claim.out.dtype);
  pass.close_factor = 1 / std::sqrt(static_cast<double>(claim.a.values.cols()));
  Findings findings;
  findings.outputs = claim.out.rows() * claim.out.cols();
  findings.sampled = findings.outputs > options.sample_beyond;
  if (!findings.sampled) {
    search_tiles(pass, options.threads, findings);
    return findings;
  }
  pass.strips_down = false;
  pass.rows = sample_rows(claim.out.rows(), {options.seed, 0});
  search_tiles(pass, options.threads, findings);
  pass.claim = transposed(claim);
  pass.transposed = true;
  pass.rows = sample_rows(claim.out.cols(), {options.seed, 1});
  search_tiles(pass, options.threads, findings);
  return findings;
}

}  // namespace octet
