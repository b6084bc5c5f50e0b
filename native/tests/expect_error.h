// What every test of a failure checks: the status, and that the text says the thing a user needs.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "pyslash/error.h"

namespace pyslash {

template <typename Body>
void expect_error(Status status, const std::string& text, Body&& body) {
  try {
    body();
    ADD_FAILURE() << "no error was raised; wanted one that says: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.status()), static_cast<int>(status)) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

}  // namespace pyslash
