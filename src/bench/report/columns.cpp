#include "bench/report/columns.hpp"

namespace octet::bench {

Row machine_columns() {
  return {"Commit",    "Device Sources",  "CPU",     "Clock (MHz)",
          "Power (W)", "Temperature (C)", "Throttle"};
}

Row gemm_columns(bool with_baseline) {
  Row header{"TestID",
             "Platform",
             "GPU",
             "Case",
             "MBS",
             "M",
             "N",
             "K",
             "Dtype",
             "Granularity",
             "Check",
             "Forward Time (ms)",
             "Forward TFLOPS",
             "Backward Time (ms)",
             "Backward TFLOPS",
             "Combined Step Time (ms)",
             "Combined Step TFLOPS"};
  for (const char* gate : {"G1", "G2", "G4"}) {
    for (const char* tensor : {"Forward", "dX", "dW"}) {
      header.push_back(std::string(tensor) + " " + gate + " SNR (dB)");
    }
  }
  append(header, {"f16 SNR (dB)", "Backend", "Configuration", "Threads", "Warmup", "Iterations",
                  "Spread (%)", "Note", "Wgrad Blocks"});
  append(header, machine_columns());
  append(header, {"Seed", "Command"});
  if (with_baseline) {
    append(header, {"Baseline", "Forward Ratio", "Backward Ratio", "Combined Ratio",
                    "Baseline Forward Time (ms)", "Baseline Backward Time (ms)",
                    "Baseline Combined Step Time (ms)"});
  }
  return header;
}

Row cast_columns() {
  Row header{"TestID",
             "Platform",
             "GPU",
             "Rows",
             "Cols",
             "Dtype",
             "Format",
             "Block",
             "Transposed Block",
             "Check",
             "Time (ms)",
             "Bytes",
             "GB/s",
             "Memcpy Time (ms)",
             "Memcpy GB/s",
             "Memcpy Ratio",
             "Backend",
             "Configuration",
             "Threads",
             "Warmup",
             "Iterations",
             "Spread (%)",
             "Note"};
  append(header, machine_columns());
  append(header, {"Seed", "Command"});
  return header;
}

Row memory_step_columns() {
  Row header{"TestID", "Platform", "GPU", "Case", "Operator", "Shape", "Dtype", "Options", "Check"};
  for (const char* part : {"Forward", "Backward"}) {
    for (const char* what : {" Time (ms)", " GB/s", " Copy Ratio"}) {
      header.push_back(std::string(part) + what);
    }
  }
  append(header,
         {"Combined Step Time (ms)", "Combined Step GB/s", "Combined Copy Ratio", "Forward Bytes",
          "Backward Bytes", "Forward SNR (dB)", "Backward SNR (dB)", "Backend", "Configuration",
          "Threads", "Warmup", "Iterations", "Spread (%)", "Note"});
  append(header, machine_columns());
  append(header, {"Seed", "Command"});
  return header;
}

Row mlp_columns() {
  Row header{"TestID",
             "Platform",
             "GPU",
             "Case",
             "Operator",
             "M",
             "F",
             "K",
             "Dtype",
             "Options",
             "Check",
             "Forward Time (ms)",
             "Forward TFLOPS",
             "Backward Time (ms)",
             "Backward TFLOPS",
             "Combined Step Time (ms)",
             "Combined Step TFLOPS"};
  for (const std::string way : {"", "Unfused "}) {
    for (const char* part : {"Forward", "Backward"}) {
      append(header, {way + part + " Launches", way + part + " Bytes"});
    }
  }
  append(header,
         {"Unfused Forward Time (ms)", "Unfused Backward Time (ms)", "Forward Ratio",
          "Backward Ratio", "Combined Ratio", "Same Bits", "Forward SNR (dB)", "Backward SNR (dB)",
          "Backend", "Configuration", "Threads", "Warmup", "Iterations", "Spread (%)", "Note"});
  append(header, machine_columns());
  append(header, {"Seed", "Command"});
  return header;
}

}  // namespace octet::bench
