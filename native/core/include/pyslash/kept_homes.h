// What a process keeps of queries from epoch to epoch: by query and range of hash prefixes. Any of it may go and be
// made anew; so what nobody has asked for in a long time goes: its query has ended, or has other ranges now.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "pyslash/plan.h"

namespace pyslash {

template <typename Home>
struct Guarded {
  explicit Guarded(Home of) : home(std::move(of)) {}
  std::mutex mutex;
  Home home;
};

template <typename Home>
class KeptHomes {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::duration most_idle = std::chrono::hours(1);

  // That of a range, to be brought to a version; `make` makes it where there is none, where it is of another plan, or
  // where somebody still reads it as of another version.
  template <typename Make>
  std::shared_ptr<Guarded<Home>> of(const std::string& query, uint64_t prefix_lo, uint64_t prefix_hi, const Plan& plan,
                                    const std::string& version, Make&& make, Clock::time_point now = Clock::now()) {
    std::vector<std::shared_ptr<Guarded<Home>>> idle;  // which end without the lock
    const std::lock_guard lock(mutex_);
    Kept& kept = homes_[{query, prefix_lo, prefix_hi}];
    const bool is_read = kept.home.use_count() > 1 && kept.version != version;
    if (!kept.home || is_read || kept.home->home.plan().text() != plan.text()) {
      kept.home = std::make_shared<Guarded<Home>>(make());
    }
    kept.version = version;
    kept.asked = now;
    std::erase_if(homes_, [&](auto& other) {
      if (now - other.second.asked <= most_idle) return false;
      idle.push_back(std::move(other.second.home));
      return true;
    });
    return kept.home;
  }

  void close(const std::string& query) {
    const std::lock_guard lock(mutex_);
    std::erase_if(homes_, [&](const auto& home) { return std::get<0>(home.first) == query; });
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return homes_.size();
  }

 private:
  struct Kept {
    std::shared_ptr<Guarded<Home>> home;
    std::string version;  // that it was last asked for
    Clock::time_point asked{};
  };
  mutable std::mutex mutex_;
  std::map<std::tuple<std::string, uint64_t, uint64_t>, Kept> homes_;
};

}  // namespace pyslash
