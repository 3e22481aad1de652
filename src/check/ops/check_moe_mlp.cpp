// A layer of experts as a whole, for the experts that it chose itself (a choice may hang on the last
// bit of a score, and moe_route has gates of its own):
//
//   G1   y, dx, dw and the gradient of the router against f64 on the unquantised inputs
//        > 20 dB, > 15 dB if a format is e5m2; dlogits and dweights 5 dB less; 10 dB less on
//        skewed data and on outliers, where few numbers may have all the energy: then no G1
//   G5   the same call twice, equal bits
//   G6   outputs poisoned, guard bands around them
//
// The bounds are those of a gated MLP (check_gated_mlp.cpp), whose casts and products these are. The
// gradient of a weight is a sum of products of dh and h, and the router's takes differences of
// those of one token. Layers too large for f64 on the host are judged in some of their tokens and in
// the smallest of their experts.
#include "check/judge/trial.hpp"
#include "check/ops/gated_mlp.hpp"
#include "core/views.hpp"
#include "cpu/threads.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>

namespace octet {
namespace {

using Doubles = std::vector<double>;
using Slots = std::vector<std::int64_t>;

// Operations of the reference that take some seconds.
constexpr double kMostOperations = 2e10;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

Slots numbers_to(std::int64_t count) {
  Slots list(at(count));
  std::iota(list.begin(), list.end(), 0);
  return list;
}

// All of a matrix on any device in f64, or some rows of it one after the other.
Doubles decoded_rows(const TensorView& matrix, const Slots& rows) {
  const DecodedRows source(matrix, rows);
  Doubles result(rows.size() * at(matrix.cols()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    source.read(rows[i], {result.data() + i * at(matrix.cols()), at(matrix.cols())});
  }
  return result;
}

std::int64_t experts_here(const MoeMlpProblem& p) {
  return p.local_experts > 0 ? p.local_experts : p.experts;
}

struct Inputs {
  Tensor x, logits, bias, indices, weights, dy, dscores;
  Tensor w_gate_up, w_down;      // [experts * 2F, K], [experts * K, F]
  Tensor old_gate_up, old_down;  // what accumulated gradients are added to

  Inputs(const MoeMlpProblem& p, const DataOptions& options)
      : x(random_matrix(p.dtype, p.tokens, p.k, 0, options, p.device)),
        dy(random_matrix(p.dtype, p.tokens, p.k, 1, options, p.device)),
        w_gate_up(random_weights(p.dtype, experts_here(p) * 2 * p.f, p.k, 2, options, p.device)),
        w_down(random_weights(p.dtype, experts_here(p) * p.k, p.f, 3, options, p.device)) {
    if (p.routing) {
      logits = random_matrix(p.routing->dtype, p.tokens, p.experts, 4, options, p.device);
      bias = random_matrix(Dtype::f32, 1, p.experts, 5, options, p.device);
      dscores = random_matrix(Dtype::f32, p.tokens, p.experts, 6, options, p.device);
    } else {
      std::vector<std::int32_t> drawn(at(p.tokens * p.top_k));
      for (std::size_t i = 0; i < drawn.size(); ++i) {
        const auto count = static_cast<std::uint32_t>(p.experts + 1);
        drawn[i] = static_cast<std::int32_t>(
                       random_below({options.seed, 7}, RandomUse::sample, i, count)) -
                   1;
      }
      indices = Tensor(Dtype::i32, {p.tokens, p.top_k}, p.device);
      copy(make_view(drawn.data(), Dtype::i32, {p.tokens, p.top_k}), indices);
      weights = random_matrix(Dtype::f32, p.tokens, p.top_k, 8, options, p.device);
    }
    if (!p.accumulate_dw) return;
    old_gate_up = random_matrix(p.dw_dtype, experts_here(p) * 2 * p.f, p.k, 9, options, p.device);
    old_down = random_matrix(p.dw_dtype, experts_here(p) * p.k, p.f, 10, options, p.device);
  }
};

TensorView experts_of(const TensorView& matrix, std::int64_t experts) {
  return make_view(matrix.data, matrix.dtype, {experts, matrix.rows() / experts, matrix.cols()},
                   matrix.device);
}

// The outputs of one call. Gradients of weights are dense; `gap` follows the rows of the others.
struct Outputs {
  GuardedMatrix y, dx, drouter, dw_gate_up, dw_down;

  Outputs(const MoeMlpProblem& p, const Inputs& in, std::int64_t gap)
      : y(p.dtype, p.tokens, p.k, gap, p.device),
        dx(p.dtype, p.tokens, p.k, gap, p.device),
        drouter(p.routing ? p.routing->dtype : Dtype::f32, p.tokens,
                p.routing ? p.experts : p.top_k, p.routing ? gap : 0, p.device),
        dw_gate_up(p.dw_dtype, experts_here(p) * 2 * p.f, p.k, 0, p.device),
        dw_down(p.dw_dtype, experts_here(p) * p.k, p.f, 0, p.device) {
    if (!p.accumulate_dw) return;
    dw_gate_up.fill_from(in.old_gate_up);
    dw_down.fill_from(in.old_down);
  }
};

// Runs both passes; returns the experts and weights of the slots, on the host.
struct Choice {
  std::vector<std::int32_t> experts;
  Doubles scores;  // of all experts; with routing
};

void run_layer(const MoeMlpProblem& p, const DataOptions& options, const Inputs& in,
               const Outputs& out, Choice& choice) {
  const Fp8LinearOptions backends{options.backend, options.quantize_backend, options.threads};
  const MoeMlpSavedLayout layout = moe_mlp_saved_layout(p);
  const Buffer memory(layout.bytes, p.device);
  const std::int64_t here = experts_here(p);
  MoeMlpForwardArgs forward;
  forward.x = in.x;
  forward.logits = in.logits;
  forward.bias = as_vector(in.bias);
  forward.indices = in.indices;
  forward.weights = in.weights;
  forward.w_gate_up = experts_of(in.w_gate_up, here);
  forward.w_down = experts_of(in.w_down, here);
  forward.y = out.y.view();
  forward.saved = layout.view(memory.data());
  run_once(plan_moe_mlp_forward(p, backends), forward, p.device);
  MoeMlpBackwardArgs backward;
  backward.dy = in.dy;
  backward.dscores = in.dscores;
  backward.saved = forward.saved;
  backward.dx = out.dx.view();
  backward.dlogits = backward.dweights = out.drouter.view();
  backward.dw_gate_up = experts_of(out.dw_gate_up.view(), here);
  backward.dw_down = experts_of(out.dw_down.view(), here);
  run_once(plan_moe_mlp_backward(p, backends), backward, p.device);
  check_moe_maps(forward.saved.status);
  choice.experts.resize(at(p.tokens * p.top_k));
  copy(p.routing ? forward.saved.indices : in.indices.view(),
       make_view(choice.experts.data(), Dtype::i32, {p.tokens, p.top_k}));
  if (p.routing) choice.scores = decoded_rows(forward.saved.scores, numbers_to(p.tokens));
}

// The formulas of octet/ops/moe_mlp.hpp in f64, expert by expert.
class Reference {
 public:
  Reference(const MoeMlpProblem& p, const Inputs& in, const Choice& choice, int threads)
      : p_(p), in_(in), choice_(choice), threads_(threads) {
    choose_slots();
    weigh();
    y.assign(tokens.size() * at(p.k), 0);
    dx = y;
    dp_.assign(at(p.tokens * p.top_k), 0);
    for (std::int64_t g = 0; g < experts_here(p); ++g) run_expert(g);
    route_back();
  }

  Slots tokens;                 // that are judged, ascending
  std::vector<bool> experts;    // whose dw is judged
  Doubles y, dx, drouter;       // of these tokens
  Doubles dw_gate_up, dw_down;  // of all experts; zeros where they are not judged

 private:
  // Slots by expert, without those beyond its capacity; which tokens and experts are judged.
  void choose_slots() {
    slots_.resize(at(experts_here(p_)));
    for (std::int64_t i = 0; i < p_.tokens * p_.top_k; ++i) {
      const std::int64_t g = choice_.experts[at(i)] - p_.first_expert;
      if (choice_.experts[at(i)] < 0 || g < 0 || g >= experts_here(p_)) continue;
      if (p_.capacity > 0 && static_cast<std::int64_t>(slots_[at(g)].size()) == p_.capacity)
        continue;
      slots_[at(g)].push_back(i);
    }
    const double per_slot = 18.0 * static_cast<double>(p_.f) * static_cast<double>(p_.k);
    const auto most = static_cast<std::int64_t>(std::max(1.0, kMostOperations / 2 / per_slot));
    const std::int64_t step = std::max<std::int64_t>(1, p_.tokens * p_.top_k / most);
    for (std::int64_t t = 0; t < p_.tokens; t += step) tokens.push_back(t);
    Slots order = numbers_to(experts_here(p_));
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return slots_[at(a)].size() < slots_[at(b)].size();
    });
    experts.assign(slots_.size(), false);
    std::int64_t used = 0;
    for (const std::int64_t g : order) {
      const auto rows = static_cast<std::int64_t>(slots_[at(g)].size());
      if (used > 0 && used + rows > most) break;
      experts[at(g)] = true;
      used += rows;
    }
    dw_gate_up.assign(slots_.size() * at(2 * p_.f * p_.k), 0);
    dw_down.assign(slots_.size() * at(p_.k * p_.f), 0);
  }

