// octet's benchmark for kernels of your own: time, gates, tables, tuning. Link octet::bench, which
// needs nothing of the operators. docs/bench_api.md goes through it.
#pragma once

#include <octet/bench/gates.hpp>
#include <octet/bench/metrics.hpp>
#include <octet/bench/report.hpp>
#include <octet/bench/timing.hpp>
#include <octet/bench/tune.hpp>
#include <octet/error.hpp>
