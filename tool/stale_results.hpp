// Published results that were measured with other kernels than the tree has.
#pragma once

#include <string>
#include <vector>

namespace octet::tool {

// One line per file of results/<gpu>/*.csv and hash of device sources other than `tree`:
//   STALE: results/h200/dense84.csv was measured with device sources X, the tree has Y
// and one per file that is no CSV. Rows without a hash, as of other programs, are not judged. None
// where the folder is missing.
std::vector<std::string> stale_results(const std::string& folder, const std::string& tree);

}  // namespace octet::tool
