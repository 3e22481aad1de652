// One random problem with its tensors. Inputs are random numbers that are the same on every device.
// Outputs lie between guard bands, and all of that memory starts as 0xA5: what an operator does not
// write, and what it should not write, is recorded too.
#pragma once

#include "draw.hpp"

#include <octet/octet.hpp>

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

namespace octet::same {

class Trial {
 public:
  Trial(std::string_view op, int index, Device device);

  Draw draw;
  const Device device;

  Dtype float_dtype(std::string_view option);
  Dtype fp8_dtype(std::string_view option);
  // Empty (the first implementation that takes the problem), or the reference one on the CPU.
  PlanOptions plan_options();
  Fp8LinearOptions layer_options();

  // N(0, 1), or the absolute value of that; `gap` elements behind every row.
  TensorView input(Dtype dtype, std::int64_t rows, std::int64_t cols, std::int64_t gap = 0);
  TensorView positive_vector(std::int64_t length);
  TensorView vector(Dtype dtype, std::int64_t length);
  TensorView indices(Dtype dtype, std::int64_t rows, std::int64_t cols, std::int64_t below);
  // A random matrix as quantize casts it on the CPU.
  QuantizedView quantized_input(std::int64_t rows, std::int64_t cols, Dtype format,
                                BlockShape block);
  Fp8LinearWeights quantized_weights(std::int64_t rows, std::int64_t cols, Dtype format);

  TensorView output(const std::string& name, Dtype dtype, std::int64_t rows, std::int64_t cols,
                    std::int64_t gap = 0);
  TensorView output_vector(const std::string& name, Dtype dtype, std::int64_t length);
  // Starts as random numbers, for outputs that are added to.
  TensorView accumulated_output(const std::string& name, Dtype dtype, std::int64_t rows,
                                std::int64_t cols);
  // No tensor for a layout of no bytes.
  QuantizedView output(const std::string& name, const QuantizedLayout& layout);
  Fp8Copies fp8_output(const std::string& name, const Fp8Output& fp8, std::int64_t rows,
                       std::int64_t cols);
  // Random elements that a call reads and may also write.
  TensorView elements(const std::string& name, Dtype dtype, std::int64_t count);
  TensorView poison(const std::string& name, Dtype dtype, std::int64_t count);

  // Runs one pass. Returns whether an implementation took the problem.
  template <class MakePlan, class Problem, class Options, class Args>
  bool run_pass(const std::string& pass, const MakePlan& make_plan, const Problem& problem,
                const Options& options, const Args& args) {
    try {
      const auto plan = make_plan(problem, options);
      note(pass, plan.implementation + " | " + plan.configuration);
      const TensorView workspace =
          plan.workspace_bytes == 0
              ? TensorView{}
              : place(std::vector<std::byte>(plan.workspace_bytes, kPoison), "");
      run(plan, args, {workspace.data, plan.workspace_bytes});
      synchronize();
      return true;
    } catch (const Error& error) {
      note(pass, refusal(error));
      return false;
    }
  }

  // Every note and output, to stdout.
  void write() const;

 private:
  static constexpr std::byte kPoison{0xA5};

  struct Memory {
    std::string name;  // empty: an input
    Buffer buffer;
  };

  // Bytes in memory of the device, between guard bands where they are an output.
  TensorView place(const std::vector<std::byte>& bytes, const std::string& name);
  TensorView place_random(Dtype dtype, std::int64_t rows, std::int64_t cols, std::int64_t gap,
                          const std::string& name, bool positive);
  void note(const std::string& pass, const std::string& text);
  std::string refusal(const Error& error) const;
  void synchronize() const;
  void write_record(const std::string& name, const char* kind, const void* data,
                    std::size_t bytes) const;

  std::string op_;
  int index_;
  std::uint32_t streams_ = 0;
  std::deque<Memory> memory_;
  std::vector<std::pair<std::string, std::string>> notes_;
};

// What every problem on the rows of a matrix draws first.
template <class Problem>
void draw_matrix(Trial& trial, std::initializer_list<std::int64_t> rows,
                 std::initializer_list<std::int64_t> cols, Problem& problem) {
  problem.device = trial.device;
  problem.rows = trial.draw.pick("rows", rows);
  problem.cols = trial.draw.pick("cols", cols);
}

using TrialOfOperator = void (*)(Trial& trial);

// outputs_products.cpp
void try_quantize(Trial& trial);
void try_dequantize(Trial& trial);
void try_repack(Trial& trial);
void try_gemm(Trial& trial);
void try_fp8_linear(Trial& trial);
void try_gated_mlp(Trial& trial);
// outputs_elements.cpp
void try_rms_norm(Trial& trial);
void try_gated_activation(Trial& trial);
// outputs_heads.cpp
void try_rope(Trial& trial);
void try_rms_norm_rope(Trial& trial);

}  // namespace octet::same
