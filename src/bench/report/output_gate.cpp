#include "bench/workloads/memory.hpp"
#include "check/reference/decode.hpp"
#include "core/message.hpp"
#include "device/cuda_runtime.hpp"

#include <octet/bench/gates.hpp>

#include <cmath>

namespace octet::bench {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::int64_t checked_elements(const TensorView& out) {
  std::int64_t elements = 1;
  for (int i = out.rank - 1; i >= 0; --i) {
    const auto dimension = static_cast<std::size_t>(i);
    if (out.shape[dimension] != 1 && out.strides[dimension] != elements) {
      refuse_argument("judge: out must be dense, got ", describe(out));
    }
    elements *= out.shape[dimension];
  }
  if (out.data == nullptr || out.rank == 0) refuse_argument("judge: out has no data");
  if (out.dtype > Dtype::e5m2) {
    refuse_argument("judge: out must be f32, f16, bf16, e4m3 or e5m2, got ", name(out.dtype));
  }
  return elements;
}

std::size_t bytes_of(const TensorView& out) {
  return static_cast<std::size_t>(checked_elements(out) * size_bytes(out.dtype));
}

void check_sizes(std::size_t out, std::size_t reference) {
  if (out == reference && out != 0) return;
  refuse_argument("judge: the reference must have as many elements as out, at least one; got ",
                  reference, " for ", out);
}

void check_bounds(const Bounds& bounds) {
  if (!bounds.snr_db && !bounds.relative && !bounds.absolute) {
    refuse_argument("judge: no bound is given; wanted snr_db, relative or absolute");
  }
  for (const auto& bound : {bounds.relative, bounds.absolute}) {
    if (bound && !(*bound >= 0)) {
      refuse_argument("judge: a bound per element must be at least 0, got ", *bound);
    }
  }
  if (bounds.snr_db && std::isnan(*bounds.snr_db)) refuse_argument("judge: snr_db is NaN");
}

// 0xFF in every byte is a NaN in every dtype that is accepted.
void poison(const TensorView& out) {
  const std::vector<unsigned char> bytes(bytes_of(out), 0xFF);
  copy_bytes(out.data, bytes.data(), bytes.size(), out.device);
}

// The error of an element; 0 if it is rightly not finite.
double error_of(double out, double reference) {
  if (!std::isfinite(reference)) return std::isfinite(out) ? kInfinity : 0;
  return std::isfinite(out) ? std::fabs(out - reference) : kInfinity;
}

// The first element beyond its bound; empty if there is none.
std::string find_element(std::span<const double> out, std::span<const double> reference,
                         const Bounds& bounds) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double size = std::isfinite(reference[i]) ? std::fabs(reference[i]) : 0;
    const double bound = bounds.absolute.value_or(0) + bounds.relative.value_or(0) * size;
    if (error_of(out[i], reference[i]) <= bound) continue;
    return text("element ", i, ": ", out[i], " instead of ", reference[i], ", wanted within ",
                bound);
  }
  return {};
}

double find_snr_db(std::span<const double> out, std::span<const double> reference) {
  double signal = 0;
  double noise = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double error = error_of(out[i], reference[i]);
    noise += error * error;
    if (std::isfinite(reference[i])) signal += reference[i] * reference[i];
  }
  return noise == 0 ? kInfinity : 10 * std::log10(signal / noise);
}

}  // namespace

Verdict judge(std::span<const double> out, std::span<const double> reference,
              const Bounds& bounds) {
  check_bounds(bounds);
  check_sizes(out.size(), reference.size());
  Verdict verdict;
  verdict.snr_db = find_snr_db(out, reference);
  if (bounds.snr_db && !(verdict.snr_db > *bounds.snr_db)) {
    verdict.note = text("SNR ", verdict.snr_db, " dB, wanted > ", *bounds.snr_db, " dB");
  }
  if (bounds.relative || bounds.absolute) {
    const std::string element = find_element(out, reference, bounds);
    if (!element.empty()) verdict.note += (verdict.note.empty() ? "" : "; ") + element;
  }
  verdict.pass = verdict.note.empty();
  return verdict;
}

Verdict judge(const TensorView& out, std::span<const double> reference, const Bounds& bounds) {
  const auto elements = static_cast<std::size_t>(checked_elements(out));
  check_sizes(elements, reference.size());
  std::vector<unsigned char> bytes(bytes_of(out));
  copy_bytes(bytes.data(), out.data, bytes.size(), out.device);
  std::vector<double> values(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    values[i] = decode(bytes.data(), static_cast<std::int64_t>(i), out.dtype);
  }
  return judge(values, reference, bounds);
}

Gate make_gate(const TensorView& out, std::vector<double> reference, const Bounds& bounds) {
  check_bounds(bounds);
  check_sizes(static_cast<std::size_t>(checked_elements(out)), reference.size());
  return [out, reference = std::move(reference), bounds](const std::function<void()>& run) {
    poison(out);
    run();
    if (out.device.type == DeviceType::cuda) cuda::synchronize(out.device.index);
    return judge(out, reference, bounds);
  };
}

}  // namespace octet::bench
