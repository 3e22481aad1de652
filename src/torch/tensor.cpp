#include "torch/tensor.hpp"

#include "torch/error.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

namespace octet_torch {

namespace {

// What torch said about its last failure in this thread; empty before torch 2.13.
std::string torch_message() {
  return shim.last_error == nullptr ? std::string() : std::string(shim.last_error());
}

void require(ShimStatus status, const char* what) {
  if (status == 0) return;
  const std::string message = torch_message();
  throw Failure(OCTET_INTERNAL, std::string("octet: torch failed in ") + what +
                                    (message.empty() ? "" : ": " + message));
}

}  // namespace

octet_device device_of(const Tensor& tensor) {
  std::int32_t type = 0, index = 0;
  require(shim.get_device_type(tensor.get(), &type), "get_device_type");
  require(shim.get_device_index(tensor.get(), &index), "get_device_index");
  return type == shim.cuda ? octet_cuda(index) : octet_cpu();
}

std::string text_of(octet_device device) {
  return device.type == OCTET_CUDA ? "cuda:" + std::to_string(device.index) : "cpu";
}

Tensor::~Tensor() {
  if (handle_ != nullptr) shim.delete_tensor(handle_);
}

namespace {

// The view but for its dtype; returns torch's number of that.
std::int32_t read_view(const Tensor& tensor, const char* name, octet_tensor& view) {
  std::int32_t dtype = 0;
  std::int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  require(shim.get_dtype(tensor.get(), &dtype), "get_dtype");
  require(shim.get_dim(tensor.get(), &rank), "get_dim");
  require(shim.get_sizes(tensor.get(), &sizes), "get_sizes");
  require(shim.get_strides(tensor.get(), &strides), "get_strides");
  require(shim.get_data(tensor.get(), &view.data), "get_data_ptr");
  if (rank > OCTET_MAX_RANK) {
    refuse(std::string("octet: ") + name + " has " + std::to_string(rank) +
           " dimensions, at most 6 are supported");
  }
  view.rank = static_cast<std::int32_t>(rank);
  for (int i = 0; i < view.rank; ++i) {
    view.shape[i] = sizes[i];
    view.strides[i] = strides[i];
  }
  view.device = device_of(tensor);
  return dtype;
}

void check_rank(const octet_tensor& view, const char* name, int rank) {
  if (view.rank == rank) return;
  refuse(std::string("octet: ") + name + " must have " + std::to_string(rank) +
         " dimensions, got " + std::to_string(view.rank));
}

}  // namespace

octet_tensor view_of(const Tensor& tensor, const char* name) {
  octet_tensor view{};
  const std::int32_t dtype = read_view(tensor, name, view);
  if (dtype == shim.f32) {
    view.dtype = OCTET_F32;
  } else if (dtype == shim.f16) {
    view.dtype = OCTET_F16;
  } else if (dtype == shim.bf16) {
    view.dtype = OCTET_BF16;
  } else {
    refuse_dtype(std::string("octet: ") + name + " must be float32, float16 or bfloat16");
  }
  return view;
}

octet_tensor view_of(const Tensor& tensor, const char* name, int rank) {
  const octet_tensor view = view_of(tensor, name);
  check_rank(view, name, rank);
  return view;
}

octet_tensor index_view_of(const Tensor& tensor, const char* name, int rank) {
  octet_tensor view{};
  const std::int32_t dtype = read_view(tensor, name, view);
  if (dtype != shim.i32 && dtype != shim.i64) {
    refuse_dtype(std::string("octet: ") + name + " must be int32 or int64");
  }
  view.dtype = dtype == shim.i32 ? OCTET_I32 : OCTET_I64;
  check_rank(view, name, rank);
  return view;
}

std::int32_t torch_dtype(octet_dtype dtype) {
  switch (dtype) {
    case OCTET_F32: return shim.f32;
    case OCTET_F16: return shim.f16;
    case OCTET_BF16: return shim.bf16;
    default: refuse("octet: dtype number " + std::to_string(dtype) + " is not f32, f16 or bf16");
  }
}

namespace {

// torch reports every failure by one number. Its message tells a full memory from the others; where
// there is none, memory is by far the likeliest reason.
[[noreturn]] void fail_allocation(double bytes, const Tensor& like) {
  const std::string message = torch_message();
  bool out_of_memory = message.empty();
  for (const char* words : {"out of memory", "allocate memory", "not enough memory"}) {
    out_of_memory = out_of_memory || message.find(words) != std::string::npos;
  }
  char size[32];
  std::snprintf(size, sizeof size, "%.0f", bytes);
  throw Failure(out_of_memory ? OCTET_OUT_OF_MEMORY : OCTET_INTERNAL,
                std::string("octet: torch could not allocate ") + size + " bytes on " +
                    text_of(device_of(like)) + (message.empty() ? "" : ": " + message));
}

Tensor empty_strided(std::size_t rank, const std::int64_t* shape, const std::int64_t* strides,
                     std::int32_t dtype, const Tensor& like) {
  std::int32_t type = 0, index = 0;
  require(shim.get_device_type(like.get(), &type), "get_device_type");
  require(shim.get_device_index(like.get(), &index), "get_device_index");
  TensorHandle handle = nullptr;
  if (shim.empty_strided(static_cast<std::int64_t>(rank), shape, strides, dtype, type, index,
                         &handle) != 0) {
    double bytes = dtype == shim.u8 ? 1 : dtype == shim.f32 ? 4 : 2;  // what octet allocates
    for (std::size_t i = 0; i < rank; ++i) bytes *= static_cast<double>(shape[i]);
    fail_allocation(bytes, like);
  }
  return Tensor(reinterpret_cast<StackValue>(handle));
}

}  // namespace

Tensor empty(std::initializer_list<std::int64_t> shape, std::int32_t dtype, const Tensor& like) {
  std::int64_t strides[OCTET_MAX_RANK], dense = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = dense;
    dense *= std::max<std::int64_t>(shape.begin()[i], 1);  // as torch counts
  }
  return empty_strided(shape.size(), shape.begin(), strides, dtype, like);
}

