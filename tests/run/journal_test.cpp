// SPDX-License-Identifier: Apache-2.0
#include "harness/run/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "harness/support/errors.h"
#include "tests/support/message_of.h"
#include "tests/support/scoped.h"

namespace kmeans {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JournalTest : public ::testing::Test {
 protected:
  static ProcessRecord record(const std::string& cell, int process, double sample) {
    return {cell, process, job_result_from_json({{"status", "ok"}, {"samples", {sample}}}),
            1.5,  0.25,    0.5};
  }

  [[nodiscard]] std::string text() const {
    std::ifstream stream(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }

  /// A journal of these records, which nobody writes any more.
  void write(const std::vector<ProcessRecord>& records) const {
    Journal journal(file_, false);
    for (const ProcessRecord& one : records) journal.append(one);
  }

  void replace_text(const std::string& text) const {
    std::ofstream(file_, std::ios::binary | std::ios::trunc) << text;
  }

  void append_text(const std::string& text) const {
    std::ofstream(file_, std::ios::binary | std::ios::app) << text;
  }

  [[nodiscard]] std::string refusal() const {
    return test::message_of([&] { const Journal journal(file_, true); });
  }

  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  const test::TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
  const std::filesystem::path file_ = folder_ / "demo.journal.jsonl";
};

TEST_F(JournalTest, ResumedJournalHoldsWhatWasWritten) {
  {
    Journal journal(file_, false);
    journal.write_header("2026-01-01T00:00:00Z", {{"machine", "a"}});
    journal.append(record("b", 0, 2.0));
    journal.append(record("a", 0, 1.0));
    journal.append(record("b", 1, 3.0));
    journal.append_dataset("uniform", {{"sha256", "00"}});
    journal.append(Part::trace, "path", {{"status", "ok"}});
  }
  const Journal journal(file_, true);
  const auto& content = journal.content();
  EXPECT_EQ(content.header.at("identity").at("machine"), "a");
  EXPECT_EQ(content.header.at("started"), "2026-01-01T00:00:00Z");
  ASSERT_EQ(content.processes.size(), 3U);
  const auto& second = content.processes.at({"b", 1});
  EXPECT_THAT(second.result.samples, ElementsAre(3.0));
  EXPECT_EQ(second.wall_seconds, 1.5);
  EXPECT_EQ(second.load_before, 0.25);
  EXPECT_EQ(second.load_after, 0.5);
  EXPECT_THAT(content.run_order, ElementsAre("b", "a"));
  EXPECT_EQ(content.datasets.at("uniform").at("sha256"), "00");
  EXPECT_EQ(content.traces.at("path").at("status"), "ok");
}

TEST_F(JournalTest, LaterEntryOfAProcessReplacesTheEarlierOne) {
  write({record("a", 0, 1.0), record("a", 0, 7.0)});
  const Journal journal(file_, true);
  ASSERT_EQ(journal.content().processes.size(), 1U);
  EXPECT_THAT(journal.content().processes.at({"a", 0}).result.samples, ElementsAre(7.0));
  EXPECT_THAT(journal.content().run_order, ElementsAre("a"));
}

TEST_F(JournalTest, TornLastLineIsDroppedAndWritingGoesOn) {
  write({record("a", 0, 1.0)});
  const std::string whole = text();
  append_text(R"({"cell": "a", "process": 1, "resu)");
  {
    Journal journal(file_, true);
    EXPECT_EQ(journal.content().processes.size(), 1U);
    EXPECT_EQ(text(), whole);
    journal.append(record("a", 1, 2.0));
  }
  const Journal journal(file_, true);
  EXPECT_EQ(journal.content().processes.size(), 2U);
}

TEST_F(JournalTest, ADamagedLastLineIsDroppedAndSaid) {
  write({record("a", 0, 1.0), record("a", 1, 2.0)});
  const std::string whole = text();
  const auto last_line = whole.find('\n') + 1;
  for (std::size_t at = last_line; at + 1 < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = changed[at] == '1' ? '2' : '1';
    replace_text(changed);
    const Journal journal(file_, true);
    EXPECT_EQ(journal.content().processes.size(), 1U);
    EXPECT_EQ(text(), whole.substr(0, last_line));
    EXPECT_THAT(journal.damage(), HasSubstr("demo.journal.jsonl:2: the last line of the journal"));
  }
  // A line without its end was being written when the run was killed: nothing to be said.
  replace_text(whole.substr(0, whole.size() - 1));
  EXPECT_EQ(Journal(file_, true).damage(), "");
}

TEST_F(JournalTest, ADamagedEndWithoutALineBreakIsSaid) {
  write({record("a", 0, 1.0), record("\u03b5 = 1", 1, 2.5e-7)});
  const std::string whole = text();
  const auto last_line = whole.find('\n') + 1;
  const auto damage_of = [&](const std::string& content) {
    replace_text(content);
    const Journal journal(file_, true);
    EXPECT_EQ(journal.content().processes.size(), 1U) << content;
    EXPECT_EQ(text(), whole.substr(0, last_line));
    return journal.damage();
  };
  for (std::size_t length = last_line; length < whole.size(); ++length) {
    EXPECT_EQ(damage_of(whole.substr(0, length)), "") << length;
  }
  const std::string line = whole.substr(last_line, whole.size() - last_line - 1);
  std::string other = line;
  other[other.find("2.5e-07")] = '3';
  for (const std::string& end : {line + "x", line + line, "x" + line, other, std::string(100, '\0'),
                                 std::string("nonsense")}) {
    EXPECT_THAT(damage_of(whole.substr(0, last_line) + end),
                HasSubstr("demo.journal.jsonl:2: the last line of the journal is damaged"))
        << end;
  }
}

TEST_F(JournalTest, EveryTornEndIsSurvived) {
  write({record("a", 0, 1.0), record("a", 1, 2.0)});
  const std::string whole = text();
  const auto second_line = whole.find('\n') + 1;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    replace_text(whole.substr(0, length));
    const Journal journal(file_, true);
    EXPECT_EQ(journal.content().processes.size(), length < second_line ? 0U : 1U) << length;
  }
}

TEST_F(JournalTest, DamageBeforeTheLastLineIsRefusedWithItsNumber) {
  append_text("{\"cell\": broken}\n" + sealed_line(R"({"trace":"t","result":{}})") + "\n");
  EXPECT_THAT(refusal(), HasSubstr("demo.journal.jsonl:1:"));
}

TEST_F(JournalTest, EveryChangedCharacterIsFound) {
  {
    Journal journal(file_, false);
    journal.write_header("2026-01-01T00:00:00Z", {{"machine", "a"}});
    journal.append(record("a", 0, 1.0));
    journal.append_dataset("uniform", {{"sha256", "00"}});
  }
  const std::string whole = text();
  const auto last_line = whole.rfind('\n', whole.size() - 2) + 1;
  // Without its end the line before the last is part of that one, which may be torn.
  for (std::size_t at = 0; at + 1 < last_line; ++at) {
    std::string changed = whole;
    changed[at] = changed[at] == '1' ? '2' : '1';
    replace_text(changed);
    EXPECT_THROW(Journal(file_, true), InputError) << changed.substr(0, at + 1);
  }
}

TEST_F(JournalTest, AKeyThatWasTakenOutIsFound) {
  const std::string whole = sealed_line(R"({"dataset":"x","description":{"sha256":"00"}})");
  std::string less = whole;
  less.erase(less.find(R"("sha256":"00")"), 13);
  append_text(less + "\n" + whole + "\n");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("demo.journal.jsonl:1:"), HasSubstr("checksum")));
}

