// Small result files, for the tests of the commands that read results.
#pragma once

#include "run_tool.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace octet::tool {

// A row of octet bench gemm. The rate of the step is in TFLOPS; its time is derived from the rate.
struct GemmLine {
  std::string name = "Model-A attn";
  int n = 1024;
  double rate = 100;
  std::string check = "PASS";
  double spread_percent = 1;
  std::string gpu = "Test GPU";
  std::string options{};  // after the command
  double forward = 1.1;   // rate of the forward pass over that of the step
};

inline const std::string kGemmColumns =
    "TestID,Platform,GPU,Case,MBS,M,N,K,Dtype,Granularity,Check,Forward Time (ms),Forward TFLOPS,"
    "Backward Time (ms),Backward TFLOPS,Combined Step Time (ms),Combined Step TFLOPS,"
    "Forward G1 SNR (dB),Backend,Spread (%),Commit,CPU,Clock (MHz),Power (W),Command\n";

inline std::string gemm_csv(const std::vector<GemmLine>& lines) {
  std::string text = kGemmColumns;
  for (const GemmLine& line : lines) {
    const double ms = 1000 / line.rate;
    const std::string times =
        line.check == "PASS" ? fmt::format("{},{},{},{},{},{}", ms / 3, line.rate * line.forward,
                                           ms * 2 / 3, line.rate * 0.9, ms, line.rate)
                             : ",,,,,";
    text += fmt::format(
        "1,cuda,{},{},,256,{},512,fp8,blockwise,{},{},28.6,cuda_test,{},abc,Test CPU,1500,400,"
        "octet bench gemm --dtype fp8 --shape 256x{}x512 --device cuda:0{}\n",
        line.gpu, line.name, line.n, line.check, times, line.spread_percent, line.n, line.options);
  }
  return text;
}

inline std::string quantize_csv(const std::vector<double>& rates, double copy_rate = 5000) {
  std::string text =
      "TestID,Platform,GPU,Rows,Cols,Dtype,Format,Block,Transposed Block,Check,Time "
      "(ms),Bytes,GB/s,"
      "Memcpy Time (ms),Memcpy GB/s,Memcpy Ratio,Backend,Spread (%),Commit,CPU,Command\n";
  int rows = 1024;
  for (const double rate : rates) {
    text += fmt::format(
        "1,cuda,Test GPU,{},64,bf16,e4m3,1x128,none,PASS,{},1000,{},1,{},{},cuda_test,0.1,abc,Test "
        "CPU,octet bench quantize --shape {}x64 --dtype bf16 --block 1x128\n",
        rows, 1000 / rate, rate, copy_rate, rate / copy_rate, rows);
    rows *= 2;
  }
  return text;
}

// A row of a memory-bound operator, forward and backward.
struct MemoryLine {
  std::string op;
  std::string shape;
};

inline std::string memory_csv(const std::vector<MemoryLine>& lines) {
  std::string text =
      "TestID,Platform,GPU,Case,Operator,Shape,Dtype,Check,Forward GB/s,Backward GB/s,Combined "
      "Step "
      "Time (ms),Combined Step GB/s,Backend,Spread (%),Commit,CPU,Command\n";
  for (const MemoryLine& line : lines) {
    text += fmt::format(
        "1,cuda,Test GPU,Model-A x,{},{},bf16,PASS,3000,2000,1,2500,cuda_test,0.1,abc,Test "
        "CPU,octet "
        "bench {} --shape {} --dtype bf16\n",
        line.op, line.shape, line.op, line.shape);
  }
  return text;
}

// A row of tools/peers.py --op gemm. The rate is in TFLOPS.
struct PeerLine {
  std::string library;
  int m;
  double rate;
  std::string check = "PASS";
  std::string product = "forward";
  std::string note{};
  std::string ratio{};  // paired over rounds; empty: that of the rates
  std::string version{};
};

inline std::string peers_csv(const std::vector<PeerLine>& lines) {
  std::string text =
      "M,N,K,Dtype,Product,Library,Version,Check,Time (ms),TFLOPS,Ratio,Spread "
      "(%),GPU,Commit,Note,Command\n";
  for (const PeerLine& line : lines) {
    const bool passed = line.check == "PASS";
    text += fmt::format(
        "{},64,64,fp8,{},{},{},{},{},{},{},0.1,Test GPU,abc,{},tools/peers.py --op gemm --shape "
        "{}x64x64\n",
        line.m, line.product, line.library, line.version, line.check,
        passed ? fmt::to_string(1 / line.rate) : "", passed ? fmt::to_string(line.rate) : "",
        line.ratio, line.note, line.m);
  }
  return text;
}

inline std::string write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

inline bool has_text(const std::string& text, const std::string& wanted) {
  return text.find(wanted) != std::string::npos;
}

}  // namespace octet::tool
