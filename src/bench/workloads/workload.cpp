#include "bench/workloads/workload.hpp"

#include <algorithm>

namespace octet::bench {
namespace {

std::string of_calls(const std::vector<Workload::Call>& calls, std::string Workload::Call::*what) {
  const std::string& first = calls.front().*what;
  const std::string& last = calls.back().*what;
  return first == last ? first : first + "; backward: " + last;
}

class Beside : public Workload {
 public:
  Beside(std::unique_ptr<Workload> ours, std::unique_ptr<Workload> peer)
      : ours_(std::move(ours)), peer_(std::move(peer)) {
    calls_ = ours_->calls();
  }

  std::string implementation() const override { return ours_->implementation(); }
  std::string configuration() const override { return ours_->configuration(); }
  std::size_t bytes() const override { return ours_->bytes() + peer_->bytes(); }

  void allocate(std::int64_t uses) override {
    for (Workload* workload : {ours_.get(), peer_.get()}) {
      workload->set_stream(stream_);
      workload->allocate(uses);
    }
  }

  Task task() override { return ours_->task(); }
  Task peer() override { return peer_->task(); }

 private:
  std::unique_ptr<Workload> ours_;
  std::unique_ptr<Workload> peer_;
};

}  // namespace

std::string Workload::implementation() const { return of_calls(calls_, &Call::implementation); }
std::string Workload::configuration() const { return of_calls(calls_, &Call::configuration); }

std::size_t Workload::workspace_bytes() const {
  std::size_t most = 0;
  for (const auto* calls : {&calls_, &peer_calls_}) {
    for (const Call& call : *calls) most = std::max(most, call.workspace_bytes);
  }
  return most;
}

std::unique_ptr<Workload> beside(std::unique_ptr<Workload> ours, std::unique_ptr<Workload> peer) {
  return std::make_unique<Beside>(std::move(ours), std::move(peer));
}

}  // namespace octet::bench
