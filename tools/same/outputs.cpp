// Runs every operator on random problems and writes what it computed:
//
//   octet_same_outputs [--device cpu|cuda] [--problems 200] [--op NAME] > records
//
// A record is a line "op TAB index TAB problem TAB tensor TAB kind TAB bytes" and that many bytes.
// Kind is "tensor" (raw memory with its guard bands) or "text" (the implementation, or "refused").
#include "outputs.hpp"

#if __has_include("check/data/random.hpp")
#include "check/data/random.hpp"
#else
#include "check/random.hpp"
#endif
#include "device/cuda_runtime.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace octet::same {
namespace {

constexpr std::size_t kBand = kAlignment;
constexpr int kThreads = 2;

std::size_t byte_count(Dtype dtype, std::int64_t count) {
  return static_cast<std::size_t>(count * size_bytes(dtype));
}

TensorView as_vector(TensorView view) {
  view.rank = 1;
  view.shape = {view.shape[1]};
  view.strides = {1};
  return view;
}

void copy(void* to, const void* from, std::size_t bytes, Device device) {
  if (bytes == 0) return;
  if (device.type == DeviceType::cuda) return cuda::copy(to, from, bytes, device.index);
  std::memcpy(to, from, bytes);
}

}  // namespace

Trial::Trial(std::string_view op, int index, Device where)
    : draw(op, index), device(where), op_(op), index_(index) {}

Dtype Trial::float_dtype(std::string_view option) {
  return draw.pick<Dtype>(option,
                          {{"bf16", Dtype::bf16}, {"f16", Dtype::f16}, {"f32", Dtype::f32}});
}

Dtype Trial::fp8_dtype(std::string_view option) {
  return draw.pick<Dtype>(option, {{"e4m3", Dtype::e4m3}, {"e5m2", Dtype::e5m2}});
}

PlanOptions Trial::plan_options() {
  PlanOptions options;
  options.threads = kThreads;
  const bool reference = draw.once_in(4, "reference");
  if (reference && device.type == DeviceType::cpu) options.backend = "cpu_reference";
  return options;
}

Fp8LinearOptions Trial::layer_options() {
  const PlanOptions plain = plan_options();
  Fp8LinearOptions options;
  options.gemm_backend = options.quantize_backend = plain.backend;
  options.threads = plain.threads;
  return options;
}

TensorView Trial::place(const std::vector<std::byte>& bytes, const std::string& name) {
  std::vector<std::byte> image(bytes.size() + 2 * kBand, kPoison);
  std::copy(bytes.begin(), bytes.end(), image.begin() + kBand);
  memory_.push_back({name, Buffer(image.size(), device)});
  std::byte* data = static_cast<std::byte*>(memory_.back().buffer.data());
  copy(data, image.data(), image.size(), device);
  TensorView view;
  view.data = data + kBand;
  view.device = device;
  return view;
}

TensorView Trial::place_random(Dtype dtype, std::int64_t rows, std::int64_t cols, std::int64_t gap,
                               const std::string& name, bool positive) {
  std::vector<std::byte> bytes(byte_count(dtype, rows * (cols + gap)), kPoison);
  fill_random(make_matrix(bytes.data(), dtype, rows, cols, cols + gap),
              positive ? Distribution::one_signed : Distribution::normal,
              {static_cast<std::uint64_t>(index_) + 1, streams_++}, kThreads);
  return make_matrix(place(bytes, name).data, dtype, rows, cols, cols + gap, device);
}

TensorView Trial::input(Dtype dtype, std::int64_t rows, std::int64_t cols, std::int64_t gap) {
  return place_random(dtype, rows, cols, gap, "", false);
}

TensorView Trial::positive_vector(std::int64_t length) {
  return as_vector(place_random(Dtype::f32, 1, length, 0, "", true));
}

TensorView Trial::vector(Dtype dtype, std::int64_t length) {
  return as_vector(place_random(dtype, 1, length, 0, "", false));
}

TensorView Trial::indices(Dtype dtype, std::int64_t rows, std::int64_t cols, std::int64_t below) {
  std::vector<std::byte> bytes(byte_count(dtype, rows * cols));
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    // Little-endian, so the low bytes of 64 bits are the 32-bit number.
    const std::uint64_t number = draw.below(static_cast<std::uint64_t>(below));
    std::memcpy(bytes.data() + byte_count(dtype, i), &number, byte_count(dtype, 1));
  }
  return make_view(place(bytes, "").data, dtype, {rows, cols}, device);
}

QuantizedView Trial::quantized_input(std::int64_t rows, std::int64_t cols, Dtype format,
                                     BlockShape block) {
  const QuantizedLayout layout(rows, cols, format, block);
  std::vector<std::byte> input(byte_count(Dtype::f32, rows * cols));
  const TensorView matrix = make_view(input.data(), Dtype::f32, {rows, cols});
  fill_random(matrix, Distribution::skewed, {static_cast<std::uint64_t>(index_) + 1, streams_++},
              kThreads);
  const Buffer cast(layout.bytes);
  QuantizeProblem problem;
  problem.rows = rows;
  problem.cols = cols;
  problem.input_dtype = Dtype::f32;
  problem.format = format;
  problem.block = block;
  run(plan_quantize(problem, {"cpu_reference", kThreads}), {matrix, layout.view(cast.data()), {}});
  const auto* data = static_cast<const std::byte*>(cast.data());
  return layout.view(place({data, data + layout.bytes}, "").data, device);
}

