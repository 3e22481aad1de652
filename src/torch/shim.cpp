#include "torch/shim.hpp"

#include <dlfcn.h>

namespace octet_torch {

Shim shim{};

namespace {

template <class Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

const char* load_shim() {
  // torch loads its libraries with RTLD_LOCAL: they are found by their names, not by the linker.
  void* const library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return "libtorch_cpu.so";
  const char* missing = nullptr;
  const auto need = [&](const char* name, auto*& function) {
    if (missing == nullptr && !find(library, name, function)) missing = name;
  };
  const auto number = [&](const char* name, std::int32_t& value) {
    std::int32_t (*function)() = nullptr;
    need(name, function);
    if (function != nullptr) value = function();
  };
  need("aoti_torch_get_data_ptr", shim.get_data);
  need("aoti_torch_get_dim", shim.get_dim);
  need("aoti_torch_get_sizes", shim.get_sizes);
  need("aoti_torch_get_strides", shim.get_strides);
  need("aoti_torch_get_dtype", shim.get_dtype);
  need("aoti_torch_get_device_type", shim.get_device_type);
  need("aoti_torch_get_device_index", shim.get_device_index);
  need("aoti_torch_delete_tensor_object", shim.delete_tensor);
  need("aoti_torch_empty_strided", shim.empty_strided);
  need("aoti_torch_zero_", shim.zero);
  need("aoti_torch_copy_", shim.copy);
  need("aoti_torch__reinterpret_tensor", shim.as_strided);
  need("aoti_torch_library_init_def", shim.library_define);
  need("aoti_torch_library_init_impl", shim.library_implement);
  need("aoti_torch_library_def", shim.define);
  need("torch_library_impl", shim.implement);
  need("aoti_torch_check", shim.check);
  number("aoti_torch_dtype_float32", shim.f32);
  number("aoti_torch_dtype_float16", shim.f16);
  number("aoti_torch_dtype_bfloat16", shim.bf16);
  number("aoti_torch_dtype_uint8", shim.u8);
  number("aoti_torch_dtype_int32", shim.i32);
  number("aoti_torch_dtype_int64", shim.i64);
  number("aoti_torch_device_type_cuda", shim.cuda);
  find(library, "torch_exception_get_what_without_backtrace", shim.last_error);
  if (void* const cuda = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD)) {
    find(cuda, "aoti_torch_get_current_cuda_stream", shim.current_cuda_stream);
  }
  return missing;
}

}  // namespace octet_torch
