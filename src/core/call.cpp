#include "core/call.hpp"

#include "core/message.hpp"

namespace octet {
namespace {

// The values with the padding that the view owns.
TensorView values_of(const QuantizedView& view) {
  return view.owns_padding ? with_padding(view.values, value_lines(view.values)) : view.values;
}
// An operand without scales may own its padding too.
TensorView scales_of(const QuantizedView& view) {
  if (!view.owns_padding || view.scales.rank < 2) return view.scales;
  return with_padding(view.scales, scale_lines(view.scales));
}

}  // namespace

void Call::add(List& list, std::string_view name, const TensorView& view,
               std::string_view replaced_by) {
  append(list, {name, replaced_by, &view, nullptr, byte_range(view), {}});
}

void Call::add(List& list, std::string_view name, const QuantizedView& view,
               std::string_view replaced_by) {
  append(list, {name, replaced_by, &view.values, &view, byte_range(values_of(view)),
                byte_range(scales_of(view))});
}

void Call::append(List& list, const Tensor& tensor) {
  if (list.size == kMostTensors) {
    fail(ErrorCode::internal, op_, ": ", tensor.name, " is one more than the ", kMostTensors,
         " inputs or outputs that a Call has room for");
  }
  list.tensors[list.size++] = tensor;
}

// Scales are written by many threads at once: no two may share memory.
void Call::check_written(const Tensor& out) const {
  if (out.quantized == nullptr || out.quantized->scales.data == nullptr) return;
  const TensorView& scales = out.quantized->scales;
  if (!elements_lie_apart(scales)) {
    refuse_argument(op_, ": elements of scale of ", out.name, " share memory: ", describe(scales));
  }
  if (!out.quantized->owns_padding) return;
  const LineDimensions lines = scale_lines(scales);
  if (scales.strides[lines.along] != 1 && scales.shape[lines.along] != 1) {
    refuse_argument(op_, ": scale of ", out.name,
                    " owns its padding, so one of its strides must be 1, got ", describe(scales));
  }
  if (out.values->strides[value_lines(*out.values).across] > kReach ||
      scales.strides[lines.across] > kReach) {
    refuse_argument(op_, ": ", out.name, " owns its padding, so its strides must be at most ",
                    kReach, ", got ", describe(*out.quantized));
  }
}

// The byte ranges rule out nearly every pair; views are compared only if the ranges overlap.
void Call::check_parts(const Tensor& out, Part out_part, const Tensor& other,
                       Part other_part) const {
  const auto bytes = [](const Tensor& tensor, Part part) {
    return part == Part::values ? tensor.value_bytes : tensor.scale_bytes;
  };
  if (!overlap(bytes(out, out_part), bytes(other, other_part))) return;
  const auto view = [](const Tensor& tensor, Part part) {
    if (tensor.quantized == nullptr) return *tensor.values;
    return part == Part::values ? values_of(*tensor.quantized) : scales_of(*tensor.quantized);
  };
  if (!share_memory(view(out, out_part), view(other, other_part))) return;
  const auto prefix = [](Part part) { return part == Part::values ? "" : "scale of "; };
  refuse_argument(op_, ": output ", prefix(out_part), out.name, " overlaps ", prefix(other_part),
                  other.name, ": their memory must be apart");
}

void Call::check_pair(const Tensor& out, const Tensor& other) const {
  if (other.replaced_by == out.name && same_view(*other.values, *out.values)) return;
  for (const Part out_part : {Part::values, Part::scales}) {
    for (const Part other_part : {Part::values, Part::scales}) {
      check_parts(out, out_part, other, other_part);
    }
  }
}

void Call::check_apart() {
  for (; outputs_apart_ < outputs_.size; ++outputs_apart_) {
    const Tensor& out = outputs_.tensors[outputs_apart_];
    check_written(out);
    check_parts(out, Part::values, out, Part::scales);
    const auto check_inputs = [&] {
      for (std::size_t i = 0; i < inputs_.size; ++i) check_pair(out, inputs_.tensors[i]);
    };
    // When q_out may be q, "k_out overlaps q_out" says more than "k_out overlaps q".
    if (!in_place_) check_inputs();
    for (std::size_t i = 0; i < outputs_apart_; ++i) check_pair(out, outputs_.tensors[i]);
    if (in_place_) check_inputs();
  }
}

void Call::check_apart(std::size_t workspace_bytes, const Workspace& workspace) {
  check_apart();
  if (workspace_bytes == 0) return;
  if (workspace.bytes < workspace_bytes) {
    refuse_argument(op_, ": workspace must have ", workspace_bytes, " bytes, got ",
                    workspace.bytes);
  }
  if (workspace.data == nullptr) {
    refuse_argument(op_, ": workspace must have ", workspace_bytes, " bytes, got a null pointer");
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(workspace.data);
  if (begin % kAlignment != 0) {
    refuse_argument(op_, ": workspace must be aligned to ", kAlignment, " bytes, got address ",
                    workspace.data);
  }
  const ByteRange used{begin, begin + workspace_bytes};
  for (const List* list : {&inputs_, &outputs_}) {
    for (std::size_t i = 0; i < list->size; ++i) {
      const Tensor& tensor = list->tensors[i];
      if (overlap(used, tensor.value_bytes) || overlap(used, tensor.scale_bytes)) {
        refuse_argument(op_, ": workspace overlaps ", tensor.name, ": their memory must be apart");
      }
    }
  }
}

}  // namespace octet
