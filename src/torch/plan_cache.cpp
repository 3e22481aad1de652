#include "torch/plan_cache.hpp"

#include <list>
#include <mutex>
#include <string_view>
#include <unordered_map>

namespace octet_torch {

namespace {

// A model has some ten distinct problems per sequence length.
constexpr std::size_t kCapacity = 512;

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
PlanCache& cache() {
  static PlanCache& plans = *new PlanCache;
  return plans;
}

}  // namespace

CachedPlan find_plan(const std::string& key,
                     const std::function<octet_status(octet_plan**)>& make) {
  CachedPlan found;
  if (cache().find(key, found)) return found;
  octet_plan* made = nullptr;
  check(make(&made));
  found.plan = std::shared_ptr<octet_plan>(made, octet_destroy_plan);
  found.workspace_bytes = octet_plan_workspace_bytes(made);
  cache().insert(key, found);
  return found;
}

std::size_t cached_plans() { return cache().size(); }

}  // namespace octet_torch
