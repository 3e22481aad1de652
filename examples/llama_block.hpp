// A transformer block in FP8 for the two examples that run it: on the CPU, and on a GPU.
//
// The residual stream is added inside of the norms, so that blocks chain: a block takes what the
// block before added (x) and the stream before that (residual), and returns the same two.
#pragma once

#include <octet/octet.hpp>

#include <bit>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

using octet::Dtype;
using octet::Tensor;
using octet::TensorView;

struct Shape {
  std::int64_t batch, seq, heads, kv_heads, head_dim, hidden;

  std::int64_t tokens() const { return batch * seq; }
  std::int64_t dim() const { return heads * head_dim; }
  std::int64_t qkv_dim() const { return (heads + 2 * kv_heads) * head_dim; }
};

// A plan and the workspace of its runs.
template <class Plan>
struct Step {
  Plan plan;
  octet::Buffer workspace;

  Step(Plan made, octet::Device device)
      : plan(std::move(made)), workspace(plan.workspace_bytes, device) {}
  template <class Args>
  void run(const Args& args, void* stream) const {
    octet::run(plan, args, {workspace.data(), workspace.bytes()}, stream);
  }
};

struct Weights {
  Tensor norm1, qkv, projection, norm2, gate_up, down;

  Weights(const Shape& s, octet::Device device)
      : norm1(Dtype::bf16, {s.dim()}, device),
        qkv(Dtype::bf16, {s.qkv_dim(), s.dim()}, device),
        projection(Dtype::bf16, {s.dim(), s.dim()}, device),
        norm2(Dtype::bf16, {s.dim()}, device),
        gate_up(Dtype::bf16, {2 * s.hidden, s.dim()}, device),  // gate above up
        down(Dtype::bf16, {s.dim(), s.hidden}, device) {}
};

// The block for one shape. It allocates in its constructor and nowhere else, so that both passes can
// be captured in a CUDA graph.
class Block {
 public:
  Block(const Shape& shape, octet::Device device)
      : s_(shape),
        norm_forward_(octet::plan_rms_norm_forward(norm(device)), device),
        norm_backward_(octet::plan_rms_norm_backward(norm(device)), device),
        rope_forward_(octet::plan_rope_forward(rope(device)), device),
        rope_backward_(octet::plan_rope_backward(rope(device)), device),
        attention_forward_(octet::plan_attention_forward(attention(device)), device),
        attention_backward_(octet::plan_attention_backward(attention(device)), device),
        qkv_(linear(s_.qkv_dim(), device)),
        projection_(linear(s_.dim(), device)),
        mlp_({.m = s_.tokens(),
              .f = s_.hidden,
              .k = s_.dim(),
              .down = true,
              .fp8 = true,
              .device = device}),
        sum1_(rows(s_.dim(), device)),
        normed_(rows(s_.dim(), device)),
        packed_(rows(s_.qkv_dim(), device)),
        heads_out_(rows(s_.dim(), device)),
        projected_(rows(s_.dim(), device)),
        d_dim_(rows(s_.dim(), device)),
        d_sum_(rows(s_.dim(), device)),
        d_packed_(rows(s_.qkv_dim(), device)),
        rstd1_(Dtype::f32, {s_.tokens()}, device),
        rstd2_(Dtype::f32, {s_.tokens()}, device),
        lse_(Dtype::f32, {s_.batch, s_.heads, s_.seq}, device) {}

  // y and sum are [tokens, dim], as x and residual.
  void forward(const Weights& w, const octet::RotationArgs& rotation, const TensorView& x,
               const TensorView& residual, const TensorView& y, const TensorView& sum,
               void* stream) {
    norm_forward_.run(octet::RmsNormForwardArgs{x, residual, w.norm1, normed_, {}, sum1_, rstd1_},
                      stream);
    qkv_.forward(normed_, w.qkv, packed_, stream);
    const TensorView q = part(packed_, 0, s_.heads), k = part(packed_, s_.heads, s_.kv_heads);
    rope_forward_.run(octet::RopeForwardArgs{q, k, q, k, rotation}, stream);  // in place
    attention_forward_.run(octet::AttentionForwardArgs{inputs(), as_heads(heads_out_), lse_},
                           stream);
    projection_.forward(heads_out_, w.projection, projected_, stream);
    norm_forward_.run(
        octet::RmsNormForwardArgs{projected_, sum1_, w.norm2, normed_, {}, sum, rstd2_}, stream);
    mlp_.forward(normed_, w.gate_up, w.down, y, stream);
  }

