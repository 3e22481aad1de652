// Prints which implementation and configuration the products get on an H200 that need not be here:
//
//   octet_same_choices cases/dense84.csv
//
// One line per product of the layers in the file and of 2,000 random problems.
#include "draw.hpp"

#include "ops/fp8_linear/parts.hpp"
#include "ops/gemm/problem.hpp"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace octet::same {
namespace {

Machine pretended_h200() {
  Machine machine;
  machine.threads = 2;
  machine.avx2 = machine.avx512 = true;
  machine.sm_major = 9;
  machine.multiprocessors = 132;
  machine.cublaslt = true;
  return machine;
}

// The only contact with how an implementation is asked.
std::string choice_of(const GemmProblem& problem) {
  static const Machine machine = pretended_h200();
  for (const GemmImplementation& entry : gemm_implementations()) {
    if (!entry.refuse(problem, machine).empty()) continue;
    const Planned<GemmArgs> planned = entry.plan(problem, machine);
    return std::string(entry.name) + " | " + planned.configuration + " | " +
           std::to_string(planned.workspace_bytes) + " bytes";
  }
  return "refused";
}

void print(const std::string& problem, const GemmProblem& product) {
  std::printf("%s: %s\n", problem.c_str(), choice_of(product).c_str());
}

struct LayerShape {
  std::string name;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

// Lines of test_id,model,op,mbs,M,N,K under a header.
std::vector<LayerShape> read_layers(const char* path) {
  std::ifstream file(path);
  std::vector<LayerShape> layers;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::vector<std::string> cells;
    std::istringstream stream(line);
    for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
    if (cells.size() != 7) continue;
    layers.push_back({cells[1] + " " + cells[2] + " mbs=" + cells[3], std::stoll(cells[4]),
                      std::stoll(cells[5]), std::stoll(cells[6])});
  }
  return layers;
}

void print_layer(const LayerShape& shape) {
  Fp8LinearProblem layer;
  layer.m = shape.m;
  layer.n = shape.n;
  layer.k = shape.k;
  layer.device = {DeviceType::cuda, 0};
  print(shape.name + " forward", fp8_products(layer).y);
  print(shape.name + " dx", fp8_products(layer).dx);
  print(shape.name + " dw 1d", fp8_products(layer).dw);
  layer.wgrad_blocks = WgradBlocks::square;
  print(shape.name + " dw 2d", fp8_products(layer).dw);
  layer.wgrad_blocks = WgradBlocks::rows;
  layer.dw_dtype = Dtype::f32;
  layer.accumulate_dw = true;
  print(shape.name + " dw += f32", fp8_products(layer).dw);
}

struct Pairing {
  BlockShape a;
  BlockShape b;
};

// Three in four are FP8; one in three has at most 128 rows.
void print_random(int index) {
  Draw draw("choices", index);
  GemmProblem problem;
  problem.device = {DeviceType::cuda, 0};
  problem.m = draw.size("m", draw.below(3) == 0 ? 128 : 60000);
  problem.n = draw.size("n", 60000);
  problem.k = draw.size("k", 60000);
  if (draw.below(4) != 0) {
    const Pairing pairing =
        draw.pick<Pairing>("blocks", {{"1x128.128x128", {kBlock1x128, kBlock128x128}},
                                      {"1x128.128x128", {kBlock1x128, kBlock128x128}},
                                      {"1x128.1x128", {kBlock1x128, kBlock1x128}},
                                      {"1x128.1x128", {kBlock1x128, kBlock1x128}},
                                      {"128x128.1x128", {kBlock128x128, kBlock1x128}}});
    const auto format = [&](const char* operand) {
      return draw.pick<Dtype>(
          operand, {{"e4m3", Dtype::e4m3}, {"e4m3", Dtype::e4m3}, {"e5m2", Dtype::e5m2}});
    };
    problem.a = {format("a"), pairing.a, Major::k};
    problem.b = {format("b"), pairing.b, Major::k};
  } else {
    const Dtype dtype = draw.pick<Dtype>(
        "operands", {{"bf16", Dtype::bf16}, {"f16", Dtype::f16}, {"f32", Dtype::f32}});
    const auto major = [&](const char* operand) {
      return draw.pick<Major>(operand, {{"k", Major::k}, {"mn", Major::mn}});
    };
    problem.a = {dtype, {}, major("a")};
    problem.b = {dtype, {}, major("b")};
  }
  problem.out_dtype =
      draw.pick<Dtype>("out", {{"bf16", Dtype::bf16}, {"f16", Dtype::f16}, {"f32", Dtype::f32}});
  if (problem.out_dtype != Dtype::f16) problem.accumulate = draw.once_in(3, "accumulate");
  print("random " + std::to_string(index) + " " + draw.text(), problem);
}

}  // namespace
}  // namespace octet::same

int main(int count, char** words) {
  if (count != 2) {
    std::fprintf(stderr, "usage: octet_same_choices cases/dense84.csv\n");
    return 2;
  }
  const auto layers = octet::same::read_layers(words[1]);
  if (layers.empty()) {
    std::fprintf(stderr, "octet_same_choices: no layers in %s\n", words[1]);
    return 2;
  }
  for (const auto& layer : layers) octet::same::print_layer(layer);
  for (int index = 0; index < 2000; ++index) octet::same::print_random(index);
  return 0;
}
