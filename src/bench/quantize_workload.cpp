#include "bench/quantize_workload.hpp"

#include "bench/copy.hpp"
#include "bench/memory.hpp"
#include "dispatch/machine.hpp"

#include <algorithm>

namespace octet::bench {
namespace {

std::size_t copy_bytes(const QuantizeProblem& problem, std::int64_t rows, std::int64_t cols,
                       const std::optional<BlockShape>& block) {
  if (!block) return 0;
  const QuantizedLayout layout(rows, cols, problem.format, *block);
  const auto values = static_cast<std::size_t>(rows * cols);
  const auto scales = static_cast<std::size_t>(layout.scale_shape[0] * layout.scale_shape[1]);
  return values + scales * sizeof(float);
}

}  // namespace

QuantizeWorkload::QuantizeWorkload(const QuantizeProblem& problem, const WorkloadOptions& options)
    : plan_(plan_quantize(problem, {options.quantize_backend, options.threads})),
      options_(options),
      threads_(this_machine(kCpu, options.threads).threads) {
  bytes_ = static_cast<std::size_t>(problem.rows * problem.cols * size_bytes(problem.input)) +
           copy_bytes(problem, problem.rows, problem.cols, problem.block) +
           copy_bytes(problem, problem.cols, problem.rows, problem.transposed_block);
}

QuantizeWorkload::Set QuantizeWorkload::make_set() const {
  const QuantizeProblem& problem = plan_.problem;
  const Device device = problem.device;
  Set set;
  set.input = Tensor(problem.input, {problem.rows, problem.cols}, device);
  if (problem.block) {
    set.out = QuantizedTensor(problem.rows, problem.cols, problem.format, *problem.block, device);
  }
  if (problem.transposed_block) {
    set.transposed = QuantizedTensor(problem.cols, problem.rows, problem.format,
                                     *problem.transposed_block, device);
  }
  set.copy_from = Buffer(bytes_ / 2, device);
  set.copy_to = Buffer(bytes_ / 2, device);
  return set;
}

void QuantizeWorkload::allocate(std::int64_t uses) {
  const Device device = plan_.problem.device;
  require_free(2 * bytes_ + plan_.workspace_bytes, free_bytes(device), device);
  workspace_ = Buffer(plan_.workspace_bytes, device);
  const std::size_t input_bytes =
      tensor_bytes(plan_.problem.input, {plan_.problem.rows, plan_.problem.cols});
  const std::int64_t count = input_set_count(input_bytes, 2 * bytes_, device, uses);
  sets_.push_back(make_set());
  fill_input(sets_[0].input, options_, 0);
  while (static_cast<std::int64_t>(sets_.size()) < count) {
    sets_.push_back(make_set());
    copy_bytes(sets_.back().input.data(), sets_[0].input.data(), input_bytes, device);
  }
  // Random numbers rather than zeros are what is copied.
  for (const Set& set : sets_) {
    copy_bytes(set.copy_from.data(), sets_[0].input.data(),
               std::min(input_bytes, set.copy_from.bytes()), device);
  }
}

void QuantizeWorkload::quantize(std::int64_t iteration) {
  const Set& set = sets_[static_cast<std::size_t>(iteration) % sets_.size()];
  run(plan_, {set.input, set.out, set.transposed}, {workspace_.data(), workspace_.bytes()},
      stream_);
}

void QuantizeWorkload::copy(std::int64_t iteration) {
  const Set& set = sets_[static_cast<std::size_t>(iteration) % sets_.size()];
  copy_on_device(set.copy_to.data(), set.copy_from.data(), set.copy_from.bytes(),
                 plan_.problem.device, stream_, threads_);
}

}  // namespace octet::bench
