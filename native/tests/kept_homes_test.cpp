#include "pyslash/kept_homes.h"

#include <gtest/gtest.h>

#include "sums.h"

namespace pyslash {
namespace {

struct Home {
  std::shared_ptr<const Plan> of;
  const Plan& plan() const { return *of; }
};

TEST(KeptHomes, WhatNobodyAsksForGoes) {
  const std::shared_ptr<const Plan> plan = sums::plan_of(10, 10);
  KeptHomes<Home> homes;
  const KeptHomes<Home>::Clock::time_point start{};
  const auto ask = [&](const std::string& query, uint64_t prefix, KeptHomes<Home>::Clock::duration after) {
    return homes.of(query, prefix, prefix + 1, *plan, "1", [&] { return Home{plan}; }, start + after);
  };
  const auto first = ask("ended", 0, std::chrono::minutes(0));
  ask("runs", 0, std::chrono::minutes(0));
  EXPECT_EQ(ask("runs", 0, std::chrono::minutes(50)), ask("runs", 0, std::chrono::minutes(55)));
  EXPECT_EQ(homes.size(), 2U);
  const auto other = ask("runs", 1, std::chrono::minutes(61));
  EXPECT_EQ(homes.size(), 2U);  // that of the ended query has gone; whoever still reads it has it
  EXPECT_EQ(first->home.of, plan);
  EXPECT_NE(ask("ended", 0, std::chrono::minutes(62)), first);
  homes.close("runs");
  EXPECT_EQ(homes.size(), 1U);
}

}  // namespace
}  // namespace pyslash
