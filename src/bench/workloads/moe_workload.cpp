// The glue of a mixture of experts: routing, maps, and the way of the tokens there and back.
#include "bench/workloads/memory_workload.hpp"
#include "check/data/expert_maps.hpp"

#include <algorithm>

namespace octet::bench {
namespace {

std::size_t f32_bytes(std::int64_t rows, std::int64_t cols) {
  return tensor_bytes(Dtype::f32, {rows, cols});
}
std::size_t i32_bytes(std::int64_t rows, std::int64_t cols) {
  return tensor_bytes(Dtype::i32, {rows, cols});
}

struct RouteTensors {
  Tensor logits, bias, indices, weights, scores, dweights, dlogits;
};

class MoeRouteWorkload : public StepWorkload<MoeRouteProblem, RouteTensors> {
 public:
  MoeRouteWorkload(const MoeRouteProblem& p, const DataOptions& options)
      : StepWorkload(p, options, plan_moe_route_forward, plan_moe_route_backward) {
    const std::size_t logits = tensor_bytes(p.dtype, {p.tokens, p.experts});
    const std::size_t scores = f32_bytes(p.tokens, p.experts);
    const std::size_t choices = i32_bytes(p.tokens, p.top_k) + f32_bytes(p.tokens, p.top_k);
    add_call(forward_, logits + scores + choices + (p.bias ? f32_bytes(1, p.experts) : 0));
    add_call(backward_, scores + choices + logits);
  }

 private:
  RouteTensors make_set() const override {
    const MoeRouteProblem& p = problem();
    RouteTensors set;
    set.logits = random_tensor(p.dtype, p.tokens, p.experts, 0);
    if (p.bias) set.bias = random_tensor(Dtype::f32, 1, p.experts, 1);
    set.dweights = random_tensor(Dtype::f32, p.tokens, p.top_k, 2);
    set.indices = empty_tensor(Dtype::i32, p.tokens, p.top_k);
    set.weights = empty_tensor(Dtype::f32, p.tokens, p.top_k);
    set.scores = empty_tensor(Dtype::f32, p.tokens, p.experts);
    set.dlogits = empty_tensor(p.dtype, p.tokens, p.experts);
    return set;
  }
  void forward(const RouteTensors& set, Workspace workspace, void* stream) const override {
    octet::run(forward_, {set.logits, as_vector(set.bias), set.indices, set.weights, set.scores},
               workspace, stream);
  }
  void backward(const RouteTensors& set, Workspace workspace, void* stream) const override {
    octet::run(backward_, {set.scores, set.indices, set.dweights, {}, set.dlogits}, workspace,
               stream);
  }
};

class MoeMapsWorkload : public MemoryWorkload {
 public:
  MoeMapsWorkload(const MoeMapsProblem& p, const DataOptions& options)
      : MemoryWorkload(p.device, options),
        options_(options),
        plan_(plan_moe_maps(p, plan_options())) {
    add_call(plan_, tensor_bytes(p.indices_dtype, {p.tokens, p.top_k}) +
                        i32_bytes(p.tokens, p.top_k) + i32_bytes(1, p.rows) +
                        i32_bytes(1, p.groups) + i32_bytes(1, table_words()) +
                        i32_bytes(1, kMoeMapsStatusWords));
  }

 private:
  struct Set {
    Tensor indices, row_of, source, sizes, table, status;
  };

  std::int64_t table_words() const {
    return group_table_words(plan_.problem.groups, plan_.problem.rows);
  }

  void add_set() override {
    const MoeMapsProblem& p = plan_.problem;
    Set set;
    set.indices =
        integer_tensor(random_experts(p.tokens * p.top_k, p.experts, AbsentSlots::none, options_),
                       p.indices_dtype, {p.tokens, p.top_k}, p.device);
    set.row_of = empty_tensor(Dtype::i32, p.tokens, p.top_k);
    set.source = empty_tensor(Dtype::i32, 1, p.rows);
    set.sizes = empty_tensor(Dtype::i32, 1, p.groups);
    set.table = empty_tensor(Dtype::i32, 1, table_words());
    set.status = empty_tensor(Dtype::i32, 1, kMoeMapsStatusWords);
    sets_.push_back(std::move(set));
  }

  void run(std::size_t /*call*/, std::size_t set, Workspace workspace, void* stream) override {
    const Set& s = sets_[set];
    octet::run(plan_,
               {s.indices, s.row_of, as_vector(s.source), as_vector(s.sizes), as_vector(s.table),
                as_vector(s.status)},
               workspace, stream);
  }

  DataOptions options_;
  MoeMapsPlan plan_;
  std::vector<Set> sets_;
};

// `tokens` is x, out and their gradients; `grouped` the rows of the experts and theirs.
struct RowTensors {
  Tensor row_of, source, tokens, dtokens, grouped, dgrouped, weights, dweights, row_weight;
};

// What both operators share. Every token, and every row that has a slot, is read or written once;
// rows behind the last are zeroed, if asked, and never read.
template <class Problem>
class MoeRowsWorkload : public StepWorkload<Problem, RowTensors> {
 protected:
  using Step = StepWorkload<Problem, RowTensors>;