  // The weight of every slot, and of the routed ones its score.
  void weigh() {
    if (!p_.routing) {
      weights_ = decoded_rows(in_.weights, numbers_to(p_.tokens));
      return;
    }
    weights_.resize(at(p_.tokens * p_.top_k));
    for (std::int64_t t = 0; t < p_.tokens; ++t) {
      const double sum = score_sum(t);
      for (std::int64_t k = 0; k < p_.top_k; ++k) {
        weights_[at(t * p_.top_k + k)] =
            score(t, k) / (p_.routing->normalize ? sum : 1) * double{p_.routing->scale};
      }
    }
  }
  double score(std::int64_t t, std::int64_t k) const {
    return choice_.scores[at(t * p_.experts + choice_.experts[at(t * p_.top_k + k)])];
  }
  double score_sum(std::int64_t t) const {
    double sum = 1e-20;
    for (std::int64_t k = 0; k < p_.top_k; ++k) sum += score(t, k);
    return sum;
  }

  // One slot of expert g. `token`: its place among the judged tokens, or -1.
  void run_slot(std::int64_t slot, const Doubles& gate_up, const Doubles& down, const Doubles& x,
                const Doubles& dy, Doubles& h, Doubles& d_gate_up, Doubles* y_row,
                Doubles* dx_row) {
    const std::size_t f = at(p_.f), k = at(p_.k);
    Doubles gates(2 * f, 0.0), dh(f, 0.0);
    for (std::size_t r = 0; r < 2 * f; ++r) {
      for (std::size_t c = 0; c < k; ++c) gates[r] += gate_up[r * k + c] * x[c];
    }
    for (std::size_t c = 0; c < k; ++c) {
      for (std::size_t r = 0; r < f; ++r) dh[r] += down[c * f + r] * dy[c];
    }
    const double weight = weights_[at(slot)];
    double dp = 0;
    for (std::size_t r = 0; r < f; ++r) {
      const ReferenceActivation act = reference_activation(p_.activation, gates[r]);
      const double up = gates[f + r];
      h[r] = act.value * up * weight;
      dp += dh[r] * act.value * up;
      d_gate_up[r] = dh[r] * weight * up * act.slope;
      d_gate_up[f + r] = dh[r] * weight * act.value;
    }
    dp_[at(slot)] = dp;
    if (y_row == nullptr) return;
    for (std::size_t c = 0; c < k; ++c) {
      for (std::size_t r = 0; r < f; ++r) (*y_row)[c] += down[c * f + r] * h[r];
    }
    for (std::size_t r = 0; r < 2 * f; ++r) {
      for (std::size_t c = 0; c < k; ++c) (*dx_row)[c] += gate_up[r * k + c] * d_gate_up[r];
    }
  }

