// SPDX-License-Identifier: Apache-2.0
#include "harness/compare/interleave.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/machine_process.h"
#include "harness/support/process.h"
#include "harness/support/progress_line.h"
#include "harness/support/spawn.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

// Fewer cannot show anything, by any of the tests.
constexpr int kFirstRounds = 5;
constexpr double kLooksGrow = 1.4;
// The most that `run --processes` takes.
constexpr int kMaxRounds = 1000;
// A difference that ends the measurement has to be found again at the next look, and at this share
// of the rate of false discoveries: each look gives chance another chance
// (tests/compare/interleave_test.cpp has how many).
constexpr int kLooksToBelieve = 2;
constexpr double kRateOfALook = 0.5;
constexpr std::size_t kReportedLog = 600;

/// What one side knows of a cell.
struct CellOnSide {
  bool stopped = false;  ///< Wrong, skipped or broken: it runs no more.
  std::vector<std::vector<double>> samples;
};

/// A program that runs one process at a time when asked to.
class Side {
 public:
  Side(const char* name, std::string program, std::string plugin,
       const InterleaveSettings& settings, const std::string& session)
      : name_(name),
        program_(std::move(program)),
        plugin_(std::move(plugin)),
        log_(settings.out / (name_ + ".log")) {
    if (!std::filesystem::is_regular_file(program_)) {
      throw InputError("--run: there is no program " + valid_utf8(program_) + " for " + name_ +
                       "; name two builds of kmeans-bench and an experiment");
    }
    start(arguments(settings, session));
    hear_hello();
  }

  ~Side() {
    if (to_ >= 0) ::close(to_);
    if (from_ >= 0) ::close(from_);
    if (process_ > 0) {
      ::kill(process_, SIGTERM);
      wait();
    }
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  [[nodiscard]] const std::map<std::string, CellOnSide>& cells() const { return cells_; }

  /// One more process of a cell. False when interrupted.
  bool take_turn(const std::string& key) {
    say(json(key).dump());
    const auto answer = hear();
    if (!answer) return false;
    learn(*answer);
    return true;
  }

  /// Lets it write its results. Throws unless it could.
  void finish() {
    say("\"\"");
    ::close(std::exchange(to_, -1));
    while (read_some()) continue;
    const int status = wait();
    const bool ended = WIFEXITED(status);
    const int code = ended ? WEXITSTATUS(status) : -1;
    if (!ended || (code != kExitOk && code != kExitCellsFailed)) fail("ended too early");
  }

 private:
  std::vector<std::string> arguments(const InterleaveSettings& settings,
                                     const std::string& session) const {
    std::vector<std::string> list{program_,
                                  "run",
                                  settings.experiment,
                                  "--turns",
                                  session,
                                  "--scale",
                                  settings.scale,
                                  "--order-seed",
                                  std::to_string(settings.order_seed),
                                  "--processes",
                                  std::to_string(kMaxRounds),
                                  "--out",
                                  (settings.out / name_).string()};
    if (!plugin_.empty()) list.insert(list.end(), {"--plugin", plugin_});
    if (!settings.only.empty()) list.insert(list.end(), {"--only", settings.only});
    if (settings.threads > 0) {
      list.insert(list.end(), {"--threads", std::to_string(settings.threads)});
    }
    if (settings.resume) list.emplace_back("--resume");
    return list;
  }

  void start(const std::vector<std::string>& command) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    if (::pipe2(in.data(), O_CLOEXEC) != 0) throw EnvironmentError("cannot make a pipe");
    if (::pipe2(out.data(), O_CLOEXEC) != 0) {
      ::close(in[0]);
      ::close(in[1]);
      throw EnvironmentError("cannot make a pipe");
    }
    SpawnRequest request{.command = command, .input = in[0], .output = out[1]};
    request.errors = log_.string();
    const int failure = spawn(request, process_);
    ::close(in[0]);
    ::close(out[1]);
    to_ = in[1];
    from_ = out[0];
    if (failure != 0) {
      process_ = -1;
      throw InputError("--run: cannot start " + valid_utf8(program_) + ": " +
                       std::generic_category().message(failure));
    }
  }