  // Of the last forward, whose sum is given again. dx is the gradient of x and of residual.
  void backward(const Weights& w, const octet::RotationArgs& rotation, const TensorView& sum,
                const TensorView& dy, const TensorView& dsum, const TensorView& dx,
                const Weights& dw, void* stream) {
    mlp_.backward(dy, d_dim_, dw.gate_up, dw.down, stream);
    norm_backward_.run(
        octet::RmsNormBackwardArgs{d_dim_, sum, w.norm2, rstd2_, dsum, d_sum_, {}, dw.norm2},
        stream);
    projection_.backward(d_sum_, d_dim_, dw.projection, stream);
    const TensorView dq = part(d_packed_, 0, s_.heads), dk = part(d_packed_, s_.heads, s_.kv_heads);
    const TensorView dv = part(d_packed_, s_.heads + s_.kv_heads, s_.kv_heads);
    attention_backward_.run(
        octet::AttentionBackwardArgs{
            inputs(), as_heads(heads_out_), lse_, as_heads(d_dim_), {}, dq, dk, dv, {}},
        stream);
    rope_backward_.run(octet::RopeBackwardArgs{dq, dk, dq, dk, rotation}, stream);
    qkv_.backward(d_packed_, d_dim_, dw.qkv, stream);
    norm_backward_.run(
        octet::RmsNormBackwardArgs{d_dim_, sum1_, w.norm1, rstd1_, d_sum_, dx, {}, dw.norm1},
        stream);
  }

 private:
  octet::RmsNormProblem norm(octet::Device device) const {
    return {.rows = s_.tokens(),
            .cols = s_.dim(),
            .residual = true,
            .dg_dtype = Dtype::bf16,
            .device = device};
  }
  octet::RopeProblem rope(octet::Device device) const {
    return {.batch = s_.batch,
            .seq = s_.seq,
            .q_heads = s_.heads,
            .k_heads = s_.kv_heads,
            .head_dim = s_.head_dim,
            .device = device};
  }
  octet::AttentionProblem attention(octet::Device device) const {
    return {.batch = s_.batch,
            .seq_q = s_.seq,
            .seq_kv = s_.seq,
            .heads_q = s_.heads,
            .heads_kv = s_.kv_heads,
            .dim_qk = s_.head_dim,
            .mask = octet::kCausalMask,
            .device = device};
  }
  octet::Fp8LinearProblem linear(std::int64_t outputs, octet::Device device) const {
    return {.m = s_.tokens(), .n = outputs, .k = s_.dim(), .device = device};
  }
  Tensor rows(std::int64_t cols, octet::Device device) const {
    return Tensor(Dtype::bf16, {s_.tokens(), cols}, device);
  }
  // Some heads of [tokens, all heads], as [batch, seq, heads, head_dim].
  TensorView part(const Tensor& all, std::int64_t first, std::int64_t heads) const {
    const std::int64_t pitch = all.view().shape[1];
    TensorView view =
        octet::make_view(static_cast<char*>(all.data()) + first * s_.head_dim * 2, Dtype::bf16,
                         {s_.batch, s_.seq, heads, s_.head_dim}, all.view().device);
    view.strides = {s_.seq * pitch, pitch, s_.head_dim, 1};
    return view;
  }
  TensorView as_heads(const Tensor& all) const { return part(all, 0, s_.heads); }
  octet::AttentionInputs inputs() const {
    octet::AttentionInputs in;
    in.q = part(packed_, 0, s_.heads);
    in.k = part(packed_, s_.heads, s_.kv_heads);
    in.v = part(packed_, s_.heads + s_.kv_heads, s_.kv_heads);
    return in;
  }

  Shape s_;
  Step<octet::RmsNormForwardPlan> norm_forward_;
  Step<octet::RmsNormBackwardPlan> norm_backward_;
  Step<octet::RopeForwardPlan> rope_forward_;
  Step<octet::RopeBackwardPlan> rope_backward_;
  Step<octet::AttentionForwardPlan> attention_forward_;
  Step<octet::AttentionBackwardPlan> attention_backward_;
  octet::Fp8Linear qkv_, projection_;
  octet::Fp8Mlp mlp_;
  // What forward keeps for backward, and what both only use in between.
  Tensor sum1_, normed_, packed_, heads_out_, projected_, d_dim_, d_sum_, d_packed_, rstd1_, rstd2_,
      lse_;
};

