// The panel product of reference.cpp, included once per instruction set inside a namespace that says how
// wide its vectors are (kVectorBytes) and how many rows keep their sums in registers (kRowStep).

template <class T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kVectorBytes), aligned(sizeof(T)), may_alias));
};

template <class T>
void multiply(const T* __restrict a, const T* __restrict b, int depth, T* __restrict value) {
  using Vector = typename VectorOf<T>::Type;
  constexpr int kLanes = kVectorBytes / sizeof(T);
  constexpr int kVectors = kPanelCols / kLanes;
  for (int row = 0; row < kPanelRows; row += kRowStep) {
    Vector acc[kRowStep][kVectors] = {};
    for (int k = 0; k < depth; ++k) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const Vector right = *reinterpret_cast<const Vector*>(b + k * kPanelCols + v * kLanes);
#pragma GCC unroll 8
        for (int i = 0; i < kRowStep; ++i) acc[i][v] += right * a[k * kPanelRows + row + i];
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRowStep; ++i) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        *reinterpret_cast<Vector*>(value + (row + i) * kTile + v * kLanes) += acc[i][v];
      }
    }
  }
}

inline constexpr PanelProducts kProducts{multiply<double>, multiply<float>};
