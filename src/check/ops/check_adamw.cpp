// adamw, on tensors that begin on a boundary of 16 bytes and on tensors that do not.
#include "check/data/guarded.hpp"
#include "check/judge/trial.hpp"
#include "check/judge/written_twice.hpp"
#include "check/reference/on_host.hpp"
#include "core/checks.hpp"
#include "core/views.hpp"

#include <cmath>
#include <numeric>

namespace octet {
namespace {

// A vector as the matrix that is judged, row by row: of one row where its length has no large power
// of two in it.
TensorView in_rows(const TensorView& vector) {
  const std::int64_t count = vector.cols();
  const std::int64_t power = std::gcd(count, std::int64_t{1} << 16);
  const std::int64_t cols = power < kSnrOutputs ? count : power;
  return make_view(vector.data, vector.dtype, {count / cols, cols}, vector.device);
}

struct Inputs {
  Tensor w, g, m, v, scale;  // [1, count]; scale [1]. w is that of the master copy, if there is one

  Inputs(const AdamWProblem& problem, const DataOptions& options) {
    const auto random = [&](Dtype dtype, std::uint32_t stream, Distribution distribution) {
      DataOptions own = options;
      own.distribution = distribution;
      return random_matrix(dtype, 1, problem.count, stream, own, problem.device);
    };
    w = random(problem.master ? Dtype::f32 : problem.dtype, 0, options.distribution);
    g = random(problem.grad_dtype, 1, options.distribution);
    m = random(problem.moments_dtype, 2, options.distribution);
    v = random(problem.moments_dtype, 3, Distribution::one_signed);  // no square is negative
    scale = Tensor(Dtype::f32, {1, 1}, problem.device);
    fill_random(scale, Distribution::one_signed, {options.seed, 4}, options.threads);
  }
};

// A tensor that the second call has one element further on.
class Twice {
 public:
  Twice(Dtype dtype, std::int64_t count, Device device)
      : count_(count), first_(dtype, 1, count, 0, device), second_(dtype, 1, count + 1, 0, device) {
    fill(elements_of(columns(second_.view(), 0, 1)), 0);  // no element of the tensor
  }
  TensorView row(int call) const {
    return call == 0 ? first_.view() : columns(second_.view(), 1, count_);
  }
  void fill_from(const TensorView& values) {
    for (int call = 0; call < 2; ++call) copy(elements_of(values), elements_of(row(call)));
  }
  void judge(const std::string& tensor, const ReferenceRow& reference, const JudgeOptions& options,
             GateReport& report) const {
    add(report, judge_elements(tensor, {in_rows(first_.view()), reference, false}, options));
    report.results.push_back(judge_g5(tensor, row(0), row(1)));
    report.results.push_back(judge_g6(tensor, first_.inspect(), second_.inspect()));
  }

 private:
  std::int64_t count_;
  GuardedMatrix first_;
  GuardedMatrix second_;
};

// The formula of octet/ops/adamw.hpp in f64.
class Reference {
 public:
  Reference(const Inputs& in, const AdamWArgs& args, double scale,
            const std::vector<std::int64_t>& rows)
      : args_(args),
        scale_(scale),
        w_(in_rows(in.w), rows),
        g_(in_rows(in.g), rows),
        m_(in_rows(in.m), rows),
        v_(in_rows(in.v), rows) {}

  void m_row(std::int64_t row, std::span<double> m) const {
    std::vector<double> g(m.size());
    g_.read(row, g);
    m_.read(row, m);
    for (std::size_t i = 0; i < m.size(); ++i) {
      m[i] = args_.beta1 * m[i] + (1 - args_.beta1) * g[i] * scale_;
    }
  }
  void v_row(std::int64_t row, std::span<double> v) const {
    std::vector<double> g(v.size());
    g_.read(row, g);
    v_.read(row, v);
    for (std::size_t i = 0; i < v.size(); ++i) {
      v[i] = args_.beta2 * v[i] + (1 - args_.beta2) * std::pow(g[i] * scale_, 2);
    }
  }
  void w_row(std::int64_t row, std::span<double> w) const {
    std::vector<double> m(w.size()), v(w.size());
    m_row(row, m);
    v_row(row, v);
    w_.read(row, w);
    const double correction1 = 1 - std::pow(args_.beta1, args_.step);
    const double correction2 = 1 - std::pow(args_.beta2, args_.step);
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double root = std::sqrt(v[i] / correction2) + args_.eps;
      w[i] -= args_.lr * (args_.weight_decay * w[i] + m[i] / correction1 / root);
    }
  }

 private:
  AdamWArgs args_;
  double scale_;
  DecodedRows w_, g_, m_, v_;
};

GateReport judge_adamw(const AdamWProblem& problem, const DataOptions& options) {
  const Inputs in(problem, options);
  Twice w(problem.dtype, problem.count, problem.device);
  Twice m(problem.moments_dtype, problem.count, problem.device);
  Twice v(problem.moments_dtype, problem.count, problem.device);
  std::optional<Twice> master;
  m.fill_from(in.m);
  v.fill_from(in.v);
  if (problem.master) {  // w is only written: it stays poisoned
    master.emplace(Dtype::f32, problem.count, problem.device).fill_from(in.w);
  } else {
    w.fill_from(in.w);
  }
  std::optional<Fp8WrittenTwice> fp8;
  if (problem.fp8) fp8.emplace(*problem.fp8, problem.rows, problem.cols, problem.device);
  AdamWArgs args;
  args.lr = 0.125;
  args.weight_decay = 0.25;
  args.step = 3;
  const AdamWPlan plan = plan_adamw(problem, {options.backend, options.threads});
  for (int call = 0; call < 2; ++call) {
    args.w = as_vector(w.row(call));
    args.g = as_vector(in.g);
    args.m = as_vector(m.row(call));
    args.v = as_vector(v.row(call));
    args.master = master ? as_vector(master->row(call)) : TensorView();
    args.grad_scale = as_vector(in.scale);
    if (fp8) args.fp8 = fp8->copies(call);
    run_once(plan, args, problem.device);
  }
  const JudgeOptions judging = judge_options(options, problem.device);
  const TensorView shape = in_rows(in.w);
  const double scale = problem.grad_scale ? decoded(as_vector(in.scale))[0] : 1;
  const Reference reference(in, args, scale, judged_rows(shape.rows(), shape.cols(), judging));
  GateReport report;
  w.judge("w", rows_of(reference, &Reference::w_row), judging, report);
  if (master) master->judge("master", rows_of(reference, &Reference::w_row), judging, report);
  m.judge("m", rows_of(reference, &Reference::m_row), judging, report);
  v.judge("v", rows_of(reference, &Reference::v_row), judging, report);
  if (fp8) {
    const TensorView matrix =
        make_view(w.row(0).data, problem.dtype, {problem.rows, problem.cols}, problem.device);
    fp8->judge("w.fp8.", matrix, judging, report);
  }
  return report;
}

}  // namespace

GateReport check_adamw(const AdamWProblem& problem, const DataOptions& options) {
  check_extent("check adamw", "count", problem.count);
  // A plan refuses what cannot run before any data is made.
  (void)plan_adamw(problem, {options.backend, options.threads});
  return within_memory("adamw", describe(problem), [&] { return judge_adamw(problem, options); });
}

}  // namespace octet