  void run_expert(std::int64_t g) {
    const Slots& slots = slots_[at(g)];
    Slots wanted, places;
    for (const std::int64_t slot : slots) {
      const auto found = std::lower_bound(tokens.begin(), tokens.end(), slot / p_.top_k);
      const bool judged = found != tokens.end() && *found == slot / p_.top_k;
      if (!judged && !experts[at(g)]) continue;
      wanted.push_back(slot);
      places.push_back(judged ? found - tokens.begin() : -1);
    }
    if (wanted.empty()) return;
    const std::size_t f = at(p_.f), k = at(p_.k);
    const auto part = [](const Tensor& all, std::int64_t first, std::int64_t rows) {
      return decoded_rows(octet::rows_of(all.view(), first, rows), numbers_to(rows));
    };
    const Doubles gate_up = part(in_.w_gate_up, g * 2 * p_.f, 2 * p_.f);
    const Doubles down = part(in_.w_down, g * p_.k, p_.k);
    Slots rows;
    for (const std::int64_t slot : wanted) rows.push_back(slot / p_.top_k);
    Slots unique = rows;
    unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
    const DecodedRows xs(in_.x, unique), dys(in_.dy, unique);
    const std::size_t count = wanted.size();
    std::vector<Doubles> x(count, Doubles(k)), dy(x), h(count, Doubles(f)),
        d(count, Doubles(2 * f));
    std::vector<Doubles> y_rows(count), dx_rows(count);
    parallel_for(threads_, static_cast<std::int64_t>(count), [&](std::int64_t i) {
      xs.read(rows[at(i)], x[at(i)]);
      dys.read(rows[at(i)], dy[at(i)]);
      const bool judged = places[at(i)] >= 0;
      if (judged) y_rows[at(i)].assign(k, 0);
      if (judged) dx_rows[at(i)].assign(k, 0);
      run_slot(wanted[at(i)], gate_up, down, x[at(i)], dy[at(i)], h[at(i)], d[at(i)],
               judged ? &y_rows[at(i)] : nullptr, judged ? &dx_rows[at(i)] : nullptr);
    });
    for (std::size_t i = 0; i < count; ++i) {
      if (places[i] < 0) continue;
      for (std::size_t c = 0; c < k; ++c) {
        y[at(places[i]) * k + c] += y_rows[i][c];
        dx[at(places[i]) * k + c] += dx_rows[i][c];
      }
    }
    if (!experts[at(g)]) return;
    double* const dw = dw_gate_up.data() + at(g) * 2 * f * k;
    double* const dv = dw_down.data() + at(g) * k * f;
    parallel_for(threads_, 2 * p_.f, [&](std::int64_t r) {
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t c = 0; c < k; ++c) dw[at(r) * k + c] += d[i][at(r)] * x[i][c];
      }
    });
    parallel_for(threads_, p_.k, [&](std::int64_t c) {
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t r = 0; r < f; ++r) dv[at(c) * f + r] += dy[i][at(c)] * h[i][r];
      }
    });
  }

  // dlogits of the judged tokens, or the gradients of their weights.
  void route_back() {
    if (!p_.routing) {
      for (const std::int64_t t : tokens) {
        for (std::int64_t k = 0; k < p_.top_k; ++k) drouter.push_back(dp_[at(t * p_.top_k + k)]);
      }
      return;
    }
    const MoeRouting& routing = *p_.routing;
    const DecodedRows dscores(in_.dscores, tokens);
    for (const std::int64_t t : tokens) {
      Doubles dscore(at(p_.experts));
      dscores.read(t, dscore);
      const double sum = score_sum(t);
      double mean = 0;
      for (std::int64_t k = 0; k < p_.top_k; ++k) {
        mean += dp_[at(t * p_.top_k + k)] * score(t, k) / sum;
      }
      for (std::int64_t k = 0; k < p_.top_k; ++k) {
        const double dp = dp_[at(t * p_.top_k + k)];
        dscore[at(choice_.experts[at(t * p_.top_k + k)])] +=
            (routing.normalize ? (dp - mean) / sum : dp) * double{routing.scale};
      }
      const double* s = choice_.scores.data() + at(t * p_.experts);
      double dot = 0;
      for (std::size_t i = 0; i < dscore.size(); ++i) dot += dscore[i] * s[i];
      for (std::size_t i = 0; i < dscore.size(); ++i) {
        drouter.push_back(routing.score == RouteScore::softmax ? s[i] * (dscore[i] - dot)
                                                               : dscore[i] * s[i] * (1 - s[i]));
      }
    }
  }

  const MoeMlpProblem& p_;
  const Inputs& in_;
  const Choice& choice_;
  int threads_;
  std::vector<Slots> slots_;  // by expert
  Doubles weights_, dp_;      // by slot
};

