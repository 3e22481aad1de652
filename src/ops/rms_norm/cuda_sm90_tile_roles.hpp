// The roles of the blocks of rms_norm to FP8 (cuda_sm90_tile.cuh): a map of block numbers that host
// tests cover.
#pragma once

#include "core/numeric.hpp"

namespace octet::sm90 {

struct RmsNormBlocks {
  unsigned rstd_blocks;  // blocks per band of 128 rows that compute its rstd
  unsigned tiles;        // blocks per band that cast a tile each
  unsigned bands;        // of the matrix
  unsigned bands_ahead;  // how many bands the rstd blocks run ahead of the tile blocks

  OCTET_HOST_DEVICE constexpr unsigned per_group() const { return rstd_blocks + tiles; }
  OCTET_HOST_DEVICE constexpr unsigned count() const { return (bands + bands_ahead) * per_group(); }
};

struct RmsNormRole {
  bool computes_rstd;  // or casts a tile
  bool idle;           // some blocks at both ends of the matrix have no work
  unsigned band;
  unsigned index;  // among the blocks of the band with the same role
};

// A group of blocks has the rstd blocks of one band and the tile blocks of the band `bands_ahead`
// before it. The two roles alternate as long as there are blocks of both, which spreads the load on
// memory evenly.
OCTET_HOST_DEVICE constexpr RmsNormRole role_of(const RmsNormBlocks& blocks, unsigned block) {
  const unsigned group = block / blocks.per_group();
  const unsigned part = block - group * blocks.per_group();
  const unsigned pairs = blocks.rstd_blocks < blocks.tiles ? blocks.rstd_blocks : blocks.tiles;
  const bool alternates = part < 2 * pairs;
  const bool computes_rstd = alternates ? part % 2 == 0 : blocks.rstd_blocks > blocks.tiles;
  const unsigned band = computes_rstd ? group : group - blocks.bands_ahead;
  return {computes_rstd, band >= blocks.bands, band, alternates ? part / 2 : part - pairs};
}

}  // namespace octet::sm90
