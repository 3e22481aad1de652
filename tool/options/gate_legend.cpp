#include "tool/options/gate_legend.hpp"

#include "tool/options/help_text.hpp"

#include <fmt/format.h>

namespace octet::tool {

const std::vector<GateText>& gate_texts() {
  static const std::vector<GateText> texts{
      {"G1",
       "FP8 product against the product of the unquantised inputs: are formats and scales right?",
       "> 25 dB, > 20 dB if an operand is e5m2; mxfp8 whose scales may saturate > 23 dB. A gated "
       "MLP, through all its products: > 20 dB in e4m3, > 15 dB with e5m2, 10 dB less on skewed "
       "data and outliers; > 45 dB in 16 bits, > 100 dB in f32."},
      {"G2", "FP8 product against the product of the dequantised operands: is the kernel right?",
       "> 50 dB for 16-bit outputs; f32 > 120 dB, on CUDA > 70 dB."},
      {"G3", "Every 1x128 and 128x1 strip of the output, and every element.",
       "> 48 dB per strip, f32 > 65 dB; per element half an ulp + c sum |a b|, c = 2^-20, on CUDA "
       "2^-9."},
      {"G4", "Product of 16- or 32-bit operands.",
       "> 45 dB, > 100 dB if all is f32, and every element off by <= 1e-2."},
      {"G5", "The same call twice, into dense and into pitched memory.", "equal bits."},
      {"G6", "Outputs filled with NaN beforehand, with guard bands around them.",
       "0 elements not written, 0 written outside."},
      {"M", "mxfp8: the product of folded operands against that of the mx blocks.", "> 90 dB."},
      {"Q", "Quantised values and scales against an independent quantiser.", "equal bits."},
      {"E1", "Output of an elementwise or row-wise operator.", "> 45 dB, f32 > 100 dB."},
      {"E2", "Every element of it.",
       "off by <= 0.01 (|ref| + rms), f32 <= 0.0001; equal where the output is only a rounding."},
      {"A1", "Attention: out and dv, dq and dk, against f64.",
       "> 50 dB and > 48 dB; f16 > 62 dB and > 60 dB; f32 > 100 dB and > 98 dB. Fewer than 1024 "
       "outputs, and those that cancel: twice the error that rounding explains."},
      {"A2", "The same for every 64 rows of a head.",
       "> 48 dB and > 46 dB; f16 > 60 dB and > 58 dB; f32 > 98 dB and > 96 dB."},
      {"A3", "Every row of out and dv.", "> 44 dB; f16 > 56 dB; f32 > 94 dB."},
      {"A4", "The logarithm of the sums.", "off by <= 2e-05 max(1, |lse|)."},
      {"A5", "Attention on data of known results: one to four keys per query count.",
       "these results; a pair of query and key that is dropped at the edge of a mask fails."},
      {"D", "Every group of a layer over groups against the dense layer on its rows.",
       "equal bits. On CUDA, with more than four groups, the gates above judge the first, last, "
       "longest and shortest."},
      {"F", "A gated MLP fused and unfused.", "equal bits."},
  };
  return texts;
}

std::string gate_legend(std::size_t columns) {
  HelpList list{"Gates", {}};
  for (const GateText& text : gate_texts()) {
    list.entries.push_back({text.gate, fmt::format("{} Passes: {}", text.measures, text.bound)});
  }
  return wrapped(
             "Every output is judged against an f64 reference that shares no code with the kernel. "
             "dB is the ratio of signal to error: 20 dB more is an error 10 times smaller. With "
             "fewer than 1024 outputs, and G1 and G2 where few numbers have most of the energy, "
             "G1, G2 and G4 judge every element instead, and value and bound say so.",
             columns) +
         "\n" + lists_text({list}, columns) +
         "\ndocs/gates.md says what each gate sees and misses.";
}

}  // namespace octet::tool
