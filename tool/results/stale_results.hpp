// Published results that were measured with other kernels than the tree has.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace octet::tool {

// The hash of the device sources of an operator, as a command has its name.
using TreeHash = std::function<std::string(const std::string& op)>;

// One line per file of results/<gpu>/*.csv, operator and hash of device sources other than the tree's:
//   STALE: results/h200/dense84.csv was measured with device sources X, the tree has Y of gemm
// and one per file that is no CSV. Rows without a hash, as of other programs, are not judged. None
// where the folder is missing.
std::vector<std::string> stale_results(const std::string& folder, const TreeHash& tree);

}  // namespace octet::tool
