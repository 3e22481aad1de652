#include "tool/machine/support.hpp"

#include "tool/machine/probe.hpp"

#include <algorithm>

namespace octet::tool {
namespace {

// Joins neighbours and others that agree in everything but `field`.
std::vector<Support> merge_by(const std::vector<Support>& probes, std::string Support::*field) {
  std::vector<Support> merged;
  for (const Support& probe : probes) {
    const auto same = std::find_if(merged.begin(), merged.end(), [&](const Support& candidate) {
      Support other = candidate;
      other.*field = probe.*field;
      return other.op == probe.op && other.blocks == probe.blocks && other.dtypes == probe.dtypes &&
             other.outputs == probe.outputs && other.same_answers(probe);
    });
    if (same == merged.end()) {
      merged.push_back(probe);
    } else {
      ((*same).*field) += ", " + probe.*field;
    }
  }
  return merged;
}

}  // namespace

const std::vector<ProbeDevice>& probe_devices() {
  static const std::vector<ProbeDevice> devices = [] {
    Machine plain;
    Machine avx2 = plain;
    avx2.avx2 = true;
    Machine avx512 = avx2;
    avx512.avx512 = true;
    Machine hopper = avx512;
    hopper.sm_major = 9;
    hopper.multiprocessors = 132;
    hopper.cublaslt = true;
    return std::vector<ProbeDevice>{{"cpu, AVX-512", kCpu, avx512},
                                    {"cpu, AVX2", kCpu, avx2},
                                    {"cpu, any x86-64", kCpu, plain},
                                    {"cuda, sm_90a", {DeviceType::cuda, 0}, hopper}};
  }();
  return devices;
}

std::vector<std::string> support_devices() {
  std::vector<std::string> names;
  for (const ProbeDevice& probe : probe_devices()) names.push_back(probe.name);
  return names;
}

std::vector<Support> probe_everything() {
  std::vector<Support> result;
  for (const auto probe :
       {probe_quantize, probe_copies, probe_gemm, probe_fp8_linear, probe_rms_norm, probe_rope,
        probe_rms_norm_rope, probe_gated_activation, probe_gated_mlp}) {
    for (const Support& support : merge_support(probe())) {
      const auto& answers = support.answers;
      if (!std::all_of(answers.begin(), answers.end(), is_refusal)) result.push_back(support);
    }
  }
  return result;
}

std::vector<Support> merge_support(const std::vector<Support>& probes) {
  return merge_by(merge_by(probes, &Support::dtypes), &Support::outputs);
}

}  // namespace octet::tool
