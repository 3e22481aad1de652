// Runs attention through cuDNN: a graph of its frontend for every layout of the tensors, built once
// and kept with the plan. The frontend is header-only and resolves libcudnn's functions at run time.
// Its Stats are our lse: f32, natural logarithm, sinks included.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB

#include "core/workspace.hpp"
#include "device/cuda/launch.hpp"
#include "device/cuda/relaxed_capture.hpp"
#include "device/cuda_runtime.hpp"
#include "ops/attention/problem.hpp"

#include <cudnn_frontend.h>

#include <array>
#include <map>
#include <mutex>
#include <unordered_map>

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // the frontend looks up its functions here
}

namespace octet {
namespace {

namespace fe = cudnn_frontend;
using GraphTensor = std::shared_ptr<fe::graph::Tensor_attributes>;

// Names of tensors in a graph and in a call of it.
enum Name : std::int64_t { kQ = 1, kK, kV, kOut, kLse, kSink, kDout, kDq, kDk, kDv, kDsink };

// A tensor as cuDNN sees it: [batch, heads, rows, features].
struct GraphView {
  Name name;
  const char* argument;
  fe::DataType_t dtype;
  std::array<std::int64_t, 4> shape;
  std::array<std::int64_t, 4> strides;
  void* data;
};
using GraphViews = std::vector<GraphView>;
// The strides of all tensors: what distinguishes the graphs of a plan.
using Layout = std::vector<std::array<std::int64_t, 4>>;

fe::DataType_t data_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16: return fe::DataType_t::BFLOAT16;
    case Dtype::f16: return fe::DataType_t::HALF;
    default: return fe::DataType_t::FLOAT;
  }
}

// The stride of an extent of 1 may be anything: then it is that of a dense tensor.
std::int64_t stride_of(std::int64_t extent, std::int64_t stride, std::int64_t dense) {
  return extent > 1 ? stride : dense;
}

// [batch, seq, heads, dim]
GraphView heads_view(Name name, const char* argument, const TensorView& view) {
  const auto& [batch, seq, heads, dim] =
      std::tie(view.shape[0], view.shape[1], view.shape[2], view.shape[3]);
  return {name,
          argument,
          data_type(view.dtype),
          {batch, heads, seq, dim},
          {stride_of(batch, view.strides[0], seq * heads * dim),
           stride_of(heads, view.strides[2], dim), stride_of(seq, view.strides[1], heads * dim), 1},
          view.data};
}

// [batch, heads, seq]
GraphView lse_view(const TensorView& view) {
  const auto& [batch, heads, seq] = std::tie(view.shape[0], view.shape[1], view.shape[2]);
  return {kLse,
          "lse",
          fe::DataType_t::FLOAT,
          {batch, heads, seq, 1},
          {stride_of(batch, view.strides[0], heads * seq), stride_of(heads, view.strides[1], seq),
           1, 1},
          view.data};
}

// [heads]
GraphView sink_view(Name name, const char* argument, const TensorView& view) {
  const std::int64_t heads = view.shape[0];
  return {name, argument, fe::DataType_t::FLOAT, {1, heads, 1, 1}, {heads, 1, 1, 1}, view.data};
}

void add_inputs(const AttentionProblem& problem, const AttentionInputs& inputs, GraphViews& views) {
  views.push_back(heads_view(kQ, "q", inputs.q));
  views.push_back(heads_view(kK, "k", inputs.k));
  views.push_back(heads_view(kV, "v", inputs.v));
  if (problem.sink) views.push_back(sink_view(kSink, "sink", inputs.sink));
}

GraphViews views_of(const AttentionProblem& problem, const AttentionForwardArgs& args) {
  GraphViews views;
  add_inputs(problem, args.inputs, views);
  views.push_back(heads_view(kOut, "out", args.out));
  if (args.lse.data != nullptr) views.push_back(lse_view(args.lse));
  return views;
}

GraphViews views_of(const AttentionProblem& problem, const AttentionBackwardArgs& args) {
  GraphViews views;
  add_inputs(problem, args.inputs, views);
  views.push_back(heads_view(kOut, "out", args.out));
  views.push_back(lse_view(args.lse));
  views.push_back(heads_view(kDout, "dout", args.dout));
  views.push_back(heads_view(kDq, "dq", args.dq));
  views.push_back(heads_view(kDk, "dk", args.dk));
  views.push_back(heads_view(kDv, "dv", args.dv));
  if (problem.sink) views.push_back(sink_view(kDsink, "dsink", args.dsink));
  return views;
}

// Dense tensors without memory, for which a plan is made.
struct DenseTensors {
  TensorView q, k, out, v, lse, sink;

