// What is reported of a list of samples.
#pragma once

#include <vector>

namespace octet::bench {

// The middle value; the mean of the two middle ones where their number is even. NaN of none.
double median(std::vector<double> samples);
// The distance between the quartiles over the median: 0.02 says that half of the samples lie
// within 2 %. 0 of fewer than two samples.
double spread(std::vector<double> samples);
// NaN of none.
double geometric_mean(const std::vector<double>& samples);

// Half of the samples lie further apart than this: the number is not to be compared.
inline constexpr double kNoisySpread = 0.10;

}  // namespace octet::bench
