// Drives the C API with arbitrary problems and tensors. A call either succeeds within the arena, or
// returns a status with a text and leaves every byte of the arena as it was.
#include "fuzz/c_api_input.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace octet::fuzz {
namespace {

constexpr std::size_t kWorkspaceLimit = 1 << 20;
constexpr std::int64_t kWorkLimit = 1 << 18;  // multiplications of one call

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "c_api_fuzz: %s: %s\n", what, octet_last_error());
  std::abort();
}

void check_status(octet_status status) {
  if (status == OCTET_OK) return;
  if (*octet_last_error() == '\0') give_up("an error without a text");
  if (status < OCTET_OK || status >= OCTET_INTERNAL) give_up("an error of no documented kind");
}

using Plan = std::unique_ptr<octet_plan, decltype(&octet_plan_destroy)>;

// Plans through `make`; null where the problem was refused.
template <class Make>
Plan plan_with(const Make& make) {
  octet_plan* made = nullptr;
  const octet_status status = make(&made);
  check_status(status);
  if ((status == OCTET_OK) != (made != nullptr)) give_up("a plan without success, or none with it");
  if (made != nullptr && *octet_plan_problem(made) == '\0') give_up("a plan that cannot say what");
  return {made, octet_plan_destroy};
}

// The memory of one execution: on the heap, so that the sanitizer guards its ends.
class Memory {
 public:
  Memory()
      : arena_(new (std::align_val_t{OCTET_ALIGNMENT}) char[kArenaBytes]), before_(kArenaBytes) {
    for (std::int64_t i = 0; i < kArenaBytes; ++i) arena_[i] = static_cast<char>(i * 7);
  }
  ~Memory() { ::operator delete[](arena_, std::align_val_t{OCTET_ALIGNMENT}); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  char* arena() { return arena_; }

  // Runs a plan with a workspace that is right or nearly so.
  template <class Run>
  void run(Input& input, const octet_plan* plan, const Run& run) {
    std::size_t bytes = octet_plan_workspace_bytes(plan);
    if (bytes > kWorkspaceLimit) return;
    std::vector<char> storage(bytes + 2 * OCTET_ALIGNMENT);
    void* start = storage.data();
    std::size_t room = storage.size();
    start = std::align(OCTET_ALIGNMENT, bytes, start, room);
    if (input.spoilt()) start = static_cast<char*>(start) + 8;
    if (input.spoilt()) start = nullptr;
    if (bytes > 0 && input.spoilt()) --bytes;
    std::memcpy(before_.data(), arena_, kArenaBytes);
    const octet_status status = run(start, bytes);
    check_status(status);
    if (status != OCTET_OK && std::memcmp(before_.data(), arena_, kArenaBytes) != 0) {
      give_up("a refused call has written");
    }
  }

 private:
  char* arena_;
  std::vector<char> before_;
};

bool is_long(std::int64_t m, std::int64_t n, std::int64_t k) {
  return static_cast<__int128>(m) * n > kWorkLimit || static_cast<__int128>(m) * n * k > kWorkLimit;
}

template <class Struct>
Input::Grown<Struct> with_tail() {
  Input::Grown<Struct> grown;
  std::memset(&grown, 0, sizeof grown);
  return grown;
}

void fuzz_quantize(Input& input, Memory& memory) {
  auto problem = with_tail<octet_quantize_problem>();
  octet_quantize_problem& p = problem.known;
  octet_quantize_problem_init(&p);
  p.rows = input.extent();
  p.cols = input.extent();
  p.input = input.float_dtype();
  p.format = input.fp8_dtype();
  p.block = input.block();
  p.transposed_block = input.block();
  p.amax_floor = input.real();
  p.pow2_scales = input.flag();
  p.device = input.device();
  input.grow(&problem);
  octet_plan_options storage;
  const auto* options = input.options(&storage, &octet_plan_options::backend);
  const Plan plan =
      plan_with([&](octet_plan** out) { return octet_plan_quantize(&p, options, out); });
  if (plan == nullptr || is_long(p.rows, p.cols, 1)) return;
  auto args = with_tail<octet_quantize_args>();
  OCTET_INIT(&args.known);
  args.known.input = input.tensor(p.input, p.rows, p.cols);
  args.known.out = input.quantized(p.format, p.rows, p.cols, p.block);
  args.known.transposed = input.quantized(p.format, p.cols, p.rows, p.transposed_block);
  input.grow(&args);
  memory.run(input, plan.get(), [&](void* workspace, std::size_t bytes) {
    return octet_run_quantize(plan.get(), &args.known, workspace, bytes, nullptr);
  });
}

void fuzz_dequantize(Input& input, Memory& memory) {
  auto problem = with_tail<octet_dequantize_problem>();
  octet_dequantize_problem& p = problem.known;
  octet_dequantize_problem_init(&p);
  p.rows = input.extent();
  p.cols = input.extent();
  p.format = input.fp8_dtype();
  p.block = input.block();
  p.out = input.float_dtype();
  p.device = input.device();
  input.grow(&problem);
  octet_plan_options storage;
  const auto* options = input.options(&storage, &octet_plan_options::backend);
  const Plan plan =
      plan_with([&](octet_plan** out) { return octet_plan_dequantize(&p, options, out); });
  if (plan == nullptr || is_long(p.rows, p.cols, 1)) return;
  auto args = with_tail<octet_dequantize_args>();
  OCTET_INIT(&args.known);
  args.known.input = input.quantized(p.format, p.rows, p.cols, p.block);
  args.known.out = input.tensor(p.out, p.rows, p.cols);
  input.grow(&args);
  memory.run(input, plan.get(), [&](void* workspace, std::size_t bytes) {
    return octet_run_dequantize(plan.get(), &args.known, workspace, bytes, nullptr);
  });
}

void fuzz_repack(Input& input, Memory& memory) {
  auto problem = with_tail<octet_repack_problem>();
  octet_repack_problem& p = problem.known;
  octet_repack_problem_init(&p);
  p.rows = input.extent();
  p.cols = input.extent();
  p.format = input.fp8_dtype();
  p.block = input.block();
  p.device = input.device();
  input.grow(&problem);
  octet_plan_options storage;
  const auto* options = input.options(&storage, &octet_plan_options::backend);
  const Plan plan =
      plan_with([&](octet_plan** out) { return octet_plan_repack(&p, options, out); });
  if (plan == nullptr || is_long(p.rows, p.cols, 1)) return;
  auto args = with_tail<octet_repack_args>();
  OCTET_INIT(&args.known);
  args.known.input = input.quantized(p.format, p.rows, p.cols, p.block);
  args.known.out = input.quantized(p.format, p.rows, p.cols, p.block);
  input.grow(&args);
  memory.run(input, plan.get(), [&](void* workspace, std::size_t bytes) {
    return octet_run_repack(plan.get(), &args.known, workspace, bytes, nullptr);
  });
}

void fuzz_gemm(Input& input, Memory& memory) {
  auto problem = with_tail<octet_gemm_problem>();
  octet_gemm_problem& p = problem.known;
  octet_gemm_problem_init(&p);
  p.m = input.extent();
  p.n = input.extent();
  p.k = input.extent();
  const bool fp8 = input.coin();
  p.a.dtype = fp8 ? input.fp8_dtype() : input.float_dtype();
  p.b.dtype = fp8 ? input.fp8_dtype() : p.a.dtype;
  p.a.block = fp8 || input.spoilt() ? input.block() : octet_block{0, 0};
  p.b.block = fp8 || input.spoilt() ? input.block() : octet_block{0, 0};
  p.a.major = fp8 ? 0 : input.flag();
  p.b.major = fp8 ? 0 : input.flag();
  p.out = input.float_dtype();
  p.accumulate = input.flag();
  p.device = input.device();
  if (input.spoilt()) p.split_k = input.flag();
  if (input.spoilt()) p.group_kind = input.flag();
  input.grow(&problem);
  octet_plan_options storage;
  const auto* options = input.options(&storage, &octet_plan_options::backend);
  const Plan plan = plan_with([&](octet_plan** out) { return octet_plan_gemm(&p, options, out); });
  if (plan == nullptr || is_long(p.m, p.n, p.k)) return;
  auto args = with_tail<octet_gemm_args>();
  OCTET_INIT(&args.known);
  args.known.a = input.quantized(p.a.dtype, p.m, p.k, p.a.block);
  args.known.b = input.quantized(p.b.dtype, p.n, p.k, p.b.block);
  args.known.d = input.tensor(p.out, p.m, p.n);
  if (input.spoilt()) args.known.bias = args.known.d;
  input.grow(&args);
  memory.run(input, plan.get(), [&](void* workspace, std::size_t bytes) {
    return octet_run_gemm(plan.get(), &args.known, workspace, bytes, nullptr);
  });
}

octet_fp8_linear_problem layer_problem(Input& input) {
  octet_fp8_linear_problem p;
  octet_fp8_linear_problem_init(&p);
  p.m = input.extent();
  p.n = input.extent();
  p.k = input.extent();
  p.dtype = input.float_dtype();
  p.format = input.fp8_dtype();
  p.grad_format = input.fp8_dtype();
  p.weights_quantized = input.flag();
  p.training = input.spoilt() ? input.flag() : 1;
  p.need_dx = input.flag();
  p.need_dw = input.flag();
  p.dw = input.float_dtype();
  p.accumulate_dw = input.flag();
  p.wgrad_blocks = input.number(OCTET_WGRAD_ROWS, OCTET_WGRAD_SQUARE);
  p.amax_floor = input.real();
  p.pow2_scales = input.flag();
  p.device = input.device();
  return p;
}

octet_block x_t_block(const octet_fp8_linear_problem& p) {
  return octet_block_of(p.wgrad_blocks == OCTET_WGRAD_SQUARE ? 128 : 1, 128);
}

void fuzz_layer(Input& input, Memory& memory) {
  auto problem = with_tail<octet_fp8_linear_problem>();
  octet_fp8_linear_problem& p = problem.known;
  p = layer_problem(input);
  input.grow(&problem);
  octet_fp8_linear_saved_layout saved_layout;
  check_status(octet_layout_fp8_linear_saved(&p, &saved_layout));
  octet_fp8_linear_options storage;
  const auto* options = input.options(&storage, &octet_fp8_linear_options::gemm_backend);
  const bool forward = input.coin();
  const Plan plan = plan_with([&](octet_plan** out) {
    return forward ? octet_plan_fp8_linear_forward(&p, options, out)
                   : octet_plan_fp8_linear_backward(&p, options, out);
  });
  if (plan == nullptr || is_long(p.m, p.n, p.k)) return;
  const octet_fp8_linear_saved saved = {
      input.quantized(p.format, p.k, p.m, x_t_block(p)),
      input.quantized(p.format, p.k, p.n, octet_block_of(128, 128))};
  octet_fp8_linear_forward_args f;
  octet_fp8_linear_backward_args b;
  OCTET_INIT(&f);
  OCTET_INIT(&b);
  f.saved = b.saved = saved;
  if (forward) {
    f.x = input.tensor(p.dtype, p.m, p.k);
    f.w = input.tensor(p.dtype, p.n, p.k);
    f.weights.w = input.quantized(p.format, p.n, p.k, octet_block_of(128, 128));
    f.y = input.tensor(p.dtype, p.m, p.n);
  } else {
    b.dy = input.tensor(p.dtype, p.m, p.n);
    b.dx = input.tensor(p.dtype, p.m, p.k);
    b.dw = input.tensor(p.dw, p.n, p.k);
  }
  const bool other_plan = input.spoilt();
  memory.run(input, plan.get(), [&](void* workspace, std::size_t bytes) {
    return forward != other_plan
               ? octet_run_fp8_linear_forward(plan.get(), &f, workspace, bytes, nullptr)
               : octet_run_fp8_linear_backward(plan.get(), &b, workspace, bytes, nullptr);
  });
}

void fuzz_layout(Input& input, Memory& memory) {
  octet_quantized_layout layout;
  std::memset(&layout, 0, sizeof layout);
  const octet_status made = octet_layout_quantized(input.extent(), input.extent(),
                                                   input.number(0, 7), input.block(), &layout);
  check_status(made);
  if (made == OCTET_OK && layout.bytes < layout.scales_offset) give_up("a layout that wraps");
  if (input.spoilt()) layout.rows = input.extent();
  octet_quantized view;
  check_status(
      octet_view_quantized(&layout, memory.arena() + input.choice(3) * 128, input.device(), &view));
}

}  // namespace
}  // namespace octet::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace octet::fuzz;
  Memory memory;
  Input input(data, size, memory.arena());
  switch (input.choice(6)) {
    case 0: fuzz_quantize(input, memory); break;
    case 1: fuzz_dequantize(input, memory); break;
    case 2: fuzz_repack(input, memory); break;
    case 3: fuzz_gemm(input, memory); break;
    case 4: fuzz_layer(input, memory); break;
    default: fuzz_layout(input, memory); break;
  }
  return 0;
}
