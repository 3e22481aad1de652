// A layer measured on this machine: checked by its gates and timed as octet bench gemm does, only
// shorter.
#pragma once

#include "tool/advise/precisions.hpp"

#include <octet/device.hpp>

#include <optional>
#include <string>

namespace octet::tool {

struct MeasuredLayer {
  LayerCost cost;            // without times if the gates failed
  std::string refusal;       // why there is none, or not all of it
  double check_seconds = 0;  // what its gates took
};

// Checks the layer and times it; where it casts, its products alone take turns with it, for what the
// casts take.
MeasuredLayer measure_layer(const Precision& precision, const LayerShape& shape, Device device);

// How long measuring a layer takes on the CPU, by what a sample of it took.
double expected_seconds(const MeasuredLayer& sample, double times_the_operations);

// The device of --device, else the first GPU that takes a layer in FP8, else the CPU.
Device best_device(const std::optional<Device>& given);

// A layer of at most this size has the errors of the whole one: they depend on K and the data, and
// the casts have the same bits on every device. On the CPU its rate is that of the whole one, too.
LayerShape sample_of(const LayerShape& shape);

}  // namespace octet::tool