  void hear_hello() {
    const auto hello = hear();
    if (!hello) return;
    const json version = hello->value("turns", json());
    if (version != kTurnsVersion) {
      throw InputError("--run: " + valid_utf8(program_) + " takes turns by version " +
                       version.dump() + ", this program by " + std::to_string(kTurnsVersion) +
                       "; build both sides from versions that fit");
    }
    for (const auto& cell : hello->at("cells")) learn(cell);
  }

  void learn(const json& cell) {
    CellOnSide& known = cells_[cell.at("key").get<std::string>()];
    known.stopped = cell.at("stopped").get<bool>();
    known.samples = cell.at("samples").get<std::vector<std::vector<double>>>();
  }

  void say(const std::string& line) const {
    const std::string text = line + "\n";
    std::size_t written = 0;
    while (written < text.size()) {
      const auto count = ::write(to_, text.data() + written, text.size() - written);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return;  // it is gone, which the answer shows
      written += static_cast<std::size_t>(count);
    }
  }

  /// The next line; absent when interrupted. Throws when the program has ended, or talks otherwise.
  std::optional<json> hear() {
    auto end = heard_.find('\n');
    while (end == std::string::npos) {
      if (!read_some()) {
        if (InterruptGuard::interrupted()) return std::nullopt;
        fail("ended too early");
      }
      end = heard_.find('\n');
    }
    const std::string line = heard_.substr(0, end);
    heard_.erase(0, end + 1);
    json value = json::parse(line, nullptr, false);
    if (!value.is_object()) fail("does not take turns");
    return value;
  }

  /// False at the end of its output, and when we are interrupted.
  bool read_some() {
    for (;;) {
      std::array<pollfd, 2> wanted{{{from_, POLLIN, 0}, {InterruptGuard::descriptor(), POLLIN, 0}}};
      if (::poll(wanted.data(), wanted.size(), -1) < 0 && errno != EINTR) return false;
      if (InterruptGuard::interrupted()) {
        ::kill(process_, SIGTERM);
        return false;
      }
      if (wanted[0].revents == 0) continue;
      std::array<char, 4096> buffer{};
      const auto count = ::read(from_, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      heard_.append(buffer.data(), static_cast<std::size_t>(count));
      return true;
    }
  }

  int wait() {
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) continue;
    process_ = -1;
    return status;
  }

  [[noreturn]] void fail(const std::string& what) const {
    std::ifstream stream(log_, std::ios::binary);
    const std::string log{std::istreambuf_iterator<char>(stream), {}};
    std::string sentence =
        "--run: " + valid_utf8(plugin_.empty() ? program_ : plugin_) + " (" + name_ + ") " + what;
    if (log.find("--turns") != std::string::npos) {
      sentence +=
          ": it knows no --turns, so it is older than this way to compare; measure the two "
          "with run, and compare the folders";
    } else if (!log.empty()) {
      sentence += ": " + readable_tail(log, kReportedLog);
    }
    throw InputError(sentence);
  }

  std::string name_;
  std::string program_;
  std::string plugin_;  // empty: none
  std::filesystem::path log_;
  pid_t process_ = -1;
  int to_ = -1;
  int from_ = -1;
  std::string heard_;
  std::map<std::string, CellOnSide> cells_;
};

/// A cell that both sides have, while it is measured.
struct SharedCell {
  std::string key;
  Looks looks;
  bool decided = false;
};

