// SPDX-License-Identifier: Apache-2.0
#include "harness/variants/python_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>

#include "harness/variants/python_backend.h"
#include "tests/support/message_of.h"

namespace kmeans {
namespace {

using test::message_of;
using testing::HasSubstr;

// Answers each line by what stands there in place of ANSWER.
PythonConnection serve(const std::string& answer) {
  const std::string program = R"(
import os, sys, time
control = int(sys.argv[sys.argv.index("--control") + 1])
with open(control, "rb", closefd=False) as asked, open(control, "wb", closefd=False) as said:
    for line in asked:
        )" + answer + R"(
        said.flush()
)";
  return {"served", {find_python().interpreter, "-c", program}, {}};
}

TEST(PythonConnection, HandsQuestionsAndAnswersOver) {
  auto connection = serve(R"(said.write(b'{"ok": true, "asked": ' + line.strip() + b'}\n'))");
  EXPECT_EQ(connection.call("fit", {{"seed", 3}}, 30).at("asked").at("seed"), 3);
  EXPECT_EQ(connection.call("fit", {{"seed", 4}}).at("asked").at("command"), "fit");
}

TEST(PythonConnection, EndsAProcessThatDoesNotAnswerInTime) {
  auto connection = serve("time.sleep(600)");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(message_of<NoAnswerInTime>([&] { connection.call("fit", {}, 0.3); }),
              HasSubstr("served: no answer within 300 ms"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  EXPECT_THAT(message_of<std::runtime_error>([&] { connection.call("fit", {}, 0.3); }),
              HasSubstr("its Python process has ended"));
}

TEST(PythonConnection, SaysHowAProcessDied) {
  auto connection = serve("os._exit(7)");
  EXPECT_THAT(message_of<std::runtime_error>([&] { connection.call("fit", {}, 30); }),
              HasSubstr("ended with exit code 7 in fit"));
}

TEST(PythonConnection, RefusesWhatIsNoAnswer) {
  auto connection = serve(R"(said.write(b'[1]\n'))");
  EXPECT_THAT(message_of<std::runtime_error>([&] { connection.call("fit", {}, 30); }),
              HasSubstr("no valid answer to fit: '[1]"));
}

}  // namespace
}  // namespace kmeans