  explicit DenseTensors(const AttentionProblem& p)
      : q(make_view(placeholder(), p.dtype, {p.batch, p.seq_q, p.heads_q, p.dim_qk})),
        k(make_view(placeholder(), p.dtype, {p.batch, p.seq_kv, p.heads_kv, p.dim_qk})),
        out(make_view(placeholder(), p.dtype, {p.batch, p.seq_q, p.heads_q, p.dim_v})),
        v(make_view(placeholder(), p.dtype, {p.batch, p.seq_kv, p.heads_kv, p.dim_v})),
        lse(make_view(placeholder(), Dtype::f32, {p.batch, p.heads_q, p.seq_q})),
        sink(make_view(placeholder(), Dtype::f32, {p.heads_q})) {}

  AttentionInputs inputs() const { return {q, k, v, sink, {}, {}}; }
  AttentionForwardArgs forward() const { return {inputs(), out, lse}; }
  AttentionBackwardArgs backward() const { return {inputs(), out, lse, out, {}, q, k, v, sink}; }

 private:
  static void* placeholder() {
    static char memory = 0;
    return &memory;
  }
};

// cuDNN reads and writes 16 bytes at a time, and does not check that it may.
void check_layout(const GraphViews& views) {
  constexpr std::uintptr_t kBytes = 16;
  for (const GraphView& view : views) {
    if (view.dtype == fe::DataType_t::FLOAT) continue;
    bool fits = reinterpret_cast<std::uintptr_t>(view.data) % kBytes == 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto bytes = static_cast<std::uintptr_t>(view.strides[i]) * 2;
      if (view.shape[i] > 1) fits = fits && bytes > 0 && bytes % kBytes == 0;
    }
    if (fits) continue;
    fail(ErrorCode::unsupported, "cudnn wants ", view.argument,
         " with rows on 16-byte boundaries and no stride of 0, got strides ", view.strides[0], ", ",
         view.strides[2], " and ", view.strides[1], " (batch, seq, heads) at ", view.data);
  }
}

void check_status(fe::error_t status, ErrorCode code) {
  if (status.is_bad()) fail(code, "cudnn: ", status.get_message());
}
void check_status(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  fail(ErrorCode::device_error, "cudnn: ", what, " returned ", static_cast<int>(status));
}

