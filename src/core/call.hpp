// The tensors of one call, each listed once: checked by itself when it is listed, and against the
// other tensors and the workspace at the end.
//
//   Call call("scale_rows", problem.device);
//   call.reads("x", args.x, TensorForm(problem.dtype, {rows, cols}, "[rows, cols]"));
//   call.writes("out", args.out, TensorForm(problem.dtype, {rows, cols}, "[rows, cols]"));
//   call.check_apart(plan.workspace_bytes, workspace);
//
// Errors are found in this order: each tensor in the order of the list, then overlaps of each
// output with the inputs and the outputs before it, then the workspace.
//
// The list lives on the stack and points to the views it is given. Every launch is checked, so a
// valid call allocates nothing and builds no text.
#pragma once

#include "core/checks.hpp"
#include "core/footprint.hpp"

#include <octet/plan.hpp>

#include <array>

namespace octet {

class Call {
 public:
  Call(std::string_view op, Device device) : op_(op), device_(device) {}

  // `replaced_by` names the output that may be the same tensor, for calls that work in place.
  template <class View, class Form>
  void reads(std::string_view name, const View& view, const Form& form,
             std::string_view replaced_by = {}) {
    check_view({op_, name}, view, form, device_);
    reads_checked(name, view, replaced_by);
  }
  template <class View, class Form>
  void writes(std::string_view name, const View& view, const Form& form) {
    check_view({op_, name}, view, form, device_);
    add(outputs_, name, view, {});
  }
  // An input that the operator has checked itself.
  template <class View>
  void reads_checked(std::string_view name, const View& view, std::string_view replaced_by = {}) {
    in_place_ = in_place_ || !replaced_by.empty();
    add(inputs_, name, view, replaced_by);
  }

  // If the problem does not use the tensor, its view is cleared, so that no implementation sees an
  // unchecked view.
  template <class View, class Form>
  void reads_if(bool used, std::string_view name, View& view, const Form& form) {
    if (used) return reads(name, view, form);
    view = View();
  }
  template <class View, class Form>
  void writes_if(bool used, std::string_view name, View& view, const Form& form) {
    if (used) return writes(name, view, form);
    view = View();
  }

  // The list points to its views: a temporary would dangle.
  template <class View, class Form>
  void reads(std::string_view, const View&&, const Form&, std::string_view = {}) = delete;
  template <class View, class Form>
  void writes(std::string_view, const View&&, const Form&) = delete;
  template <class View>
  void reads_checked(std::string_view, const View&&, std::string_view = {}) = delete;

  // Checks that no output listed so far shares memory with an input or another output. Parts of a
  // packed tensor may lie side by side; padding counts if the view owns it.
  void check_apart();
  // The same for the whole call. The workspace must be large enough and aligned, and must not
  // overlap a tensor.
  void check_apart(std::size_t workspace_bytes, const Workspace& workspace);

  std::string_view op() const { return op_; }
  Device device() const { return device_; }

 private:
  struct Tensor {
    std::string_view name;
    std::string_view replaced_by;
    const TensorView* values;
    const QuantizedView* quantized;  // null if only values were given
    ByteRange value_bytes;           // with the padding that the view owns
    ByteRange scale_bytes;
  };
  static constexpr std::size_t kMostTensors = 16;
  struct List {
    std::array<Tensor, kMostTensors> tensors;
    std::size_t size = 0;
  };

  void add(List& list, std::string_view name, const TensorView& view, std::string_view replaced_by);
  void add(List& list, std::string_view name, const QuantizedView& view,
           std::string_view replaced_by);
  void append(List& list, const Tensor& tensor);
  enum class Part { values, scales };
  void check_written(const Tensor& out) const;
  void check_parts(const Tensor& out, Part out_part, const Tensor& other, Part other_part) const;
  void check_pair(const Tensor& out, const Tensor& other) const;

  std::string_view op_;
  Device device_;
  bool in_place_ = false;
  List inputs_;
  List outputs_;
  std::size_t outputs_apart_ = 0;  // how many check_apart() has seen
};

}  // namespace octet
