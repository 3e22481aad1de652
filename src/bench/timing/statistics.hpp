// The statistics of a list of samples that are reported.
#pragma once

#include <vector>

namespace octet::bench {

// The middle value, or the mean of the two middle values of an even number. NaN if there are none.
double median(std::vector<double> samples);
// The interquartile range over the median: 0.02 means that half of the samples lie within 2 %.
// 0 for fewer than two samples.
double spread(std::vector<double> samples);
// NaN if there are none.
double geometric_mean(const std::vector<double>& samples);

// A number with a larger spread is not to be compared.
inline constexpr double kNoisySpread = 0.10;

}  // namespace octet::bench