// A handle of cuDNN for one call on the current device: no two threads may use one at once. Handles
// are kept, because making one takes milliseconds and allocates.
class Handle {
 public:
  explicit Handle(int device) : device_(device) {
    {
      const std::lock_guard lock(mutex());
      auto& free = free_handles()[device];
      if (!free.empty()) {
        handle_ = free.back();
        free.pop_back();
        return;
      }
    }
    const cuda::RelaxedCapture relaxed;
    check_status(fe::detail::create_handle(&handle_), "cudnnCreate");
  }
  ~Handle() {
    const std::lock_guard lock(mutex());
    free_handles()[device_].push_back(handle_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  cudnnHandle_t get() const { return handle_; }

 private:
  static std::mutex& mutex() {
    static std::mutex mutex;
    return mutex;
  }
  static std::map<int, std::vector<cudnnHandle_t>>& free_handles() {
    // Never destroyed: other threads may run at exit.
    static auto& handles = *new std::map<int, std::vector<cudnnHandle_t>>;
    return handles;
  }

  int device_;
  cudnnHandle_t handle_ = nullptr;
};

template <class Attributes>
void set_mask(const AttentionProblem& problem, Attributes& attributes) {
  const AttentionMask& mask = problem.mask;
  if (mask.right != kNoWindow)
    attributes.set_diagonal_band_right_bound(static_cast<int>(mask.right));
  // cuDNN counts the key at the query's place as well.
  if (mask.left != kNoWindow)
    attributes.set_diagonal_band_left_bound(static_cast<int>(mask.left + 1));
  // Where both are the same, top-left has fewer rules.
  attributes.set_diagonal_alignment(mask.align == MaskAlignment::bottom_right &&
                                            problem.seq_q != problem.seq_kv
                                        ? fe::DiagonalAlignment_t::BOTTOM_RIGHT
                                        : fe::DiagonalAlignment_t::TOP_LEFT);
}

// A graph under construction, its tensors by name.
class GraphBuilder {
 public:
  GraphBuilder(const AttentionProblem& problem, const GraphViews& views)
      : graph_(std::make_shared<fe::graph::Graph>()), views_(views) {
    graph_->set_io_data_type(data_type(problem.dtype))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT)
        .set_sm_version(90);
  }

  bool has(Name name) const { return find(name) != nullptr; }
  GraphTensor input(Name name) const {
    return graph_->tensor(described(fe::graph::Tensor_attributes(), *find(name)));
  }
  void output(Name name, const GraphTensor& tensor) const {
    described(*tensor, *find(name)).set_output(true);
  }
  // An output that the operation is given.
  GraphTensor own_output(Name name) const {
    GraphTensor tensor = input(name);
    tensor->set_output(true);
    return tensor;
  }
  const std::shared_ptr<fe::graph::Graph>& graph() const { return graph_; }

 private:
  const GraphView* find(Name name) const {
    for (const GraphView& view : views_) {
      if (view.name == name) return &view;
    }
    return nullptr;
  }
  template <class Tensor>
  static Tensor&& described(Tensor&& tensor, const GraphView& view) {
    tensor.set_uid(view.name)
        .set_name(view.argument)
        .set_data_type(view.dtype)
        .set_dim({view.shape.begin(), view.shape.end()})
        .set_stride({view.strides.begin(), view.strides.end()});
    return std::forward<Tensor>(tensor);
  }

  std::shared_ptr<fe::graph::Graph> graph_;
  const GraphViews& views_;
};

void add_forward(const AttentionProblem& problem, const GraphBuilder& builder) {
  auto attributes = fe::graph::SDPA_attributes()
                        .set_name("attention")
                        .set_generate_stats(builder.has(kLse))
                        .set_attn_scale(problem.scale);
  set_mask(problem, attributes);
  if (problem.sink) attributes.set_sink_token(builder.input(kSink));
  const auto [out, lse] =
      builder.graph()->sdpa(builder.input(kQ), builder.input(kK), builder.input(kV), attributes);
  builder.output(kOut, out);
  if (builder.has(kLse)) builder.output(kLse, lse);
}

void add_backward(const AttentionProblem& problem, bool deterministic,
                  const GraphBuilder& builder) {
  auto attributes = fe::graph::SDPA_backward_attributes()
                        .set_name("attention_backward")
                        .set_deterministic_algorithm(deterministic)
                        .set_attn_scale(problem.scale);
  set_mask(problem, attributes);
  if (problem.sink) {
    attributes.set_sink_token(builder.input(kSink));
    attributes.set_dsink_token(builder.own_output(kDsink));
  }
  const auto [dq, dk, dv] = builder.graph()->sdpa_backward(
      builder.input(kQ), builder.input(kK), builder.input(kV), builder.input(kOut),
      builder.input(kDout), builder.input(kLse), attributes);
  builder.output(kDq, dq);
  builder.output(kDk, dk);
  builder.output(kDv, dv);
}

// A graph that can be run.
struct BuiltGraph {
  std::shared_ptr<fe::graph::Graph> graph;
  std::size_t workspace_bytes = 0;
};

BuiltGraph build(const std::shared_ptr<fe::graph::Graph>& graph, int device) {
  const Handle handle(device);
  check_status(graph->build(handle.get(), {fe::HeurMode_t::A}), ErrorCode::unsupported);
  std::int64_t bytes = 0;
  check_status(graph->get_workspace_size(bytes), ErrorCode::unsupported);
  return {graph, static_cast<std::size_t>(bytes)};
}

// The graphs of one plan, by their layouts.
class Graphs {
 public:
  using Add = std::function<void(const GraphBuilder&)>;

  Graphs(const AttentionProblem& problem, Add add) : problem_(problem), add_(std::move(add)) {}

  BuiltGraph find(const GraphViews& views) {
    Layout layout;
    for (const GraphView& view : views) layout.push_back(view.strides);
    const std::lock_guard lock(mutex_);
    const auto known = graphs_.find(layout);
    if (known != graphs_.end()) return known->second;
    const GraphBuilder builder(problem_, views);
    add_(builder);
    constexpr std::size_t kMostGraphs = 64;
    if (graphs_.size() >= kMostGraphs) graphs_.clear();
    return graphs_[layout] = build(builder.graph(), problem_.device.index);
  }

  void run(const GraphViews& views, Workspace workspace, void* stream) {
    const BuiltGraph built = find(views);
    if (built.workspace_bytes > workspace.bytes) {
      fail(ErrorCode::unsupported, "cudnn wants ", built.workspace_bytes,
           " bytes of workspace for tensors with these strides, the plan has ", workspace.bytes);
    }
    std::unordered_map<std::int64_t, void*> pointers;
    for (const GraphView& view : views) pointers.emplace(view.name, view.data);
    const Handle handle(problem_.device.index);
    check_status(fe::detail::set_stream(handle.get(), static_cast<cudaStream_t>(stream)),
                 "cudnnSetStream");
    check_status(built.graph->execute(handle.get(), pointers, workspace.data),
                 ErrorCode::device_error);
  }

