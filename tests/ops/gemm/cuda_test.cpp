// The Hopper product on exact data: small integers with power-of-two scales must give the CPU's
// bits. Covers odd outputs, guard bands, full rings, streams and threads.
#include <gtest/gtest.h>

#include "core/checks.hpp"
#include "ops/gemm/cuda_product.hpp"
#include "support/cuda_stream.hpp"

#include <memory>
#include <thread>

namespace octet::testing {
namespace {

TEST(GemmCuda, WritesOddAndMisalignedOutputsOfEveryDtypeAndNothingBesideThem) {
  OCTET_NEEDS_HOPPER();
  for (const BlockShape block : kPairings) {
    for (const Dtype out : kOuts) {
      for (const bool accumulate : {false, true}) {
        if (accumulate && out == Dtype::f16) continue;
        for (const std::int64_t n : {129, 200, 257}) {
          GemmProblem problem = make_problem(131, n, 300, block, out);
          problem.accumulate = accumulate;
          const Product product(problem);
          product.expect_exact(0, n);                    // dense rows
          product.expect_exact(1, round_up(n, 16));      // a base off 16 bytes
          product.expect_exact(0, round_up(n, 16) + 1);  // a pitch off 16 bytes
          product.expect_exact(0, round_up(n, 16) + 16);
        }
      }
    }
  }
}

TEST(GemmCuda, TakesExtentsOfOne) {
  OCTET_NEEDS_HOPPER();
  constexpr std::int64_t kShapes[][3] = {{1, 1, 1},     {1, 1, 700},   {1, 700, 1},  {700, 1, 1},
                                         {1, 700, 700}, {700, 1, 700}, {700, 700, 1}};
  for (const BlockShape block : kPairings) {
    for (const auto& shape : kShapes) {
      for (const Dtype out : kOuts) {
        const Product product(make_problem(shape[0], shape[1], shape[2], block, out));
        product.expect_exact(0, shape[1]);
        product.expect_exact(0, round_up(shape[1], 16));
      }
    }
  }
}

// More tiles than multiprocessors, and contractions that end a tile in every stage of the ring,
// including the one the next tile starts with.
TEST(GemmCuda, GoesFromTileToTileWhereverTheRingStands) {
  OCTET_NEEDS_HOPPER();
  const int multiprocessors = cuda::multiprocessors(0);
  constexpr std::int64_t kShapes[][2] = {{3000, 2900}, {890, 4730}, {64, 40000}};
  for (const BlockShape block : kPairings) {
    for (const auto& shape : kShapes) {
      for (const int slices : {1, 2, 3, 4, 5, 6, 7, 9, 13}) {
        const GemmProblem problem = make_problem(shape[0], shape[1], slices * kBlock, block);
        const Sm90GemmConfig& config = choose_sm90_gemm(problem, multiprocessors);
        ASSERT_GT(ceil_div(problem.m, config.tile_m) * ceil_div(problem.n, config.tile_n),
                  multiprocessors)
            << describe(problem) << ": " << name(config);
        Product(problem).expect_exact(0, problem.n);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(GemmCuda, GivesTheSameBitsOnFewerMultiprocessors) {
  OCTET_NEEDS_HOPPER();
  for (const BlockShape block : kPairings) {
    const Product product(make_problem(1500, 1040, 600, block));
    const auto wanted = product.wanted(0, 1040);
    for (const int most : {1, 2, 5, 1000}) {
      GemmProblem problem = product.on_device();
      problem.max_multiprocessors = most;
      const auto given = product.given(0, 1040, [&](const GemmArgs& args) {
        run(plan_gemm(problem, {.backend = "cuda_sm90_wgmma"}), args);
      });
      EXPECT_TRUE(given == wanted) << most << " multiprocessors";
    }
  }
}

// On data whose sums round, every run must give the same bits.
TEST(GemmCuda, GivesTheSameBitsEveryRun) {
  OCTET_NEEDS_HOPPER();
  std::mt19937_64 random(17);
  for (const BlockShape block : kPairings) {
    const GemmProblem problem = make_problem(1500, 2100, 1900, block);
    Product product(problem);
    for (const QuantizedView& view : {product.a.view(), product.b.view()}) {
      for (std::int64_t r = 0; r < view.values.rows(); ++r) {
        for (std::int64_t c = 0; c < view.values.cols(); ++c) {
          value_at(view, r, c) = static_cast<std::uint8_t>(random() % 2 * 128 + random() % 126);
        }
      }
    }
    const std::vector<std::uint8_t> first = product.given(0, problem.n);
    for (int repeat = 0; repeat < 3; ++repeat) {
      ASSERT_TRUE(product.given(0, problem.n) == first) << describe(problem);
    }
  }
}

// One caller that runs its product again and again on its own stream.
struct Caller {
  Stream stream;
  OnCuda device;
  std::vector<std::uint8_t> wanted;
  Output out;
  DeviceImage image;
  GemmPlan plan;
  GemmArgs args;

  explicit Caller(const Product& product)
      : wanted(product.wanted(0, product.problem.n)),
        out(product.problem, 0, product.problem.n),
        image(out.bytes.data(), out.bytes.size()),
        plan(plan_gemm(product.on_device())),
        args{device.copy_in(product.a), device.copy_in(product.b), image.at(out.view)} {
    cuda::synchronize(0);  // the stream does not wait for the copies above by itself
  }

  void launch() const { run(plan, args, {}, stream.handle()); }
  bool matches() const {
    stream.synchronize();
    return image.download() == wanted;
  }
};

TEST(GemmCuda, RunsOnTwoStreamsAtOnce) {
  OCTET_NEEDS_HOPPER();
  const Caller first(Product(make_problem(700, 900, 1100, kBlock128x128), 3));
  const Caller second(Product(make_problem(500, 1300, 800, kBlock1x128), 4));
  for (int repeat = 0; repeat < 20; ++repeat) {
    first.launch();
    second.launch();
  }
  EXPECT_TRUE(first.matches());
  EXPECT_TRUE(second.matches());
}

TEST(GemmCudaThreads, NeverMeet) {
  OCTET_NEEDS_HOPPER();
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < 6; ++i) {
    const BlockShape block = kPairings[i % 2];
    callers.push_back(std::make_unique<Caller>(
        Product(make_problem(300 + 100 * i, 500, 400 + 130 * i, block), 10 + i)));
  }
  std::vector<std::string> problems(callers.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < callers.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        for (int repeat = 0; repeat < 20; ++repeat) callers[i]->launch();
        if (!callers[i]->matches()) problems[i] = "other bits";
      } catch (const std::exception& error) {
        problems[i] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < problems.size(); ++i) EXPECT_EQ(problems[i], "") << "caller " << i;
}

template <class Work>
std::string message_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(GemmCuda, RefusesADeviceThatIsNotThere) {
  OCTET_NEEDS_HOPPER();
  GemmProblem problem = make_problem(64, 64, 64, kBlock128x128);
  for (const int index : {cuda_device_count(), 99, -1}) {
    problem.device = {DeviceType::cuda, index};
    const std::string message = message_of([&] { plan_gemm(problem); });
    EXPECT_NE(message.find("device cuda:" + std::to_string(index) + " is not on this machine"),
              std::string::npos)
        << message;
  }
}

TEST(GemmCuda, RefusesScalesItCannotReadAndNamesRepack) {
  OCTET_NEEDS_HOPPER();
  for (const BlockShape block : kPairings) {
    const Product product(make_problem(200, 300, 600, block));
    OnCuda device;
    const Output out(product.problem, 0, 300);
    const DeviceImage image(out.bytes.data(), out.bytes.size());
    const GemmArgs good{device.copy_in(product.a), device.copy_in(product.b), image.at(out.view)};
    const GemmPlan plan = plan_gemm(product.on_device());
    const Buffer scales(1 << 16, OnCuda::kDevice);

    // Scales of a with contiguous slices; scales of b one float off 16-byte alignment.
    GemmArgs turned = good;
    turned.a.scales.data = scales.data();
    turned.a.scales.strides = {8, 1};
    GemmArgs shifted = good;
    shifted.b.scales.data = static_cast<float*>(scales.data()) + 1;
    const auto expect_refusal = [&](const std::string& argument, const GemmArgs& args) {
      const std::string message = message_of([&] { run(plan, args); });
      EXPECT_NE(message.find("scale of " + argument), std::string::npos) << message;
      EXPECT_NE(message.find("repack"), std::string::npos) << message;
    };
    expect_refusal("a", turned);
    expect_refusal("b", shifted);
    cuda::synchronize(0);
    EXPECT_TRUE(image.download() == out.bytes) << "a refused call wrote something";
  }
}

}  // namespace
}  // namespace octet::testing
