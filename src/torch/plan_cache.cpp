#include "torch/plan_cache.hpp"

#include <array>
#include <list>
#include <mutex>
#include <string_view>
#include <unordered_map>

namespace octet_torch {

namespace {

// Per device. A step of a model makes some ten to thirty plans per sequence length. A plan and its key
// take 1.5 KB (linear) to 3 KB (linear_cross_entropy) on the CPU, by mallinfo2: 12 MB when it is full.
constexpr std::size_t kCapacity = 4096;
constexpr std::size_t kDevices = 65;  // the CPU and 64 GPUs; further ones share

// The least recently used plan is evicted.
class PlanCache {
 public:
  bool find(const std::string& key, CachedPlan& plan) {
    const std::lock_guard lock(mutex_);
    const auto found = index_.find(key);
    if (found == index_.end()) return false;
    entries_.splice(entries_.begin(), entries_, found->second);
    plan = found->second->plan;
    return true;
  }

  void insert(const std::string& key, const CachedPlan& plan) {
    const std::lock_guard lock(mutex_);
    if (index_.contains(key)) return;  // another thread was faster
    entries_.push_front({key, plan});
    index_.emplace(entries_.front().key, entries_.begin());
    if (entries_.size() > kCapacity) {
      index_.erase(entries_.back().key);
      entries_.pop_back();
    }
  }

  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  struct Entry {
    std::string key;
    CachedPlan plan;
  };

  std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> index_;
};

// Never destroyed: at exit, other threads may still run operators.
std::array<PlanCache, kDevices>& caches() {
  static auto& all = *new std::array<PlanCache, kDevices>;
  return all;
}

PlanCache& cache_of(octet_device device) {
  if (device.type != OCTET_CUDA) return caches()[0];
  return caches()[1 + static_cast<std::size_t>(device.index) % (kDevices - 1)];
}

}  // namespace

CachedPlan find_plan(octet_device device, const std::string& key,
                     const std::function<octet_status(octet_plan**)>& make) {
  PlanCache& cache = cache_of(device);
  CachedPlan found;
  if (cache.find(key, found)) return found;
  octet_plan* made = nullptr;
  check(make(&made));
  found.plan = std::shared_ptr<octet_plan>(made, octet_destroy_plan);
  found.workspace_bytes = octet_plan_workspace_bytes(made);
  cache.insert(key, found);
  return found;
}

std::size_t cached_plans() {
  std::size_t count = 0;
  for (PlanCache& cache : caches()) count += cache.size();
  return count;
}

}  // namespace octet_torch
