#include "bench/workloads/memory_workload.hpp"
#include "check/data/guarded.hpp"
#include "core/checks.hpp"
#include "ops/fp8_output/checks.hpp"
#include "ops/quantize/problem.hpp"

#include <algorithm>
#include <numeric>

namespace octet::bench {
namespace {

// The tensors of one call and their bytes. Of groups, only rows and token blocks that are read or
// written count.
class QuantizeTensors {
 public:
  QuantizeTensors(const QuantizeProblem& problem, const DataOptions& options)
      : problem_(problem), fp8_(options_of(problem)), seed_(options.seed) {
    if (problem.groups == 0) return;
    sizes_ = group_sizes(options.group_spread, problem.groups, problem.rows, options.seed);
  }

  std::int64_t input_rows() const {
    if (problem_.source_rows > 0) return problem_.source_rows;
    return std::max<std::int64_t>(problem_.batch, 1) * problem_.rows;
  }

  std::size_t bytes() const {
    const std::int64_t cols = problem_.cols;
    const auto batch = static_cast<std::size_t>(std::max<std::int64_t>(problem_.batch, 1));
    if (problem_.groups == 0) {
      return batch * (tensor_bytes(problem_.input_dtype, {problem_.rows, cols}) +
                      fp8_bytes(fp8_, problem_.rows, cols));
    }
    const std::int64_t rows = std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0});
    const std::int64_t out_rows = problem_.tail == GroupTail::zero ? problem_.rows : rows;
    std::size_t result =
        tensor_bytes(problem_.input_dtype, {rows, cols}) +
        tensor_bytes(Dtype::i32, {group_table_words(problem_.groups, problem_.rows)});
    if (problem_.source_rows > 0) result += tensor_bytes(Dtype::i32, {rows});
    return result + grouped_fp8_bytes(fp8_, sizes_, out_rows, cols);
  }

  Tensor table() const {
    return sizes_.empty() ? Tensor() : make_group_table(sizes_, problem_.rows, problem_.device);
  }
  Tensor source() const {
    if (problem_.source_rows == 0) return {};
    const std::vector<std::int32_t> rows =
        draw_source(sizes_, problem_.rows, source_slots(problem_), seed_);
    Tensor result(Dtype::i32, {problem_.rows}, problem_.device);
    copy(make_view(rows.data(), Dtype::i32, {problem_.rows}), result);
    return result;
  }
  QuantizedTensor out() const {
    if (!fp8_.block) return {};
    if (problem_.batch > 0) return batch_of(problem_.rows, problem_.cols, *fp8_.block);
    return {problem_.rows, problem_.cols, fp8_.format, *fp8_.block, problem_.device};
  }
  QuantizedTensor transposed() const {
    if (!fp8_.transposed_block) return {};
    const BlockShape block = *fp8_.transposed_block;
    if (problem_.batch > 0) return batch_of(problem_.cols, problem_.rows, block);
    if (problem_.groups == 0) {
      return {problem_.cols, problem_.rows, fp8_.format, block, problem_.device};
    }
    const std::int64_t blocks = max_token_blocks(problem_.groups, problem_.rows);
    return QuantizedTensor(
        QuantizedBatchLayout::token_blocks(blocks, problem_.cols, fp8_.format, block),
        problem_.device);
  }

 private:
  QuantizedTensor batch_of(std::int64_t rows, std::int64_t cols, BlockShape block) const {
    return QuantizedTensor(QuantizedBatchLayout(problem_.batch, rows, cols, fp8_.format, block),
                           problem_.device);
  }

  QuantizeProblem problem_;
  Fp8Output fp8_;
  std::uint64_t seed_;
  std::vector<std::int64_t> sizes_;  // of groups
};

class QuantizeWorkload : public MemoryWorkload {
 public:
  QuantizeWorkload(const QuantizeProblem& problem, const DataOptions& options)
      : MemoryWorkload(problem.device, options),
        plan_(plan_quantize(problem, plan_options())),
        tensors_(problem, options) {
    add_call(plan_, tensors_.bytes());
  }

 private:
  struct Set {
    Tensor input;
    QuantizedTensor out;
    QuantizedTensor transposed;
    Tensor table;
    Tensor source;
  };

  void add_set() override {
    const QuantizeProblem& problem = plan_.problem;
    sets_.push_back({random_tensor(problem.input_dtype, tensors_.input_rows(), problem.cols, 0),
                     tensors_.out(), tensors_.transposed(), tensors_.table(), tensors_.source()});
    if (!problem.given_scales) return;
    if (problem.block) give_scales(sets_.back().out);
    if (problem.transposed_block) give_scales(sets_.back().transposed);
  }

  // Scales are contiguous in our own layout, padding included.
  static void give_scales(const QuantizedView& copy) {
    TensorView scales = copy.scales;
    const int across = scale_lines(scales).across;
    const std::int64_t bytes =
        scales.shape[across] * scales.strides[across] * size_bytes(scales.dtype);
    fill({scales.data, 1, bytes, bytes, scales.device}, kGivenScaleByte);
  }

  void run(std::size_t /*call*/, std::size_t set, Workspace workspace, void* stream) override {
    const QuantizeProblem& problem = plan_.problem;
    const Set& s = sets_[set];
    TensorView input = s.input;
    if (problem.batch > 0) {
      input = make_view(input.data, input.dtype, {problem.batch, problem.rows, problem.cols},
                        input.device);
    }
    octet::run(plan_, {input, s.out, s.transposed, s.table, s.source}, workspace, stream);
  }

  QuantizePlan plan_;
  QuantizeTensors tensors_;
  std::vector<Set> sets_;
};

}  // namespace

std::unique_ptr<Workload> make_workload(const QuantizeProblem& problem,
                                        const DataOptions& options) {
  return std::make_unique<QuantizeWorkload>(problem, options);
}

}  // namespace octet::bench
