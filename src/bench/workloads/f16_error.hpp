// The error of an f16 product, to set an FP8 product's error beside.
#pragma once

#include "bench/workloads/inputs.hpp"

namespace octet::bench {

// The SNR in dB of y = x w^T with f16 operands and output, against the f64 product of the inputs of
// `options` as they are. Of a sample of whole outputs, at most 64 x 256 rows of x and w evenly
// apart: an output depends on its own two rows alone. The inputs are made on `device`, which has
// made a gigabyte of them while the CPU has hardly begun; the product of the sample is the CPU's.
double f16_product_snr_db(const LayerShape& shape, Dtype dtype, Device device,
                          const WorkloadOptions& options);

}  // namespace octet::bench
