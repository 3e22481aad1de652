// The innermost loop of the reference product, over packed panels.
#pragma once

namespace octet {

inline constexpr int kPanelRows = 8;
inline constexpr int kPanelCols = 16;
inline constexpr int kTile = 128;  // rows and columns of a tile of the result

// value[i * kTile + j] += sum over k < depth of a[k * kPanelRows + i] * b[k * kPanelCols + j]
void multiply_panels(const double* a, const double* b, int depth, double* value);
// The same for magnitudes, in f32: they only make the bounds of errors.
void multiply_panels(const float* a, const float* b, int depth, float* value);
// to[i] = |from[i]|
void magnitudes(const double* from, long count, float* to);

}  // namespace octet