Tensor carrier(std::int64_t rows, std::int64_t cols, std::int32_t dtype, const Tensor& like) {
  const std::int64_t one[] = {1, 1}, shape[] = {rows, cols}, strides[] = {0, 0};
  const Tensor memory = empty_strided(2, one, strides, dtype, like);
  set_to_zero(memory);
  TensorHandle handle = nullptr;
  require(shim.as_strided(memory.get(), 2, shape, strides, 0, &handle), "reinterpret_tensor");
  return Tensor(reinterpret_cast<StackValue>(handle));
}

Tensor strided_view(const Tensor& tensor, std::initializer_list<std::int64_t> shape,
                    std::initializer_list<std::int64_t> strides, std::int64_t offset) {
  TensorHandle handle = nullptr;
  require(shim.as_strided(tensor.get(), static_cast<std::int64_t>(shape.size()), shape.begin(),
                          strides.begin(), offset, &handle),
          "reinterpret_tensor");
  return Tensor(reinterpret_cast<StackValue>(handle));
}

void set_to_zero(const Tensor& tensor) { require(shim.zero(tensor.get()), "zero_"); }

void copy_into(const Tensor& to, const Tensor& from) {
  require(shim.copy(to.get(), from.get(), 0), "copy_");
}

Tensor absent(std::int32_t dtype, const Tensor& like) { return empty({0}, dtype, like); }

Workspace::Workspace(std::size_t bytes, const Tensor& like) {
  if (bytes == 0) return;
  memory_ = empty({static_cast<std::int64_t>(bytes) + OCTET_ALIGNMENT - 1}, shim.u8, like);
  void* start = nullptr;
  require(shim.get_data(memory_.get(), &start), "get_data_ptr");
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  const std::uintptr_t mask = OCTET_ALIGNMENT - 1;
  data_ = reinterpret_cast<void*>((address + mask) & ~mask);
}

void* current_stream(octet_device device) {
  if (device.type != OCTET_CUDA) return nullptr;
  if (shim.current_cuda_stream == nullptr) {
    throw Failure(OCTET_NO_DEVICE, "octet: this torch has no CUDA streams");
  }
  void* stream = nullptr;
  require(shim.current_cuda_stream(device.index, &stream), "get_current_cuda_stream");
  return stream;
}

}  // namespace octet_torch
