// What the gates of octet check measure, for octet check --explain.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace octet::tool {

struct GateText {
  std::string gate;  // "G2", as octet check prints it
  std::string measures;
  std::string bound;
};

// Every gate that octet check can print. src/check/gates.hpp says why they are sound.
const std::vector<GateText>& gate_texts();

std::string gate_legend(std::size_t columns);

}  // namespace octet::tool
