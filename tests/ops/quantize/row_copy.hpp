// The row-major copy with a scale per row that operators write in one pass: what the quantiser makes of
// their 16- or 32-bit output, to compare every byte with.
#pragma once

#include "dispatch/machine.hpp"
#include "ops/quantize/random_problem.hpp"

#include <octet/octet.hpp>

#include <cstring>
#include <string>
#include <vector>

namespace octet {

// Its memory begins as 0xA5. Without `owns_padding` the padding has to stay so.
struct RowCopy {
  QuantizedTensor tensor;
  bool owns_padding;

  RowCopy(std::int64_t rows, std::int64_t cols, Dtype format, bool owns_padding_)
      : tensor(rows, cols, format, kEachRow), owns_padding(owns_padding_) {
    std::memset(tensor.view().values.data, 0xA5, bytes().size());
  }
  QuantizedView view() const {
    QuantizedView result = tensor.view();
    result.owns_padding = owns_padding;
    return result;
  }
  std::vector<std::uint8_t> bytes() const {
    const TensorView& values = tensor.view().values;
    const QuantizedLayout layout(values.rows(), values.cols(), values.dtype, kEachRow);
    const auto* data = static_cast<const std::uint8_t*>(values.data);
    return {data, data + layout.bytes};
  }
};

inline void quantize_rows(const TensorView& output, const Fp8Output& fp8, const RowCopy& copy) {
  const QuantizeProblem problem{output.rows(),  output.cols(),  output.dtype,
                                fp8.format,     fp8.block,      fp8.transposed_block,
                                fp8.amax_floor, fp8.pow2_scales};
  run(plan_quantize(problem, {"cpu_reference", 0}), {output, copy.view(), {}});
}

// Options and shapes by number: both formats, floors, powers of two; one element, tails, long rows.
inline Fp8Output row_options(std::uint64_t number) {
  Fp8Output fp8{number % 2 == 0 ? Dtype::e4m3 : Dtype::e5m2, kEachRow, std::nullopt};
  fp8.amax_floor = number % 5 == 1 ? 2.0f : 0;
  fp8.pow2_scales = number % 3 == 1;
  return fp8;
}
struct RowShape {
  std::int64_t rows;
  std::int64_t cols;
};
inline constexpr RowShape kRowShapes[] = {{1, 1},     {3, 129},  {130, 257}, {5, 4097}, {128, 128},
                                          {257, 520}, {2, 2048}, {7, 5120},  {3, 8200}, {129, 33}};
// Elements behind each row, which vectors of 16 bytes do not reach where their number is odd.
inline std::int64_t gap_of(std::uint64_t number) {
  return number % 3 == 0 ? 0 : number % 3 == 1 ? 5 : 8;
}
// In a matrix that is not of one kind, rows of all kinds follow each other.
inline constexpr Data kRowData[] = {Data::normal, Data::some_non_finite, Data::zeros, Data::tiny,
                                    Data::huge,   Data::any_bits};
inline Data data_of_row(std::uint64_t number, std::int64_t row) {
  return kRowData[number % 4 == 3 ? static_cast<std::uint64_t>(row) % 6 : number % 6];
}

// Why an implementation refuses a problem on a Hopper GPU or a CPU with AVX2; empty if it takes it.
template <class List, class Problem>
std::string refusal_of(const List& list, const Problem& problem, const std::string& backend) {
  const Machine machine{.threads = 1, .avx2 = true, .sm_major = 9, .multiprocessors = 132};
  for (const auto& entry : list) {
    if (entry.name == backend) return entry.refuse(problem, machine);
  }
  return "no such implementation";
}

}  // namespace octet
