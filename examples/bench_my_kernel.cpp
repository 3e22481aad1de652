// A kernel of your own, tuned, checked and timed by octet's benchmark: out = a x + y in blocks.
//     bench_my_kernel [CACHE] [RESULT.csv]
#include <octet/bench.hpp>

#include <algorithm>
#include <cstdio>

namespace bench = octet::bench;

static void saxpy(const float* x, const float* y, float* out, std::int64_t n, std::int64_t block) {
  for (std::int64_t begin = 0; begin < n; begin += block) {
    const std::int64_t end = std::min(n, begin + block);
    for (std::int64_t i = begin; i < end; ++i) out[i] = 1.5f * x[i] + y[i];
  }
}

static int run(int argc, char** argv) {
  const std::int64_t n = 1 << 22;
  std::vector<float> x(n), y(n), out(n);
  std::vector<double> reference(n);
  for (std::int64_t i = 0; i < n; ++i) {
    x[i] = static_cast<float>(i % 1000 - 500);
    y[i] = static_cast<float>(i % 77);
    reference[i] = 1.5 * x[i] + y[i];
  }
  bench::DeviceTiming timing;  // the CPU; a GPU: timing({octet::DeviceType::cuda, 0}, stream)
  const bench::Gate gate = bench::make_gate(octet::make_view(out.data(), octet::Dtype::f32, {n}),
                                            reference, {.snr_db = 120, .relative = 1e-6});
  const auto kernel = [&](const bench::Configuration& with, std::int64_t /*call*/) {
    saxpy(x.data(), y.data(), out.data(), n, with["block"]);
  };
  bench::TuneRequest request{
      .problem = "saxpy --n 4194304", .version = "1", .space = {{"block", {16, 256, 4096}}}};
  if (argc > 1) request.cache = argv[1];
  const bench::Configuration best = bench::tune(timing, request, kernel, gate).chosen;
  const bench::Part tuned = [&](std::int64_t call) { kernel(best, call); };
  const std::size_t bytes = 3 * n * sizeof(float);  // x and y are read, out is written
  bench::Report report({.name = "saxpy", .version = "1", .configuration = describe(best)});
  report.add({.cols = n, .bytes = bytes}, gate([&] { tuned(0); }),
             bench::compare_with_copy(timing, tuned, bytes));
  const int status = report.print();
  if (argc > 2) report.write_csv(argv[2]);
  return status;
}

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const octet::Error& error) {
    std::fprintf(stderr, "bench_my_kernel: %s\n", error.what());
    return 1;
  }
}
