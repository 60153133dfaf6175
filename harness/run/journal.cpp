// SPDX-License-Identifier: Apache-2.0
#include "harness/run/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <limits>
#include <set>
#include <stdexcept>
#include <string_view>

#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/json_integer.h"
#include "harness/support/sha256.h"

namespace kmeans {
namespace {

using nlohmann::json;

/// Why a line is not what this program writes.
class Damage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The object under a key.
const json& object_at(const json& line, const char* key) {
  const json& value = line.at(key);
  if (!value.is_object()) throw Damage("\"" + std::string(key) + "\" is not an object");
  return value;
}

ProcessRecord process_from_json(const json& line) {
  ProcessRecord record;
  line.at("cell").get_to(record.cell);
  record.process = integer_at<int>(line, "process");
  const json& result = object_at(line, "result");
  for (const char* key : {"stages", "library", "stage_work"}) {
    if (result.contains(key)) object_at(result, key);
  }
  record.result = job_result_from_json(result);
  record.activity = result.value("activity", json());
  if (result.contains("retries")) record.retries = integer_at<int>(result, "retries");
  line.at("wall_seconds").get_to(record.wall_seconds);
  line.at("load_average").at(0).get_to(record.load_before);
  line.at("load_average").at(1).get_to(record.load_after);
  return record;
}

// 2: lines carry a checksum.
constexpr int kJournalVersion = 2;
constexpr std::string_view kSealBegin = ",\"sum\":\"";
constexpr std::string_view kSealEnd = "\"}";
constexpr std::size_t kSealDigits = 16;

void take_line(const json& line, JournalContent& content) {
  if (line.contains("journal")) {
    if (line.at("journal") != kJournalVersion) {
      throw InputError("journal version " + to_line(line.at("journal")) + "; this program knows " +
                       std::to_string(kJournalVersion));
    }
    content.header = {{"started", line.at("started").get<std::string>()},
                      {"identity", object_at(line, "identity")}};
  } else if (line.contains("cell")) {
    content.add(process_from_json(line));
  } else if (line.contains("dataset")) {
    content.datasets[line.at("dataset").get<std::string>()] = object_at(line, "description");
  } else if (line.contains("study")) {
    content.studies[line.at("study").get<std::string>()] = object_at(line, "result");
  } else if (line.contains("fit")) {
    content.fits[line.at("fit").get<std::string>()] = object_at(line, "result");
  } else {
    content.traces[line.at("trace").get<std::string>()] = object_at(line, "result");
  }
}

/// A line may be long, but values nested without end would exhaust the stack.
constexpr JsonLimits kLineLimits{std::numeric_limits<std::size_t>::max(), JsonLimits{}.depth,
                                 std::numeric_limits<std::size_t>::max()};

json parse_line(std::string text) {
  try {
    return parse_json(std::move(text), "line", kLineLimits).value;
  } catch (const InputError& error) {
    throw Damage(error.what());
  }
}

/// Throws Damage where a line's checksum is missing or does not fit.
void check_seal(const std::string& text) {
  const std::size_t length = kSealBegin.size() + kSealDigits + kSealEnd.size();
  if (text.size() < length ||
      text.compare(text.size() - length, kSealBegin.size(), kSealBegin) != 0) {
    throw Damage("it has no checksum");
  }
  if (sealed_line(text.substr(0, text.size() - length) + "}") != text) {
    throw Damage("its checksum does not fit");
  }
}

/// Throws Damage, or InputError for a version that is not known.
void read_line(const std::string& text, JournalContent& content) {
  try {
    const json line = parse_line(text);
    // Journals of earlier versions have no checksums; their header says what they are.
    const bool known = !line.contains("journal") || line.at("journal") == kJournalVersion;
    if (known) check_seal(text);
    take_line(line, content);
  } catch (const json::exception& error) {
    throw Damage(error.what());
  }
}

/// Of the end of a journal, without a line break: empty where it is the beginning of a line, which was
/// being written when the run was killed; else what is wrong with it.
std::string why_not_cut_short(const std::string& text) {
  try {
    [[maybe_unused]] const json whole = json::parse(text);
    check_seal(text);
  } catch (const json::parse_error& error) {
    if (error.byte <= text.size()) return "it is not the beginning of a line";
  } catch (const json::exception& error) {  // a number that no float64 holds
    return error.what();
  } catch (const Damage& error) {
    return error.what();
  }
  return "";
}

std::string time_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &utc);
  return text.data();
}

}  // namespace

json to_json(const ProcessRecord& record) {
  json result = to_json(record.result);
  if (!record.activity.is_null()) result["activity"] = record.activity;
  if (record.retries > 0) result["retries"] = record.retries;
  return {{"cell", record.cell},
          {"process", record.process},
          {"result", result},
          {"wall_seconds", record.wall_seconds},
          {"load_average", {record.load_before, record.load_after}}};
}

std::string sealed_line(const std::string& line) {
  if (line.empty() || line.back() != '}') return line;
  return line.substr(0, line.size() - 1) + std::string(kSealBegin) +
         sha256_hex(line.data(), line.size()).substr(0, kSealDigits) + std::string(kSealEnd);
}

void JournalContent::add(const ProcessRecord& record) {
  if (std::find(run_order.begin(), run_order.end(), record.cell) == run_order.end()) {
    run_order.push_back(record.cell);
  }
  processes[{record.cell, record.process}] = record;
}

Journal::Journal(std::filesystem::path file, bool resume) : file_(std::move(file)) {
  open_locked();
  struct stat status {};
  if (!resume && ::fstat(descriptor_, &status) == 0 && status.st_size > 0) {
    move_aside();
    open_locked();
  }
  if (!resume) return;
  try {
    load();
  } catch (...) {
    ::close(descriptor_);  // no destructor runs for what was never whole
    throw;
  }
}

