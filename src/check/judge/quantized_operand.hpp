// The quantised operand of a product that is judged by its dequantised operands. On the CPU it is
// the oracle's. On CUDA, where a tensor is too large for the oracle, it is what the device's
// quantiser wrote, and the oracle judges 128x128 tiles of it.
#pragma once

#include "check/gates.hpp"
#include "check/reference/quantize_oracle.hpp"

#include <optional>
#include <string>

namespace octet {

enum class Transpose { no, yes };  // yes: the transposed matrix is quantised

class QuantizedOperand {
 public:
  QuantizedOperand() = default;
  // `input`: columns contiguous. `tensor` names it in the report, to which CUDA adds gate Q.
  QuantizedOperand(const std::string& tensor, const TensorView& input, Transpose transpose,
                   const OracleRules& rules, const DataOptions& options, GateReport& report);

  const QuantizedView& view() const { return view_; }

 private:
  void write_on_cuda(const TensorView& input, Transpose transpose, const OracleRules& rules,
                     const DataOptions& options);

  OracleTensor oracle_;
  QuantizedTensor written_;
  QuantizedView view_;
};

// A copy of a quantised tensor, of any layout, in our own layout on its device.
QuantizedTensor in_our_layout(const QuantizedView& view);

}  // namespace octet