TEST_F(JournalTest, OtherVersionsAreRefused) {
  std::ofstream(file_) << R"({"journal": 1, "started": "2025-01-01T00:00:00Z", "identity": {}})"
                       << "\n";
  EXPECT_THAT(refusal(), HasSubstr(":1: journal version 1; this program knows 2"));
}

TEST_F(JournalTest, WithoutResumeTheEarlierJournalIsKeptUnderAnotherName) {
  write({record("a", 0, 1.0)});
  const std::string before = text();
  {
    const Journal journal(file_, false);
    EXPECT_TRUE(journal.content().processes.empty());
  }
  EXPECT_EQ(text(), "");
  ASSERT_EQ(files(), 2U);
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (entry.path() == file_) continue;
    EXPECT_THAT(entry.path().filename().string(), HasSubstr("demo.journal.2"));
    EXPECT_EQ(entry.path().extension(), ".jsonl");
    EXPECT_EQ(std::filesystem::file_size(entry.path()), before.size());
  }
}

TEST_F(JournalTest, SecondRunIsRefusedWithTheOutputCode) {
  const Journal first(file_, false);
  for (const bool resume : {false, true}) {
    EXPECT_THAT(test::message_of<OutputError>([&] { const Journal second(file_, resume); }),
                HasSubstr("in use by another run"));
  }
  EXPECT_EQ(files(), 1U);
}

TEST_F(JournalTest, FullDiskKeepsWholeLinesAndThrows) {
  Journal journal(file_, false);
  journal.append(record("a", 0, 1.0));
  const std::string whole = text();
  // A file size limit in the middle of the next line stands for a full disk.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{whole.size() + 10, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(journal.append(record("a", 1, 2.0)), OutputError);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(text(), whole);
  EXPECT_EQ(journal.content().processes.size(), 1U);
}

TEST_F(JournalTest, UnwritableFolderIsAnOutputError) {
  EXPECT_THROW(Journal(folder_ / "missing" / "x.jsonl", false), OutputError);
}

TEST_F(JournalTest, NumbersThatAreNoneAndBrokenTextAreWritten) {
  {
    Journal journal(file_, false);
    ProcessRecord odd = record("a", 0, 1.0);
    odd.result.samples = {std::numeric_limits<double>::quiet_NaN()};
    odd.result.reason = "bad byte \xFF";
    journal.append(odd);
  }
  const Journal journal(file_, true);
  const auto& result = journal.content().processes.at({"a", 0}).result;
  ASSERT_EQ(result.samples.size(), 1U);
  EXPECT_TRUE(std::isnan(result.samples[0]));
  EXPECT_EQ(result.reason, "bad byte \xEF\xBF\xBD");
}

TEST(IdentityDifferences, NamesWhatChanged) {
  const json before{{"machine", "a"}, {"build", "1"}, {"gone", true}};
  const json now{{"machine", "a"}, {"build", "2"}, {"new", 3}};
  EXPECT_THAT(
      identity_differences(before, now),
      ElementsAre("build was \"1\", is \"2\"", "gone was true, is null", "new was null, is 3"));
  EXPECT_TRUE(identity_differences(now, now).empty());
}

}  // namespace
}  // namespace kmeans