// The effective number of outputs that G1 needs where casts do not average out: with fewer, -67 to 20
// dB were seen in e4m3, with as many 12 dB and more.
constexpr double kLeastEffective = 16;

bool has_snr(const Doubles& wanted, Distribution distribution) {
  if (static_cast<std::int64_t>(wanted.size()) < kSnrOutputs) return false;
  if (casts_average_out(distribution)) return true;
  double squares = 0, fourth_powers = 0;
  for (const double value : wanted) {
    squares += value * value;
    fourth_powers += value * value * value * value;
  }
  return effective_number(squares, fourth_powers) >= kLeastEffective;
}

GateResult judge_whole(const char* tensor, const Doubles& given, const Doubles& wanted,
                       double bound_db, bool sampled) {
  double signal = 0, noise = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    signal += wanted[i] * wanted[i];
    noise += (given[i] - wanted[i]) * (given[i] - wanted[i]);
  }
  const double db =
      noise == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
  char value[64];
  std::snprintf(value, sizeof value, "%.1f dB%s", db, sampled ? " in a sample" : "");
  return {"G1", tensor, db > bound_db, value, text("> ", bound_db, " dB"), db};
}

GateReport judge_moe_mlp(const MoeMlpProblem& p, const DataOptions& options) {
  const Inputs in(p, options);
  const Outputs first(p, in, 0), second(p, in, options.row_gap);
  Choice choice, again;
  run_layer(p, options, in, first, choice);
  run_layer(p, options, in, second, again);
  const int threads = options.threads != 0 ? options.threads : default_threads();
  const Reference wanted(p, in, choice, threads);
  const double bound = gated_mlp_g1_db(p.format, p.grad_format, options.distribution);
  GateReport report;
  const auto add_tokens = [&](const char* name, const GuardedMatrix& out, const Doubles& rows,
                              double db) {
    if (!has_snr(rows, options.distribution)) return;
    report.results.push_back(
        judge_whole(name, decoded_rows(out.view(), wanted.tokens), rows, db,
                    static_cast<std::int64_t>(wanted.tokens.size()) < p.tokens));
  };
  const auto add_experts = [&](const char* name, const GuardedMatrix& out, const Tensor& old,
                               const Doubles& all) {
    const std::int64_t rows = out.view().rows() / experts_here(p);
    Slots list;
    for (std::int64_t r = 0; r < out.view().rows(); ++r) {
      if (wanted.experts[at(r / rows)]) list.push_back(r);
    }
    Doubles reference;
    const Doubles before = p.accumulate_dw ? decoded_rows(old, list) : Doubles();
    for (std::size_t i = 0; i < list.size(); ++i) {
      for (std::int64_t c = 0; c < out.view().cols(); ++c) {
        const std::size_t place = i * at(out.view().cols()) + at(c);
        reference.push_back(all[at(list[i] * out.view().cols() + c)] +
                            (before.empty() ? 0 : before[place]));
      }
    }
    if (!has_snr(reference, options.distribution)) return;
    report.results.push_back(
        judge_whole(name, decoded_rows(out.view(), list), reference, bound,
                    static_cast<std::int64_t>(list.size()) < out.view().rows()));
  };
  add_tokens("y", first.y, wanted.y, bound);
  add_tokens("dx", first.dx, wanted.dx, bound);
  add_tokens(p.routing ? "dlogits" : "dweights", first.drouter, wanted.drouter, bound - 5);
  add_experts("dw_gate_up", first.dw_gate_up, in.old_gate_up, wanted.dw_gate_up);
  add_experts("dw_down", first.dw_down, in.old_down, wanted.dw_down);
  judge_memory("y", first.y, second.y, report);
  judge_memory("dx", first.dx, second.dx, report);
  judge_memory(p.routing ? "dlogits" : "dweights", first.drouter, second.drouter, report);
  judge_memory("dw_gate_up", first.dw_gate_up, second.dw_gate_up, report);
  judge_memory("dw_down", first.dw_down, second.dw_down, report);
  return report;
}

}  // namespace

GateReport check_moe_mlp(const MoeMlpProblem& problem, const DataOptions& options) {
  // Plans refuse what cannot run before any data is made.
  (void)plan_moe_mlp_forward(problem, {options.backend, options.quantize_backend, options.threads});
  if (!problem.training || !problem.need_dx || !problem.need_dw || problem.weights_quantized) {
    refuse_argument("check moe_mlp: all gradients are checked, with weights that the layer casts");
  }
  return within_memory("moe_mlp", describe(problem),
                       [&] { return judge_moe_mlp(problem, options); });
}

}  // namespace octet
