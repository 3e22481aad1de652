// What the blocks of rms_norm to FP8 do (cuda_sm90_tile.cuh): a map of block numbers that host tests
// cover.
#pragma once

#include "core/numeric.hpp"

namespace octet::sm90 {

struct RmsNormBlocks {
  unsigned finders;      // per band of 128 rows, that find its root mean squares
  unsigned tiles;        // per band, each made by a block
  unsigned bands;        // of the matrix
  unsigned bands_ahead;  // by which a band's root mean squares are found before its tiles are made

  OCTET_HOST_DEVICE constexpr unsigned per_group() const { return finders + tiles; }
  OCTET_HOST_DEVICE constexpr unsigned count() const { return (bands + bands_ahead) * per_group(); }
};

struct RmsNormRole {
  bool finds;  // or makes a tile
  bool idle;   // at both ends of the matrix some have nothing to do
  unsigned band;
  unsigned index;  // among the finders or makers of the band
};

// Blocks come in groups: the finders of a band and the makers of the band `bands_ahead` before it, taking
// turns as long as there are both, so that memory is asked for evenly.
OCTET_HOST_DEVICE constexpr RmsNormRole role_of(const RmsNormBlocks& blocks, unsigned block) {
  const unsigned group = block / blocks.per_group();
  const unsigned part = block - group * blocks.per_group();
  const unsigned turns = blocks.finders < blocks.tiles ? blocks.finders : blocks.tiles;
  const bool in_turn = part < 2 * turns;
  const bool finds = in_turn ? part % 2 == 0 : blocks.finders > blocks.tiles;
  const unsigned band = finds ? group : group - blocks.bands_ahead;
  return {finds, band >= blocks.bands, band, in_turn ? part / 2 : part - turns};
}

}  // namespace octet::sm90
