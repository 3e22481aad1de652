// One layer as the tool sees it: its problem, the gates that judge it, the workload that is timed
// and the command lines that repeat either.
#pragma once

#include "tool/cases/cases.hpp"
#include "tool/options/gemm_options.hpp"

#include "bench/workloads/workload.hpp"
#include "check/gates.hpp"

#include <memory>
#include <string>
#include <vector>

namespace octet::tool {

struct Layer {
  LayerCase layer;
  bool fp8 = true;
  Fp8LinearProblem fp8_problem;     // where fp8
  bench::LayerProducts products{};  // where not
  bench::WorkloadOptions data;

  bench::LayerShape shape() const { return {layer.m, layer.n, layer.k}; }
  Dtype input() const { return fp8 ? fp8_problem.dtype : products.forward.a.dtype; }
  Device device() const { return fp8 ? fp8_problem.device : products.forward.device; }
  // "--dtype fp8 ... --shape MxNxK ...": after `octet bench gemm` or `octet check gemm`.
  std::string arguments() const;
};

// On the device of the options or else on the best whose implementations take it.
Layer make_layer(const LayerCase& layer, const GemmOptions& options);

// Plans the layer, throwing octet::Error where it cannot be.
std::unique_ptr<bench::Workload> make_workload(const Layer& layer, bool prequantized);

GateOptions gate_options(const bench::WorkloadOptions& data);
// Of y, dx and dw.
GateReport run_gates(const Layer& layer);

// " --backend ... --threads ... --seed ... --distribution ...", where they are not the defaults.
std::string data_arguments(const bench::WorkloadOptions& data);

}  // namespace octet::tool
