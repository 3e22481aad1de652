// torch.ops.octet: what is registered, and what becomes of a failure.
#include "torch/operators.hpp"

#include "torch/error.hpp"
#include "torch/plan_cache.hpp"

#include <new>
#include <string>

namespace octet_torch {

// The tables of the files.
Operators adamw_operators();
Operators attention_operators();
Operators gated_mlp_operators();
Operators grouped_linear_operators();
Operators linear_cross_entropy_operators();
Operators linear_operators();
Operators moe_mlp_operators();
Operators moe_operators();
Operators quantize_operators();
Operators rms_norm_operators();
Operators rope_operators();
Operators swiglu_operators();

namespace {

constexpr Operators (*kTables[])() = {adamw_operators,
                                      attention_operators,
                                      gated_mlp_operators,
                                      grouped_linear_operators,
                                      linear_cross_entropy_operators,
                                      linear_operators,
                                      moe_mlp_operators,
                                      moe_operators,
                                      quantize_operators,
                                      rms_norm_operators,
                                      rope_operators,
                                      swiglu_operators};

// Of this thread's last failed operator.
thread_local octet_status failed_status = OCTET_OK;
thread_local std::string failed_text;

// The ABI of the stack that the kernels were written for: torch 2.10.
constexpr std::uint64_t kStackVersion = (2ULL << 56) | (10ULL << 48);

struct Registration {
  enum Outcome { kDone, kMissing, kNamespaceTaken, kRefused };
  Outcome outcome = kDone;
  const char* what =
      nullptr;  // the function that torch does not have, or the schema that it refused
};

Registration register_operators() {
  if (const char* missing = load_shim()) return {Registration::kMissing, missing};
  LibraryHandle definitions = nullptr;  // libraries live as long as the process
  if (shim.library_define("octet", "octet", 0, &definitions) != 0) {
    return {Registration::kNamespaceTaken, "octet"};
  }
  for (const auto table : kTables) {
    for (const Operator& op : table()) {
      if (shim.define(definitions, op.schema) != 0) return {Registration::kRefused, op.schema};
    }
  }
  for (const char* key : {"CPU", "CUDA"}) {
    LibraryHandle kernels = nullptr;
    if (shim.library_implement("octet", key, "octet", 0, &kernels) != 0) {
      return {Registration::kRefused, key};
    }
    for (const auto table : kTables) {
      for (const Operator& op : table()) {
        const std::string schema = op.schema;
        const std::string name = schema.substr(0, schema.find('('));
        if (shim.implement(kernels, name.c_str(), op.kernel, kStackVersion) != 0) {
          return {Registration::kRefused, op.schema};
        }
      }
    }
  }
  return {};
}

}  // namespace

const char* run_kernel(void (*kernel)(StackValue*), StackValue* stack) {
  try {
    kernel(stack);
    return nullptr;
  } catch (const Failure& failure) {
    failed_status = failure.status;
    failed_text = failure.text;
  } catch (const std::bad_alloc&) {
    failed_status = OCTET_OUT_OF_MEMORY;
    failed_text = "octet: out of memory";
  } catch (const std::exception& error) {
    failed_status = OCTET_INTERNAL;
    failed_text = std::string("octet: internal error: ") + error.what();
  } catch (...) {
    failed_status = OCTET_INTERNAL;
    failed_text = "octet: internal error: an exception of an unknown type";
  }
  return failed_text.c_str();
}

}  // namespace octet_torch

// What Python calls, through ctypes. After `import torch`, once. 0: success; 1: torch has no function
// `what`; 2: the namespace octet is taken; 3: torch refused `what`.
extern "C" OCTET_API int octet_torch_register(const char** what) {
  const octet_torch::Registration done = octet_torch::register_operators();
  *what = done.what;
  return done.outcome;
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