class Session {
 public:
  explicit Session(const InterleaveSettings& settings)
      : settings_(settings),
        order_(settings.order_seed),
        name_(new_name()),
        base_("base", settings.base_program, settings.base_plugin, settings, name_),
        changed_("new", settings.new_program, settings.new_plugin, settings, name_),
        end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(60 * settings.minutes))) {
    for (const auto& [key, cell] : base_.cells()) {
      if (changed_.cells().contains(key)) cells_.push_back({key, {}, false});
    }
  }

  bool run() {
    if (InterruptGuard::interrupted()) return false;
    if (cells_.empty()) throw InputError("--run: the two programs have no cell in common");
    if (!catch_up()) return false;
    int wanted = next_look();
    for (int round = 1; round <= kMaxRounds && anything_open() && !late(); ++round) {
      if (!take_round()) return false;
      if (round < wanted) continue;
      look(round);
      wanted = next_look(wanted);
    }
    base_.finish();
    changed_.finish();
    return !InterruptGuard::interrupted();
  }

 private:
  static std::string new_name() {
    static constexpr const char* kDigits = "0123456789abcdef";
    std::random_device device;
    std::string name;
    for (int i = 0; i < 16; ++i) name += kDigits[device() % 16];
    return name;
  }

  [[nodiscard]] bool late() const { return Clock::now() >= end_; }

  [[nodiscard]] bool anything_open() const {
    return std::any_of(cells_.begin(), cells_.end(),
                       [&](const SharedCell& cell) { return wants_more(cell); });
  }

  [[nodiscard]] bool wants_more(const SharedCell& cell) const {
    return !cell.decided && !base_.cells().at(cell.key).stopped &&
           !changed_.cells().at(cell.key).stopped;
  }

  /// What was broken off between the two processes of a pair left one side behind; the processes
  /// to come have to stand next to their partners.
  bool catch_up() {
    for (const auto& cell : cells_) {
      while (wants_more(cell)) {
        const std::size_t before = base_.cells().at(cell.key).samples.size();
        const std::size_t after = changed_.cells().at(cell.key).samples.size();
        if (before == after) break;
        if (!(before < after ? base_ : changed_).take_turn(cell.key)) return false;
      }
    }
    return true;
  }

  /// One process on both sides of every open cell, next to each other in time; which cell comes
  /// when, and which side goes first, is drawn.
  bool take_round() {
    std::vector<const SharedCell*> turn;
    for (const auto& cell : cells_) {
      if (wants_more(cell)) turn.push_back(&cell);
    }
    // std::shuffle differs from library to library, and the order has to be that of its seed.
    for (std::size_t i = turn.size(); i > 1; --i) std::swap(turn[i - 1], turn[order_() % i]);
    std::size_t done = 0;
    for (const auto* cell : turn) {
      if (late()) return true;
      const bool base_first = order_() % 2 == 0;
      if (progress_.rewrites()) {
        progress_.update(done, turn.size(), cell->key,
                         std::chrono::duration<double>(end_ - Clock::now()).count());
      }
      if (!(base_first ? base_ : changed_).take_turn(cell->key)) return false;
      if (!(base_first ? changed_ : base_).take_turn(cell->key)) return false;
      ++done;
    }
    return true;
  }

  void look(int round) {
    std::vector<SharedCell*> timed;
    std::vector<TimePair> pairs;
    for (auto& cell : cells_) {
      const auto& before = base_.cells().at(cell.key).samples;
      const auto& after = changed_.cells().at(cell.key).samples;
      if (before.empty() || after.empty()) continue;
      timed.push_back(&cell);
      pairs.push_back({before, after, true});
    }
    const auto verdicts = judge_times(pairs, settings_.compare);
    std::size_t open = 0;
    for (std::size_t i = 0; i < timed.size(); ++i) {
      timed[i]->decided = timed[i]->looks.decide(verdicts[i], settings_.compare);
      if (wants_more(*timed[i])) ++open;
    }
    const double left = std::chrono::duration<double>(end_ - Clock::now()).count();
    progress_.note(counted(round, "round", "rounds") + ": " + std::to_string(open) + " of " +
                   counted(cells_.size(), "cell", "cells") + " undecided, " +
                   format_duration(std::max(0.0, left)) + " left");
  }

  const InterleaveSettings& settings_;
  std::mt19937_64 order_;
  std::string name_;
  Side base_;
  Side changed_;
  Clock::time_point end_;
  std::vector<SharedCell> cells_;
  ProgressLine progress_{stderr};
};