Fp8LinearWeights Trial::quantized_weights(std::int64_t rows, std::int64_t cols, Dtype format) {
  return {quantized_input(rows, cols, format, kBlock128x128),
          quantized_input(cols, rows, format, kBlock128x128)};
}

TensorView Trial::output(const std::string& name, Dtype dtype, std::int64_t rows, std::int64_t cols,
                         std::int64_t gap) {
  return make_matrix(poison(name, dtype, rows * (cols + gap)).data, dtype, rows, cols, cols + gap,
                     device);
}

TensorView Trial::output_vector(const std::string& name, Dtype dtype, std::int64_t length) {
  return poison(name, dtype, length);
}

TensorView Trial::accumulated_output(const std::string& name, Dtype dtype, std::int64_t rows,
                                     std::int64_t cols) {
  return place_random(dtype, rows, cols, 0, name, false);
}

QuantizedView Trial::output(const std::string& name, const QuantizedLayout& layout) {
  if (layout.bytes == 0) return {};
  return layout.view(place(std::vector<std::byte>(layout.bytes, kPoison), name).data, device);
}

Fp8Copies Trial::fp8_output(const std::string& name, const Fp8Output& fp8, std::int64_t rows,
                            std::int64_t cols) {
  Fp8Copies copies;
  if (fp8.block) copies.out = output(name + ".out", {rows, cols, fp8.format, *fp8.block});
  if (fp8.transposed_block) {
    copies.transposed =
        output(name + ".transposed", {cols, rows, fp8.format, *fp8.transposed_block});
  }
  return copies;
}

TensorView Trial::elements(const std::string& name, Dtype dtype, std::int64_t count) {
  return as_vector(place_random(dtype, 1, count, 0, name, false));
}

TensorView Trial::poison(const std::string& name, Dtype dtype, std::int64_t count) {
  const TensorView memory = place(std::vector<std::byte>(byte_count(dtype, count), kPoison), name);
  return make_view(memory.data, dtype, {count}, device);
}

void Trial::note(const std::string& pass, const std::string& text) {
  notes_.emplace_back(pass, text);
}

// On the CPU every problem is meant to run. On CUDA devices many have no implementation yet.
std::string Trial::refusal(const Error& error) const {
  if (device.type == DeviceType::cpu) {
    std::fprintf(stderr, "refused: %s %d %s\n  %s\n", op_.c_str(), index_, draw.text().c_str(),
                 error.what());
  }
  return "refused, status " + std::to_string(static_cast<int>(error.code()));
}

void Trial::synchronize() const {
  if (device.type == DeviceType::cuda) cuda::synchronize(device.index);
}

void Trial::write_record(const std::string& name, const char* kind, const void* data,
                         std::size_t bytes) const {
  std::printf("%s\t%d\t%s\t%s\t%s\t%zu\n", op_.c_str(), index_, draw.text().c_str(), name.c_str(),
              kind, bytes);
  std::fwrite(data, 1, bytes, stdout);
}

void Trial::write() const {
  for (const auto& [pass, text] : notes_) write_record(pass, "text", text.data(), text.size());
  for (const Memory& memory : memory_) {
    if (memory.name.empty()) continue;
    std::vector<std::byte> image(memory.buffer.bytes());
    copy(image.data(), memory.buffer.data(), image.size(), device);
    write_record(memory.name, "tensor", image.data(), image.size());
  }
}

struct NamedTrial {
  const char* name;
  TrialOfOperator run;
};

constexpr NamedTrial kTrials[] = {
    {"quantize", try_quantize},
    {"dequantize", try_dequantize},
    {"repack", try_repack},
    {"gemm", try_gemm},
    {"fp8_linear", try_fp8_linear},
    {"rms_norm", try_rms_norm},
    {"rope", try_rope},
    {"rms_norm_rope", try_rms_norm_rope},
    {"gated_mlp", try_gated_mlp},
    {"gated_activation", try_gated_activation},
};

}  // namespace octet::same

int main(int count, char** words) {
  octet::Device device = octet::kCpu;
  int problems = 200;
  std::string only;
  try {
    for (int i = 1; i + 1 < count; i += 2) {
      const std::string option = words[i];
      if (option == "--device") device = octet::parse_device(words[i + 1]);
      if (option == "--problems") problems = std::atoi(words[i + 1]);
      if (option == "--op") only = words[i + 1];
    }
    for (const auto& [name, run] : octet::same::kTrials) {
      if (!only.empty() && only != name) continue;
      for (int index = 0; index < problems; ++index) {
        octet::same::Trial trial(name, index, device);
        run(trial);
        trial.write();
      }
    }
  } catch (const octet::Error& error) {
    std::fprintf(stderr, "octet_same_outputs: %s\n", error.what());
    return 1;
  }
  return 0;
}