Journal::~Journal() {
  if (descriptor_ >= 0) ::close(descriptor_);  // and with it the lock
}

void Journal::open_locked() {
  while (true) {
    descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (descriptor_ < 0) {
      throw OutputError("cannot write " + file_.string() + ": " + std::strerror(errno));
    }
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      ::close(descriptor_);
      descriptor_ = -1;
      throw OutputError(error == EWOULDBLOCK
                            ? file_.string() +
                                  " is in use by another run; wait for it, or choose "
                                  "another folder with --out"
                            : "cannot lock " + file_.string() + ": " + std::strerror(error));
    }
    // Another run may have renamed the file between open and flock.
    struct stat by_name {};
    struct stat by_descriptor {};
    if (::stat(file_.c_str(), &by_name) == 0 && ::fstat(descriptor_, &by_descriptor) == 0 &&
        by_name.st_ino == by_descriptor.st_ino && by_name.st_dev == by_descriptor.st_dev) {
      return;
    }
    ::close(descriptor_);
    descriptor_ = -1;
  }
}

void Journal::move_aside() {
  // experiment.journal.jsonl -> experiment.journal.20260131T120000Z.jsonl
  const auto stem = file_.parent_path() / file_.stem();
  std::filesystem::path target;
  for (int attempt = 0; attempt == 0 || std::filesystem::exists(target); ++attempt) {
    const std::string suffix = attempt == 0 ? "" : "-" + std::to_string(attempt);
    target = stem.string() + "." + time_stamp() + suffix + file_.extension().string();
  }
  if (::rename(file_.c_str(), target.c_str()) != 0) {
    throw OutputError("cannot move the earlier journal to " + target.string() + ": " +
                      std::strerror(errno));
  }
  ::close(descriptor_);
  descriptor_ = -1;
}

void Journal::load() {
  std::string text;
  std::array<char, 65536> buffer{};
  for (off_t offset = 0;;) {
    const auto count = ::pread(descriptor_, buffer.data(), buffer.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw OutputError("cannot read " + file_.string() + ": " + std::strerror(errno));
    }
    if (count == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
    offset += count;
  }
  std::size_t begin = 0;
  for (std::size_t number = 1; begin < text.size(); ++number) {
    const auto line_break = text.find('\n', begin);
    const bool last = line_break == std::string::npos || line_break + 1 == text.size();
    const auto drop = [&](const std::string& why) {
      damage_ = file_.string() + ":" + std::to_string(number) +
                ": the last line of the journal is damaged (" + why +
                "), not merely cut short; it is dropped, and its work is done again";
    };
    if (line_break == std::string::npos) {
      if (const std::string why = why_not_cut_short(text.substr(begin)); !why.empty()) drop(why);
      break;
    }
    try {
      read_line(text.substr(begin, line_break - begin), content_);
    } catch (const InputError& error) {
      throw InputError(file_.string() + ":" + std::to_string(number) + ": " + error.what() +
                       "; start over without --resume");
    } catch (const Damage& error) {
      if (last) {
        drop(error.what());
        break;
      }
      throw InputError(file_.string() + ":" + std::to_string(number) +
                       ": this line of the journal is damaged (" + error.what() +
                       "); start over without --resume");
    }
    begin = line_break + 1;
  }
  if (begin < text.size() && ::ftruncate(descriptor_, static_cast<off_t>(begin)) != 0) {
    throw OutputError("cannot drop the torn last line of " + file_.string() + ": " +
                      std::strerror(errno));
  }
}

void Journal::append_line(const json& line) {
  const std::string text = sealed_line(to_line(line)) + "\n";
  const off_t before = ::lseek(descriptor_, 0, SEEK_END);
  std::size_t done = 0;
  while (done < text.size()) {
    const auto count = ::write(descriptor_, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    done += static_cast<std::size_t>(count);
  }
  if (done < text.size() || ::fdatasync(descriptor_) != 0) {
    const int error = errno;
    [[maybe_unused]] const int ignored = ::ftruncate(descriptor_, before);
    throw OutputError("cannot write " + file_.string() + ": " + std::strerror(error) +
                      "; everything finished before is kept, continue with --resume");
  }
}

void Journal::write_header(const std::string& started, const json& identity) {
  append_line({{"journal", kJournalVersion}, {"started", started}, {"identity", identity}});
  content_.header = presentable({{"started", started}, {"identity", identity}});
}

void Journal::append(const ProcessRecord& record) {
  const json line = presentable(to_json(record));
  append_line(line);
  content_.add(process_from_json(line));  // as a resumed run would read it
}

void Journal::append_dataset(const std::string& label, const json& dataset) {
  append_line({{"dataset", label}, {"description", dataset}});
  content_.datasets[label] = presentable(dataset);
}

void Journal::append(Part part, const std::string& name, const json& result) {
  append_line({{to_string(part), name}, {"result", result}});
  auto& known = part == Part::trace   ? content_.traces
                : part == Part::study ? content_.studies
                                      : content_.fits;
  known[name] = presentable(result);
}

std::vector<std::string> identity_differences(const json& before, const json& now) {
  std::set<std::string> names;
  for (const auto& item : before.items()) names.insert(item.key());
  for (const auto& item : now.items()) names.insert(item.key());
  std::vector<std::string> differences;
  for (const auto& name : names) {
    const json was = before.contains(name) ? before.at(name) : json();
    const json is = now.contains(name) ? now.at(name) : json();
    if (was != is) {
      differences.push_back(name + " was " + to_line(was) + ", is " + to_line(is));
    }
  }
  return differences;
}

}  // namespace kmeans
