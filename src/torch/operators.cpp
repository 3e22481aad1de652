// The table of torch.ops.octet, and what makes a failure in a kernel an exception of torch.
#include "torch/operators.hpp"

#include "torch/error.hpp"
#include "torch/plan_cache.hpp"

#include <new>
#include <string>

namespace octet_torch {

namespace {

// Of this thread's last failed operator.
thread_local octet_status failed_status = OCTET_OK;
thread_local std::string failed_text;

bool fails(void (*kernel)(StackValue*), StackValue* stack) {
  try {
    kernel(stack);
    return false;
  } catch (const Failure& failure) {
    failed_status = failure.status;
    failed_text = failure.text;
  } catch (const std::bad_alloc&) {
    failed_status = OCTET_OUT_OF_MEMORY;
    failed_text = "octet: out of memory";
  }
  return true;
}

// libtorch throws through this frame: it holds nothing that has a destructor.
template <void (*kernel)(StackValue*)>
void boxed(StackValue* stack, std::uint64_t, std::uint64_t) {
  if (fails(kernel, stack)) shim.check(false, "", "octet", 0, failed_text.c_str());
}

struct Operator {
  const char* schema;  // the name is what stands before the parenthesis
  BoxedKernel kernel;
};

// format, grad_format: 4 (e4m3) or 5 (e5m2). wgrad: 1 (x^T in 1x128 blocks) or 2 (128x128).
// Tensors?, strings and lists are slow in the shim, so there are none.
constexpr Operator kOperators[] = {
    {"linear_forward(Tensor x, Tensor w, int format, int grad_format, int wgrad, bool save_x) -> "
     "(Tensor y, Tensor x_t, Tensor x_t_scales)",
     &boxed<linear_forward>},
    {"linear_forward_main_grad(Tensor x, Tensor w, Tensor main_grad, int format, int grad_format, "
     "int wgrad) -> (Tensor y, Tensor x_t, Tensor x_t_scales)",
     &boxed<linear_forward_main_grad>},
    {"linear_backward(Tensor dy, Tensor x_t, Tensor x_t_scales, Tensor w, int format, "
     "int grad_format, int wgrad, bool need_dx, bool need_dw) -> (Tensor dx, Tensor dw)",
     &boxed<linear_backward>},
    {"linear_backward_main_grad(Tensor dy, Tensor x_t, Tensor x_t_scales, Tensor w, "
     "Tensor(a!) main_grad, int format, int grad_format, int wgrad, bool need_dx) -> Tensor dx",
     &boxed<linear_backward_main_grad>},
    {"quantize(Tensor x, int format, int block_rows, int block_cols, bool transposed, "
     "bool pow2_scales, float amax_floor) -> (Tensor values, Tensor scales)",
     &boxed<quantize>},
    {"dequantize(Tensor values, Tensor scales, SymInt rows, SymInt cols, int format, "
     "int block_rows, int block_cols, int dtype) -> Tensor",
     &boxed<dequantize>},
    {"rms_norm(Tensor x, Tensor g, float eps) -> (Tensor y, Tensor rstd)", &boxed<rms_norm>},
    {"rms_norm_residual(Tensor x, Tensor residual, Tensor g, float eps) -> "
     "(Tensor y, Tensor sum, Tensor rstd)",
     &boxed<rms_norm_residual>},
    {"rms_norm_backward(Tensor dy, Tensor x, Tensor g, Tensor rstd, float eps) -> "
     "(Tensor dx, Tensor dg)",
     &boxed<rms_norm_backward>},
    {"rms_norm_residual_backward(Tensor dy, Tensor dsum, Tensor sum, Tensor g, Tensor rstd, "
     "float eps) -> (Tensor dx, Tensor dg)",
     &boxed<rms_norm_residual_backward>},
    {"rope(Tensor q, Tensor k, Tensor cos, Tensor sin, bool interleaved) -> "
     "(Tensor q_out, Tensor k_out)",
     &boxed<rope>},
    {"rope_backward(Tensor dq_out, Tensor dk_out, Tensor cos, Tensor sin, bool interleaved) -> "
     "(Tensor dq, Tensor dk)",
     &boxed<rope_backward>},
    {"swiglu(Tensor gate_up) -> Tensor", &boxed<swiglu>},
    {"swiglu_backward(Tensor dy, Tensor gate_up) -> Tensor", &boxed<swiglu_backward>},
};

// The ABI of the stack that the kernels were written for: torch 2.10.
constexpr std::uint64_t kStackVersion = (2ULL << 56) | (10ULL << 48);

const char* register_operators() {
  if (const char* missing = load_shim()) return missing;
  LibraryHandle definitions = nullptr;  // libraries live as long as the process
  if (shim.library_define("octet", "octet", 0, &definitions) != 0) return "a free namespace octet";
  for (const Operator& op : kOperators) {
    if (shim.define(definitions, op.schema) != 0) return op.schema;
  }
  for (const char* key : {"CPU", "CUDA"}) {
    LibraryHandle kernels = nullptr;
    if (shim.library_implement("octet", key, "octet", 0, &kernels) != 0) return key;
    for (const Operator& op : kOperators) {
      const std::string schema = op.schema;
      const std::string name = schema.substr(0, schema.find('('));
      if (shim.implement(kernels, name.c_str(), op.kernel, kStackVersion) != 0) return op.schema;
    }
  }
  return nullptr;
}

}  // namespace

}  // namespace octet_torch

// What Python calls, through ctypes. After `import torch`, once: null, or what torch does not have.
extern "C" OCTET_API const char* octet_torch_register(void) {
  return octet_torch::register_operators();
}

// The text of this thread's last failed operator, and its octet_status.
extern "C" OCTET_API const char* octet_torch_last_error(void) {
  return octet_torch::failed_text.c_str();
}
extern "C" OCTET_API octet_status octet_torch_last_status(void) {
  return octet_torch::failed_status;
}

extern "C" OCTET_API std::size_t octet_torch_cached_plans(void) {
  return octet_torch::cached_plans();
}