inline void fill(const Tensor& tensor, float size, float offset, std::mt19937& random) {
  std::normal_distribution<float> normal(offset, size);
  auto* to = static_cast<std::uint16_t*>(tensor.data());
  for (std::size_t i = 0; i < tensor.bytes() / 2; ++i) {
    const float value = normal(random);
    to[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  }
}

using Named = std::pair<std::string, const Tensor*>;

// What a block reads and writes.
struct BlockTensors {
  Weights w, dw;
  Tensor x, residual, y, sum, dy, dsum, dx;  // [tokens, dim]
  Tensor cos, sin;                           // [seq, head_dim / 2]

  explicit BlockTensors(const Shape& s, octet::Device device = octet::kCpu)
      : w(s, device),
        dw(s, device),
        x(rows(s, device)),
        residual(rows(s, device)),
        y(rows(s, device)),
        sum(rows(s, device)),
        dy(rows(s, device)),
        dsum(rows(s, device)),
        dx(rows(s, device)),
        cos(Dtype::f32, {s.seq, s.head_dim / 2}, device),
        sin(Dtype::f32, {s.seq, s.head_dim / 2}, device) {}

  octet::RotationArgs rotation() const { return {cos, sin, {}}; }

  std::vector<Named> inputs() const {
    return {{"cos", &cos},
            {"sin", &sin},
            {"x", &x},
            {"residual", &residual},
            {"dy", &dy},
            {"dsum", &dsum},
            {"w.norm1", &w.norm1},
            {"w.qkv", &w.qkv},
            {"w.projection", &w.projection},
            {"w.norm2", &w.norm2},
            {"w.gate_up", &w.gate_up},
            {"w.down", &w.down}};
  }
  std::vector<Named> results() const {
    return {{"y", &y},
            {"sum", &sum},
            {"dx", &dx},
            {"dw.norm1", &dw.norm1},
            {"dw.qkv", &dw.qkv},
            {"dw.projection", &dw.projection},
            {"dw.norm2", &dw.norm2},
            {"dw.gate_up", &dw.gate_up},
            {"dw.down", &dw.down}};
  }

 private:
  static Tensor rows(const Shape& s, octet::Device device) {
    return Tensor(Dtype::bf16, {s.tokens(), s.dim()}, device);
  }
};

// Random inputs, on the CPU. The rotations are Llama's, with a base of 10,000.
inline BlockTensors random_tensors(const Shape& s) {
  BlockTensors t(s);
  std::mt19937 random(1);
  for (const Tensor* weight : {&t.w.qkv, &t.w.projection, &t.w.gate_up, &t.w.down}) {
    fill(*weight, 0.06f, 0, random);
  }
  for (const Tensor* weight : {&t.w.norm1, &t.w.norm2}) fill(*weight, 0.1f, 1, random);
  for (const Tensor* input : {&t.x, &t.residual, &t.dy, &t.dsum}) fill(*input, 1, 0, random);
  const std::int64_t pairs = s.head_dim / 2;
  for (std::int64_t i = 0; i < s.seq * pairs; ++i) {
    const double angle = static_cast<double>(i / pairs) *
                         std::pow(10000, -2.0 * static_cast<double>(i % pairs) / s.head_dim);
    static_cast<float*>(t.cos.data())[i] = static_cast<float>(std::cos(angle));
    static_cast<float*>(t.sin.data())[i] = static_cast<float>(std::sin(angle));
  }
  return t;
}

inline void forward(Block& block, const BlockTensors& t, void* stream) {
  block.forward(t.w, t.rotation(), t.x, t.residual, t.y, t.sum, stream);
}
inline void backward(Block& block, const BlockTensors& t, void* stream) {
  block.backward(t.w, t.rotation(), t.sum, t.dy, t.dsum, t.dx, t.dw, stream);
}

// A file that PyTorch reads: the length of a header, the header in JSON, the bytes of the tensors.
inline void write(const char* path, const BlockTensors& block) {
  std::vector<Named> tensors = block.inputs();
  for (const Named& result : block.results()) tensors.push_back(result);
  std::string header = "{";
  std::size_t end = 0;
  for (const auto& [name, tensor] : tensors) {
    const bool wide = tensor->view().dtype == Dtype::f32;
    header += (header.size() > 1 ? ",\"" : "\"") + name + "\":{\"dtype\":\"" +
              (wide ? "F32" : "BF16") + "\",\"shape\":" + octet::describe_shape(*tensor) +
              ",\"data_offsets\":[" + std::to_string(end) + ",";
    end += tensor->bytes();
    header += std::to_string(end) + "]}";
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');  // aligns the tensors
  const std::uint64_t length = header.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length).write(header.data(), length);
  for (const auto& [name, tensor] : tensors) {
    file.write(static_cast<const char*>(tensor->data()),
               static_cast<std::streamsize>(tensor->bytes()));
  }
  if (!file.flush()) std::fprintf(stderr, "cannot write %s\n", path);
}

// What the examples run: the heads of Llama in small.
inline constexpr Shape kSmall{
    .batch = 2, .seq = 96, .heads = 4, .kv_heads = 2, .head_dim = 64, .hidden = 384};