 private:
  AttentionProblem problem_;
  Add add_;
  std::mutex mutex_;
  std::map<Layout, BuiltGraph> graphs_;
};

// Errors name the problem; the frontend has exceptions of its own for symbols that are missing.
template <class Task>
auto with_problem(const AttentionProblem& problem, const Task& task) {
  try {
    const cuda::DeviceScope scope(problem.device.index);
    return task();
  } catch (const Error& error) {
    fail(error.code(), "attention: ", error.what(), "\n  problem: ", describe(problem));
  } catch (const std::exception& error) {
    fail(ErrorCode::unsupported, "attention: cudnn: ", error.what(),
         "\n  problem: ", describe(problem));
  }
}

void load_library() {
  static std::once_flag once;
  std::call_once(once, [] { fe::cudnn_dlhandle = cuda::cudnn_library(); });
}

std::size_t lse_bytes(const AttentionProblem& problem) {
  return static_cast<std::size_t>(problem.batch * problem.heads_q * problem.seq_q) * sizeof(float);
}

// Before 9.26 backward reads a dense lse whatever its strides are: others are copied.
TensorView dense_lse(const TensorView& lse, void* memory, void* stream) {
  const auto& [batch, heads, seq] = std::tie(lse.shape[0], lse.shape[1], lse.shape[2]);
  const bool is_dense =
      (heads == 1 || lse.strides[1] == seq) && (batch == 1 || lse.strides[0] == heads * seq);
  if (is_dense) return lse;
  TensorView copy = make_view(memory, Dtype::f32, {batch, heads, seq}, lse.device);
  const auto bytes = [](std::int64_t floats) {
    return static_cast<std::size_t>(floats) * sizeof(float);
  };
  for (std::int64_t b = 0; b < batch; ++b) {
    cuda::check(cudaMemcpy2DAsync(static_cast<float*>(memory) + b * heads * seq, bytes(seq),
                                  static_cast<const float*>(lse.data) + b * lse.strides[0],
                                  bytes(heads == 1 ? seq : lse.strides[1]), bytes(seq),
                                  static_cast<std::size_t>(heads), cudaMemcpyDeviceToDevice,
                                  static_cast<cudaStream_t>(stream)),
                "cudaMemcpy2DAsync");
  }
  return copy;
}

void check_limit(const AttentionProblem& problem, std::size_t bytes) {
  if (bytes <= problem.workspace_limit) return;
  fail(ErrorCode::unsupported, "cudnn wants ", bytes,
       " bytes of workspace for backward, more than ",
       "workspace_limit = ", problem.workspace_limit);
}

}  // namespace

Planned<AttentionForwardArgs> cudnn_forward_plan(const AttentionProblem& problem) {
  return with_problem(problem, [&]() -> Planned<AttentionForwardArgs> {
    load_library();
    const auto graphs = std::make_shared<Graphs>(
        problem, [problem](const GraphBuilder& builder) { add_forward(problem, builder); });
    const BuiltGraph dense = graphs->find(views_of(problem, DenseTensors(problem).forward()));
    const auto run = [problem, graphs](const AttentionForwardArgs& args,
                                       const RunContext& context) {
      with_problem(problem, [&] {
        const GraphViews views = views_of(problem, args);
        check_layout(views);
        graphs->run(views, context.workspace, context.stream);
      });
    };
    return {"", dense.workspace_bytes, run};
  });
}

Planned<AttentionBackwardArgs> cudnn_backward_plan(const AttentionProblem& problem,
                                                   bool deterministic) {
  return with_problem(problem, [&]() -> Planned<AttentionBackwardArgs> {
    load_library();
    const auto graphs =
        std::make_shared<Graphs>(problem, [problem, deterministic](const GraphBuilder& builder) {
          add_backward(problem, deterministic, builder);
        });
    const BuiltGraph dense = graphs->find(views_of(problem, DenseTensors(problem).backward()));
    const std::size_t bytes =
        aligned_bytes(lse_bytes(problem)) + aligned_bytes(dense.workspace_bytes);
    check_limit(problem, bytes);
    const auto run = [problem, graphs](AttentionBackwardArgs args, const RunContext& context) {
      with_problem(problem, [&] {
        if (args.dlse.data != nullptr) {
          fail(ErrorCode::unsupported, "cudnn takes no dlse, the gradient that arrives at lse");
        }
        WorkspaceCarver workspace(context.workspace);
        args.lse = dense_lse(args.lse, workspace.take(lse_bytes(problem)), context.stream);
        const GraphViews views = views_of(problem, args);
        check_layout(views);
        graphs->run(views, workspace.rest(), context.stream);
      });
    };
    return {"", bytes, run};
  });
}

}  // namespace octet