/// Names of the variants that the program finds in a plugin.
std::set<std::string> variants_of(const std::string& program, const std::string& plugin) {
  constexpr double kTimeoutSeconds = 120;  // of `list`, which asks Python variants too
  if (!std::filesystem::is_regular_file(plugin)) {
    throw InputError("--plugin: there is no file " + valid_utf8(plugin) +
                     "; name two plugins and an experiment");
  }
  const ProcessOutput listed = capture_output({program, "list", "--json", "--plugin", plugin},
                                              changed_environment({}), kTimeoutSeconds);
  const json all = json::parse(listed.text, nullptr, false);
  std::set<std::string> names;
  if (!all.is_object()) {
    throw InputError("--plugin: " + valid_utf8(plugin) + " cannot be listed; `kmeans-bench list " +
                     "--plugin` says why");
  }
  for (const auto& variant : all.at("variants")) {
    if (variant.at("backend") != "plugin") continue;
    if (!variant.at("available").get<bool>()) {
      throw InputError("--plugin: " + valid_utf8(plugin) +
                       " is unavailable: " + variant.at("reason").get<std::string>());
    }
    names.insert(variant.at("name").get<std::string>());
  }
  return names;
}

/// A pattern for the cells of the variants that both plugins have.
std::string cells_of_plugins(const InterleaveSettings& settings) {
  const auto before = variants_of(settings.base_program, settings.base_plugin);
  const auto after = variants_of(settings.new_program, settings.new_plugin);
  const auto listed = [](const std::set<std::string>& names) {
    std::string text;
    for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
  };
  std::string common;
  for (const auto& name : before) {
    if (after.contains(name)) common += (common.empty() ? "" : "|") + name;
  }
  if (common.empty()) {
    throw InputError("--plugin: the two have no variant in common: base has " + listed(before) +
                     ", new has " + listed(after) +
                     "; a file that is no shared library gives its variant its own name, so two "
                     "versions of it belong in two folders");
  }
  return "^(" + common + ")/";
}

void refuse_to_overwrite(const InterleaveSettings& settings) {
  for (const char* side : {"base", "new"}) {
    const auto folder = settings.out / side;
    std::error_code error;
    const bool there =
        std::filesystem::exists(folder, error) && !std::filesystem::is_empty(folder, error);
    if (there && !settings.resume) {
      throw InputError("--run: " + folder.string() +
                       " holds results already; --resume goes on with them, or name another --out");
    }
  }
}

}  // namespace

int next_look(int last) {
  return last == 0 ? kFirstRounds : std::max(last + 1, static_cast<int>(kLooksGrow * last));
}

bool Looks::decide(const TimeVerdict& verdict, const CompareSettings& settings) {
  const double limit = 1 + settings.effect;
  const double rate = kRateOfALook * settings.false_discovery_rate;
  const bool sure = verdict.p_adjusted && *verdict.p_adjusted <= rate;
  const bool slower =
      verdict.verdict == CellVerdict::slower && verdict.low && *verdict.low >= limit;
  const bool faster = verdict.verdict == CellVerdict::faster;
  apart_ = sure && (slower || faster) ? apart_ + 1 : 0;
  const bool inside = verdict.high && *verdict.high <= limit;
  return (inside && !faster) || apart_ >= kLooksToBelieve;
}

bool measure_in_turns(const InterleaveSettings& settings) {
  refuse_to_overwrite(settings);
  std::error_code error;
  std::filesystem::create_directories(settings.out, error);
  if (error) {
    throw OutputError("cannot create the folder " + settings.out.string() + ": " + error.message());
  }
  if (settings.base_plugin.empty() || !settings.only.empty()) return Session(settings).run();
  InterleaveSettings of_plugins = settings;
  of_plugins.only = cells_of_plugins(settings);
  return Session(of_plugins).run();
}

}  // namespace kmeans