  MoeRowsWorkload(const Problem& p, const DataOptions& options,
                  typename Step::ForwardPlan (*plan_forward)(const Problem&, const PlanOptions&),
                  typename Step::BackwardPlan (*plan_backward)(const Problem&, const PlanOptions&))
      : Step(p, options, plan_forward, plan_backward),
        options_(options),
        tokens_(tensor_bytes(p.dtype, {p.tokens, p.cols})),
        rows_read_(tensor_bytes(p.dtype, {std::min(p.rows, p.tokens * p.top_k), p.cols})),
        rows_written_(p.tail == GroupTail::zero ? tensor_bytes(p.dtype, {p.rows, p.cols})
                                                : rows_read_),
        row_of_(i32_bytes(p.tokens, p.top_k)),
        source_(i32_bytes(1, p.rows)),
        weights_(p.weights ? f32_bytes(p.tokens, p.top_k) : 0),
        row_weight_(p.weights ? f32_bytes(1, p.rows) : 0) {}

  RowTensors make_set() const override {
    const Problem& p = Step::problem();
    const ExpertMaps maps = random_maps(p.tokens, p.top_k, p.rows, AbsentSlots::none, options_);
    RowTensors set;
    set.row_of = integer_tensor(maps.row_of, Dtype::i32, {p.tokens, p.top_k}, p.device);
    set.source = integer_tensor(maps.source, Dtype::i32, {p.rows}, p.device);
    set.tokens = this->random_tensor(p.dtype, p.tokens, p.cols, 0);
    set.grouped = this->random_tensor(p.dtype, p.rows, p.cols, 1);
    set.dtokens = this->random_tensor(p.dtype, p.tokens, p.cols, 2);
    set.dgrouped = this->random_tensor(p.dtype, p.rows, p.cols, 3);
    if (!p.weights) return set;
    set.weights = this->random_tensor(Dtype::f32, p.tokens, p.top_k, 4);
    set.dweights = this->empty_tensor(Dtype::f32, p.tokens, p.top_k);
    set.row_weight = this->random_tensor(Dtype::f32, 1, p.rows, 5);
    return set;
  }

  DataOptions options_;
  // Bytes.
  std::size_t tokens_, rows_read_, rows_written_, row_of_, source_, weights_, row_weight_;
};

class MoePermuteWorkload : public MoeRowsWorkload<MoePermuteProblem> {
 public:
  MoePermuteWorkload(const MoePermuteProblem& p, const DataOptions& options)
      : MoeRowsWorkload(p, options, plan_moe_permute_forward, plan_moe_permute_backward) {
    add_call(forward_, tokens_ + rows_written_ + row_of_ + source_ + weights_ + row_weight_);
    add_call(backward_, rows_read_ + tokens_ + row_of_ + weights_ + row_weight_);
  }

 private:
  void forward(const RowTensors& set, Workspace workspace, void* stream) const override {
    octet::run(
        forward_,
        {set.tokens, set.weights, set.row_of, set.source, set.grouped, as_vector(set.row_weight)},
        workspace, stream);
  }
  void backward(const RowTensors& set, Workspace workspace, void* stream) const override {
    octet::run(backward_,
               {set.dgrouped, as_vector(set.row_weight), set.row_of, set.dtokens, set.dweights},
               workspace, stream);
  }
};

class MoeUnpermuteWorkload : public MoeRowsWorkload<MoeUnpermuteProblem> {
 public:
  MoeUnpermuteWorkload(const MoeUnpermuteProblem& p, const DataOptions& options)
      : MoeRowsWorkload(p, options, plan_moe_unpermute_forward, plan_moe_unpermute_backward) {
    add_call(forward_, rows_read_ + tokens_ + row_of_ + weights_);
    // With weights, backward also reads the rows that forward added.
    add_call(backward_, tokens_ + rows_written_ + row_of_ + source_ + 2 * weights_ +
                            (p.weights ? rows_read_ : 0));
  }

 private:
  void forward(const RowTensors& set, Workspace workspace, void* stream) const override {
    octet::run(forward_, {set.grouped, set.weights, set.row_of, set.tokens}, workspace, stream);
  }
  void backward(const RowTensors& set, Workspace workspace, void* stream) const override {
    octet::run(
        backward_,
        {set.dtokens, set.grouped, set.weights, set.row_of, set.source, set.dgrouped, set.dweights},
        workspace, stream);
  }
};

}  // namespace

std::unique_ptr<Workload> make_workload(const MoeRouteProblem& problem,
                                        const DataOptions& options) {
  return std::make_unique<MoeRouteWorkload>(problem, options);
}
std::unique_ptr<Workload> make_workload(const MoeMapsProblem& problem, const DataOptions& options) {
  return std::make_unique<MoeMapsWorkload>(problem, options);
}
std::unique_ptr<Workload> make_workload(const MoePermuteProblem& problem,
                                        const DataOptions& options) {
  return std::make_unique<MoePermuteWorkload>(problem, options);
}
std::unique_ptr<Workload> make_workload(const MoeUnpermuteProblem& problem,
                                        const DataOptions& options) {
  return std::make_unique<MoeUnpermuteWorkload>(problem, options);
}

}  // namespace octet::bench
