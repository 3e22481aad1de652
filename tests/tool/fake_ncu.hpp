// A stand-in for Nsight Compute's ncu, for machines without it: a script that notes its arguments,
// runs the octet command it is given on the CPU and writes what ncu would write, with invented
// figures.
#pragma once

#include "run_tool.hpp"

#include <filesystem>
#include <fstream>
#include <string>

namespace octet::tool {

// Writes a script that can be run. Returns its path.
inline std::string write_script(const Folder& folder, const std::string& name,
                                const std::string& body) {
  const std::string path = folder.file(name);
  std::ofstream(path) << "#!/bin/bash\n" << body;
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

// A build of octet that takes the CPU where it is asked for a GPU. Notes its arguments beside those of
// ncu; `before` is run first: bash that may print or exit.
inline std::string write_cpu_build(const Folder& folder, const std::string& name = "build",
                                   const std::string& before = "") {
  return write_script(folder, name,
                      "echo \"$*\" >> '" + folder.file("calls") + "'\n" + before + "\nexec '" +
                          tool_path() + "' \"$@\" --device cpu\n");
}

// `before` is run first: bash that may write to "$log" or exit. A build whose path ends in "old" has
// kernels that take half as long again.
inline std::string write_fake_ncu(const Folder& folder, const std::string& before = "") {
  const std::string notes = "echo \"$*\" >> '" + folder.file("calls") + "'\n";
  return write_script(folder, "ncu", notes + R"sh(
while [ "$1" != --log-file ]; do
  [ "$1" = --metrics ] && metrics=$2
  shift
done
log=$2
shift 2
program=$1
)sh" + before + R"sh(
"$@" --device cpu || exit
launches=$(sed 's/.*--launches //' <<<"$*")
us=200
[[ $program = *old ]] && us=300
quoted() {
  local line; printf -v line '"%s",' "$@"
  echo "${line%,}"
}
row() {  # ID KERNEL US TENSOR
  quoted "$1" 9 octet host "$2" 1 7 '(384, 1, 1)' '(132, 1, 1)' 0 9.0 \
    "$3,000" "$4" n/a 168 1,024 0 1,500,000,000 12.5
}
{
  echo "==PROF== Connected to process 9 ($program)"
  quoted ID 'Process ID' 'Process Name' 'Host Name' 'Kernel Name' Context Stream 'Block Size' \
    'Grid Size' Device CC gpu__time_duration.sum \
    sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active lts__t_sector_hit_rate.pct \
    launch__registers_per_thread l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum \
    l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum smsp__cycles_elapsed.avg.per_second \
    dram__throughput.avg.pct_of_peak_sustained_elapsed
  quoted '' '' '' '' '' '' '' '' '' '' '' ns % % register/thread sector sector hz %
  for ((call = 0; call < launches; ++call)); do
    row $((2 * call)) 'void octet::quantize_kernel<(octet::Dtype)3>(octet::Params)' \
      $((10 + call)) 0.00
    row $((2 * call + 1)) 'void octet::sm90::gemm_kernel<octet::Constant<1>>(octet::Maps)' \
      $((us + call)) 91.25
  done
  echo "==PROF== Disconnected from process 9"
} > "$log"
)sh");
}

}  // namespace octet::tool
