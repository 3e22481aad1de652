// The part of a Tunable that operators share. An operator brings its list of implementations, its plan function and
// its data.
#pragma once

#include "bench/tune/tunable.hpp"
#include "bench/workloads/memory.hpp"
#include "check/judge/compare_outputs.hpp"
#include "core/message.hpp"
#include "device/cuda_runtime.hpp"
#include "dispatch/implementation.hpp"

#include <cstring>
#include <utility>

namespace octet::bench {

// The configurations of an implementation that takes the problem, its own choice first.
template <class Problem, class Args>
std::vector<TuneCandidate> candidates_of(const Implementation<Problem, Args>& implementation,
                                         const Problem& problem, const Machine& machine) {
  const auto candidate = [&](std::string configuration, double predicted) {
    return TuneCandidate{
        {implementation.name, std::move(configuration)}, predicted, implementation.only_forced};
  };
  std::vector<TuneCandidate> result{
      candidate(implementation.plan(problem, machine).configuration, 1)};
  if (implementation.configurations == nullptr) return result;
  for (Alternative& other : implementation.configurations(problem, machine)) {
    if (other.configuration == result[0].choice.configuration) continue;
    result.push_back(candidate(std::move(other.configuration), other.predicted));
  }
  return result;
}

// The candidates of a whole list. An implementation that finds out while it plans that it cannot run the problem, as
// libraries of others do, has none.
template <class Problem, class Args>
std::vector<TuneCandidate> candidates_of(std::span<const Implementation<Problem, Args>> list,
                                         const Problem& problem, const Machine& machine) {
  std::vector<TuneCandidate> result;
  for (const auto& implementation : list) {
    const bool is_reference = &implementation == &list.back();
    if (!implementation.refuse(problem, machine).empty() || (is_reference && !result.empty()))
      continue;
    try {
      auto more = candidates_of(implementation, problem, machine);
      const bool forced_first =
          !result.empty() && result[0].only_forced && !implementation.only_forced;
      result.insert(forced_first ? result.begin() : result.end(), more.begin(), more.end());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
    }
  }
  return result;
}

// Data has Args args(std::int64_t set, int outputs), std::vector<TensorView> outputs(int outputs) with two sets of
// outputs, std::size_t bytes(), the bytes of one set of inputs, std::size_t output_bytes(), of one set of outputs, and
// make(std::int64_t sets).
template <class Problem, class Pass, class Data>
class OperatorTunable : public Tunable {
 public:
  using Plan = octet::Plan<Problem, Pass>;
  using MakePlan = Plan (*)(const Problem&, const PlanOptions&);
  using Check = GateReport (*)(const Problem&, const DataOptions&);

  // `planned`: the problem as implementations are given it, with its defaults filled in.
  template <class Args>
  OperatorTunable(std::string_view op, std::span<const Implementation<Problem, Args>> list,
                  const Problem& problem, const Problem& planned, MakePlan make_plan, Check gates,
                  const DataOptions& options)
      : problem_(problem),
        make_plan_(make_plan),
        check_(gates),
        options_(options),
        data_(problem, options) {
    const Machine machine = this_machine(problem.device, options.threads);
    device_ = problem.device;
    key_ = tuning_key(op, describe(problem), std::is_same_v<Pass, BackwardPass>, device_, machine);
    candidates_ = candidates_of(list, planned, machine);
    if (candidates_.empty())
      make_plan(problem, {.threads = options.threads});  // throws, with every reason
    for (const TuneCandidate& candidate : candidates_) {
      plans_.push_back(make_plan(problem, {.backend = candidate.choice.implementation,
                                           .threads = options.threads,
                                           .configuration = candidate.choice.configuration}));
      workspace_bytes_ = std::max(workspace_bytes_, plans_.back().workspace_bytes);
    }
  }

  void allocate(std::int64_t most_sets, void* stream) override {
    stream_ = stream;
    sets_ = input_set_count(data_.bytes(), data_.bytes(), device_, most_sets);
    require_memory(sets_);
    data_.make(sets_);
    workspace_ = Buffer(workspace_bytes_, device_);
    write(0, kWanted);
  }

  std::int64_t differences(std::size_t candidate) override {
    write(candidate, kGiven);
    std::int64_t different = 0;
    const std::vector<TensorView> given = data_.outputs(kGiven);
    const std::vector<TensorView> wanted = data_.outputs(kWanted);
    for (std::size_t i = 0; i < given.size(); ++i) {
      different += compare_whole_outputs(given[i], wanted[i]).different;
    }
    return different;
  }

  Part part(std::size_t candidate) override {
    return [this, candidate](std::int64_t call) { call_of(candidate, call % sets_, kGiven); };
  }

  TunedChoice chosen_now() const override {
    const Plan plan = make_plan_(problem_, {.threads = options_.threads});
    return {plan.implementation, plan.configuration};
  }
  // The gates make data of their own.
  GateReport check() const override {
    require_memory(1);
    return check_(problem_, options_);
  }
  void synchronize() const override {
    if (device_.type == DeviceType::cuda) cuda::synchronize(device_.index);
  }

 private:
  static constexpr int kGiven = 0;
  static constexpr int kWanted = 1;

  void call_of(std::size_t candidate, std::int64_t set, int outputs) {
    run(plans_[candidate], data_.args(set, outputs), {workspace_.data(), workspace_.bytes()},
        stream_);
  }

  // Zeros are what a product is added to, and no random data's results.
  void write(std::size_t candidate, int outputs) {
    for (const TensorView& output : data_.outputs(outputs)) clear(output);
    call_of(candidate, 0, outputs);
    synchronize();
  }

  static void clear(const TensorView& output) {
    const auto bytes =
        static_cast<std::size_t>(output.rows() * output.strides[0]) * size_bytes(output.dtype);
    if (output.device.type == DeviceType::cuda) {
      cuda::clear(output.data, bytes, output.device.index);
    } else {
      std::memset(output.data, 0, bytes);
    }
  }
  void require_memory(std::int64_t sets) const {
    require_free(static_cast<std::size_t>(sets) * data_.bytes() + 2 * data_.output_bytes() +
                     workspace_bytes_,
                 free_bytes(device_), device_);
  }

  Problem problem_;
  MakePlan make_plan_;
  Check check_;
  DataOptions options_;
  Data data_;
  std::vector<Plan> plans_;
  std::size_t workspace_bytes_ = 0;
  Buffer workspace_;
  std::int64_t sets_ = 1;
  void* stream_ = nullptr;
};

}  // namespace octet::bench
