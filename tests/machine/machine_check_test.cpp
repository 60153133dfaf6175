// SPDX-License-Identifier: Apache-2.0
//
// Made-up /proc and /sys trees, a made-up driver library, and the real machine with a busy
// neighbour.
#include "harness/machine/machine_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "harness/machine/machine.h"
#include "harness/support/json_file.h"
#include "tests/support/scoped.h"

namespace kmeans {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using State = Condition::State;

class MachineCheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    scope_.root = folder_.string();
    scope_.cpus = {0, 1};
    scope_.threads = 2;
    scope_.instructions = "avx512";
    scope_.openblas_core = "SkylakeX";
    quiet_tree();
  }
  void write(const std::string& path, const std::string& text) const {
    const auto file = folder_ / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::trunc) << text;
  }

  /// Of two CPUs, in ticks since the start; a third one is not this process's.
  void cpu_ticks(long busy, long idle, long stolen) const {
    std::string text = "cpu  1 1 1 1 1 1 1 1 0 0\n";
    for (const char* name : {"cpu0", "cpu1"}) {
      text += std::string(name) + " " + std::to_string(busy) + " 0 0 " + std::to_string(idle) +
              " 0 0 0 " + std::to_string(stolen) + " 0 0\n";
    }
    text += "cpu2 " + std::to_string(99 * busy) + " 0 0 0 0 0 0 0 0 0\nctxt 5\n";
    write("proc/stat", text);
  }

  void process_ticks(int number, long ticks) const {
    write("proc/" + std::to_string(number) + "/stat",
          std::to_string(number) + " (a) b (c) R 1 1 1 0 -1 4194304 1 2 3 4 " +
              std::to_string(ticks) + " 0 0 0 20 0 1 0 100\n");
  }

  void quiet_tree() const {
    cpu_ticks(1000, 9000, 0);
    write("proc/self/stat", "4711 (kmeans-bench) S 1\n");
    process_ticks(4711, 50);
    process_ticks(12, 300);
    process_ticks(13, 300);
    write("proc/loadavg", "0.10 0.20 0.30 1/100 5\n");
    for (const char* resource : {"cpu", "memory", "io"}) {
      write(std::string("proc/pressure/") + resource,
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n"
            "full avg10=0.00 avg60=0.00 avg300=0.00 total=9\n");
    }
    write("proc/vmstat", "pswpin 7\npswpout 5\n");
    write("proc/meminfo",
          "MemTotal: 1000000 kB\nMemFree: 1 kB\nMemAvailable: 500000 kB\n"
          "SwapTotal: 2048 kB\nSwapFree: 2048 kB\n");
    write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    write("proc/self/cgroup", "0::/jobs/one\n");
    write("proc/sys/kernel/numa_balancing", "1\n");
    write("sys/fs/cgroup/jobs/cpu.max", "max 100000\n");
    write("sys/fs/cgroup/jobs/cpu.stat", "usage_usec 5\nnr_throttled 3\nthrottled_usec 1000000\n");
    for (const std::string cpu : {"cpu0", "cpu1"}) {
      const std::string at = "sys/devices/system/cpu/" + cpu + "/";
      write(at + "cpufreq/scaling_governor", "performance\n");
      write(at + "cpufreq/scaling_max_freq", "3000000\n");
      write(at + "cpufreq/cpuinfo_max_freq", "3000000\n");
      write(at + "thermal_throttle/core_throttle_count", "2\n");
      write(at + "thermal_throttle/package_throttle_count", "5\n");
      write(at + "topology/physical_package_id", "0\n");
    }
    write("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0\n");
    write("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1\n");
    write("sys/devices/system/cpu/cpufreq/boost", "1\n");
    write("sys/devices/system/node/node0/cpulist", "0-2\n");
    write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    write("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
  }

  /// Looks, lets `change` happen within a second, and looks again.
  template <class Change>
  std::vector<Condition> watch(Change change) const {
    const MachineWatch watch(scope_);
    change();
    return watch.conditions(1);
  }
  [[nodiscard]] std::vector<Condition> watch() const {
    return watch([] {});
  }

  static Condition find(const std::vector<Condition>& conditions, const std::string& check) {
    for (const auto& condition : conditions) {
      if (condition.check == check) return condition;
    }
    ADD_FAILURE() << "no condition " << check;
    return {};
  }

  /// Exactly this one is doubtful, and says so.
  static void expect_doubt(const std::vector<Condition>& conditions, const std::string& check,
                           const std::string& text) {
    const auto found = find(conditions, check);
    EXPECT_EQ(found.state, State::doubtful) << found.check << ": " << found.detail;
    EXPECT_THAT(found.detail, HasSubstr(text));
    EXPECT_EQ(doubtful(conditions).size(), 1U) << to_json(conditions).dump(1);
  }

  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  CheckScope scope_;
};

TEST_F(MachineCheckTest, AQuietMachineIsGood) {
  const auto conditions = watch([&] { cpu_ticks(1002, 9098, 0); });
  for (const auto& condition : conditions) {
    EXPECT_EQ(condition.state, State::good) << condition.check << ": " << condition.detail;
    EXPECT_THAT(check_names(), Contains(condition.check));
  }
  EXPECT_EQ(find(conditions, "cpu_use").detail, "others used 0.04 of 2 CPUs");
  EXPECT_EQ(find(conditions, "thermal").detail, "not throttled now; 9 events since the start");
  EXPECT_EQ(find(conditions, "huge_pages").detail, "madvise");
  EXPECT_THAT(doubtful(conditions), IsEmpty());
}

TEST_F(MachineCheckTest, OpenBlasKernelsOfAnOlderProcessorAreDoubted) {
  EXPECT_EQ(find(watch(), "openblas").detail, "kernels of SkylakeX");
  for (const char* old : {"Prescott", "Nehalem"}) {
    scope_.openblas_core = old;
    expect_doubt(watch(), "openblas", std::string("kernels of a ") + old + ", without AVX");
  }
  scope_.instructions = "sse2";
  EXPECT_EQ(find(watch(), "openblas").state, State::good) << "they are its own";
  scope_.openblas_core.clear();
  EXPECT_EQ(find(watch(), "openblas").state, State::unknown);
}

TEST_F(MachineCheckTest, OthersAtWorkAreCountedAndNotNamed) {
  const auto conditions = watch([&] {
    cpu_ticks(1060, 9040, 0);
    process_ticks(12, 380);
    process_ticks(13, 304);
    process_ticks(14, 40);    // began meanwhile
    process_ticks(4711, 99);  // this very process
  });
  expect_doubt(conditions, "cpu_use", "others used 1.20 of 2 CPUs (2 processes in sight");
  EXPECT_THAT(to_json(conditions).dump(), Not(HasSubstr("(c)")));
}

TEST_F(MachineCheckTest, LoadOfWorkThatHasEndedIsNotADoubt) {
  write("proc/loadavg", "7.50 0.20 0.30 1/100 5\n");
  const auto quiet = watch([&] { cpu_ticks(1000, 9100, 0); });
  EXPECT_EQ(find(quiet, "load").state, State::good);
  EXPECT_THAT(find(quiet, "load").detail, HasSubstr("has ended"));
  const auto busy = watch([&] { cpu_ticks(1100, 9100, 0); });
  EXPECT_EQ(find(busy, "load").state, State::doubtful);
  // Without the counters it is all there is.
  write("proc/stat", "cpu  0 0 0 0\n");
  EXPECT_EQ(find(watch(), "cpu_use").state, State::unknown);
  EXPECT_EQ(find(watch(), "load").state, State::doubtful);
}

TEST_F(MachineCheckTest, StallsAreMeasuredWhileWatching) {
  const auto stall = [](const std::string& microseconds) {
    return "some avg10=99.00 avg60=0.00 avg300=0.00 total=" + microseconds + "\n";
  };
  expect_doubt(watch([&] { write("proc/pressure/cpu", stall("1200000")); }), "cpu_pressure",
               "waited for a CPU during 20 % of the time");
  quiet_tree();
  expect_doubt(watch([&] { write("proc/pressure/io", stall("1500000")); }), "io_pressure",
               "waited for a disk during 50 % of the time");
  quiet_tree();
  expect_doubt(watch([&] { write("proc/pressure/memory", stall("1030000")); }), "memory",
               "waited for memory during 3 % of the time");
  quiet_tree();
  expect_doubt(watch([&] { write("proc/vmstat", "pswpin 7\npswpout 105\n"); }), "memory",
               "100 pages were swapped");
}

TEST_F(MachineCheckTest, ScarceMemoryIsDoubtful) {
  write("proc/meminfo",
        "MemTotal: 1000000 kB\nMemAvailable: 20000 kB\nSwapTotal: 4096 kB\nSwapFree: 2048 kB\n");
  expect_doubt(watch(), "memory", "only 2.0 % of it is available, 2 MiB of swap in use");
}

TEST_F(MachineCheckTest, StolenTimeIsDoubtfulNowAndInTheLongRun) {
  expect_doubt(watch([&] { cpu_ticks(1004, 9094, 2); }), "steal", "withheld 0.04 s, 33 %");
  cpu_ticks(1000, 9000, 100);
  expect_doubt(watch(), "steal", "withheld 9.1 % of the processor time wanted since the start");
}

TEST_F(MachineCheckTest, HeatAndQuotaAreCountedWhileWatching) {
  expect_doubt(watch([&] {
                 write("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "4");
               }),
               "thermal", "because of heat 2 times");
  quiet_tree();
  expect_doubt(
      watch([&] { write("sys/fs/cgroup/jobs/cpu.stat", "nr_throttled 9\nthrottled_usec 2\n"); }),
      "cpu_quota", "used up 6 times");
  quiet_tree();
  write("sys/fs/cgroup/jobs/cpu.max", "150000 100000\n");
  expect_doubt(watch(), "cpu_quota", "a quota of 1.50 CPUs for 2 threads, used up 3 times so far");
  scope_.threads = 1;
  EXPECT_EQ(find(watch(), "cpu_quota").state, State::good);
}

TEST_F(MachineCheckTest, QuotasOfVersion1AreCounted) {
  write("proc/self/mountinfo",
        "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n");
  write("proc/self/cgroup", "2:cpu,cpuacct:/box\n1:name=systemd:/\n");
  write("sys/fs/cgroup/cpu,cpuacct/box/cpu.stat",
        "nr_periods 9\nnr_throttled 4\nthrottled_time 500000000\n");
  const auto activity = read_activity(scope_);
  EXPECT_EQ(activity.quota_throttles, 4);
  EXPECT_EQ(activity.quota_seconds, 0.5);
}

TEST_F(MachineCheckTest, SettingsThatSpoil) {
  write("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
  expect_doubt(watch(), "governor", "performance on 1 CPU, powersave on 1 CPU");
  quiet_tree();
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "1500000\n");
  expect_doubt(watch(), "clock_limit", "1 CPU is held to 50 %");
  write("sys/devices/system/cpu/cpufreq/boost", "0\n");  // then that is what is meant
  EXPECT_EQ(find(watch(), "clock_limit").state, State::good);
  quiet_tree();
  write("sys/devices/system/node/node1/cpulist", "3\n");
  expect_doubt(watch(), "numa_balancing", "on, with 2 memory nodes");
  write("proc/sys/kernel/numa_balancing", "0\n");
  EXPECT_EQ(find(watch(), "numa_balancing").detail, "off");
  write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  expect_doubt(watch(), "huge_pages", "never given");
  quiet_tree();
  fs::remove_all(folder_ / "sys/devices/system/node/node1");
  write("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
  expect_doubt(watch(), "clock_source", "tsc would be right");
}

TEST_F(MachineCheckTest, BoostIsToldInBothSpellings) {
  EXPECT_THAT(find(watch(), "boost").detail, HasSubstr("on"));
  fs::remove(folder_ / "sys/devices/system/cpu/cpufreq/boost");
  EXPECT_EQ(find(watch(), "boost").state, State::unknown);
  write("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
  EXPECT_EQ(find(watch(), "boost").detail, "off");
}

TEST_F(MachineCheckTest, ThreadsThatShareACoreAreDoubtful) {
  for (const char* cpu : {"cpu0", "cpu1"}) {
    write(std::string("sys/devices/system/cpu/") + cpu + "/topology/thread_siblings_list", "0-1\n");
  }
  expect_doubt(watch(), "smt", "2 threads on 1 core: some threads share a core; '--threads 1'");
  scope_.threads = 1;
  EXPECT_EQ(find(watch(), "smt").detail, "1 thread on 1 core");
  for (const std::string cpu : {"0", "1"}) {
    write("sys/devices/system/cpu/cpu" + cpu + "/topology/thread_siblings_list",
          cpu + "," + std::to_string(std::stoi(cpu) + 2) + "\n");
  }
  scope_.threads = 2;
  EXPECT_EQ(find(watch(), "smt").state, State::good);
  EXPECT_THAT(find(watch(), "smt").detail, HasSubstr("other hardware threads of 2 CPUs"));
}

TEST_F(MachineCheckTest, WhatIsNotToldIsUnknown) {
  fs::remove_all(folder_ / "proc");
  fs::remove_all(folder_ / "sys");
  fs::create_directories(folder_ / "proc");
  scope_.openblas_core.clear();
  const std::set<std::string> harmless{"cpu_quota"};  // no control groups: no quota
  for (const auto& condition : watch()) {
    if (harmless.count(condition.check) != 0) continue;
    EXPECT_EQ(condition.state, State::unknown) << condition.check << ": " << condition.detail;
    EXPECT_FALSE(condition.detail.empty());
  }
  write("proc/stat", "cpu0 x y z\ncpu\xff 1 2\n");
  write("proc/loadavg", "\n");
  write("proc/pressure/cpu", "some total\n");
  write("proc/meminfo", "MemTotal:\n");
  write("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "5-\n");
  EXPECT_THAT(doubtful(watch()), IsEmpty());
}

TEST_F(MachineCheckTest, ATooShortLookSaysSo) {
  const MachineWatch watch(scope_);
  cpu_ticks(2000, 9000, 0);
  const auto conditions = watch.conditions(0.001);
  EXPECT_EQ(find(conditions, "cpu_use").state, State::unknown);
  EXPECT_EQ(find(conditions, "cpu_pressure").state, State::unknown);
  EXPECT_EQ(find(conditions, "governor").state, State::good);
}

TEST_F(MachineCheckTest, AcceptedDoubtsAreLeftOut) {
  write("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
  EXPECT_THAT(doubtful(watch()), ElementsAre(HasSubstr("governor: ")));
  EXPECT_THAT(doubtful(watch(), {"governor"}), IsEmpty());
}

// ------------------------------------------------------------------------ around worker processes

json activity(double seconds, int threads, double others, double stolen) {
  return {{"seconds", seconds},
          {"threads", threads},
          {"cpus", 4},
          {"others_cpus", others},
          {"stolen_seconds", stolen},
          {"stolen_share", stolen / (seconds * threads)},
          {"heat_throttles", nullptr},
          {"quota_throttles", 0},
          {"quota_seconds", nullptr}};
}

TEST_F(MachineCheckTest, WorkersAreMetered) {
  const auto before = read_activity(scope_);
  cpu_ticks(1150, 9040, 10);
  write("sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "6\n");
  write("sys/fs/cgroup/jobs/cpu.stat", "nr_throttled 5\nthrottled_usec 1500000\n");
  const auto found = activity_between(before, read_activity(scope_), 2, 1, 2);
  EXPECT_DOUBLE_EQ(found.at("others_cpus"), 1.5);
  EXPECT_NEAR(found.at("stolen_seconds"), 0.2, 1e-9);
  EXPECT_NEAR(found.at("stolen_share"), 0.2 / 3.2, 1e-9);
  EXPECT_EQ(found.at("heat_throttles"), 1);
  EXPECT_EQ(found.at("quota_throttles"), 2);
  EXPECT_NEAR(found.at("quota_seconds"), 0.5, 1e-9);
  EXPECT_THAT(
      activity_doubts({found}),
      ElementsAre(HasSubstr("other processes used 1.50 of 2 CPUs while it ran with 1 thread"),
                  HasSubstr("withheld 6 %"), HasSubstr("quota was used up 2 times"),
                  HasSubstr("because of heat while it ran (1 events)")));
}

TEST_F(MachineCheckTest, WorkOnCpusThatACellLeavesFreeIsNotADoubt) {
  EXPECT_THAT(activity_doubts({activity(1, 1, 2.9, 0)}), IsEmpty());
  EXPECT_THAT(activity_doubts({activity(1, 1, 3.5, 0)}), ElementsAre(HasSubstr("3.50 of 4 CPUs")));
  EXPECT_THAT(activity_doubts({activity(1, 4, 0.1, 0)}), IsEmpty());
  EXPECT_THAT(activity_doubts({activity(1, 4, 0.1, 0), activity(1, 4, 0.5, 0)}),
              ElementsAre(HasSubstr("0.50 of 4 CPUs")));
  // Ticks of 10 ms say nothing about a blink; nor does a record without numbers.
  EXPECT_THAT(activity_doubts({activity(0.2, 4, 4, 0), json(), json::object()}), IsEmpty());
}

TEST_F(MachineCheckTest, ATickOfStolenTimeIsNotADoubt) {
  EXPECT_THAT(activity_doubts({activity(0.2, 1, 0, 0.02)}), IsEmpty());
  EXPECT_THAT(activity_doubts({activity(10, 1, 0, 0.3)}), IsEmpty());
  EXPECT_THAT(activity_doubts({activity(10, 1, 0, 1)}), ElementsAre(HasSubstr("withheld 10 %")));
}

// -------------------------------------------------------------------------------------------- GPUs

TEST_F(MachineCheckTest, AGpuIsJudgedByStateAndSettings) {
  json state{
      {"sm_mhz", 345},        {"max_sm_mhz", 1980},        {"power_limit_watts", 700.0},
      {"throttled", false},   {"temperature_celsius", 35}, {"utilisation_percent", 0},
      {"other_processes", 0}, {"ecc_uncorrected", 0},      {"throttle_reasons", {"gpu_idle"}}};
  json settings{
      {"default_power_limit_watts", 700.0}, {"persistence_mode", 1}, {"slowdown_celsius", 90}};
  for (const auto& condition : detail::gpu_conditions(state, settings)) {
    EXPECT_EQ(condition.state, State::good) << condition.check << ": " << condition.detail;
    EXPECT_THAT(check_names(), Contains(condition.check));
  }
  const auto worse = [&](json& object, const char* key, const json& value, const char* check,
                         const char* text) {
    const json kept = object.at(key);
    object[key] = value;
    expect_doubt(detail::gpu_conditions(state, settings), check, text);
    object[key] = nullptr;
    EXPECT_EQ(find(detail::gpu_conditions(state, settings), check).state, State::unknown) << key;
    object[key] = kept;
  };
  worse(state, "other_processes", 1, "gpu_processes", "1 other process has a context");
  worse(state, "utilisation_percent", 40, "gpu_use", "busy for 40 %");
  worse(state, "power_limit_watts", 500.0, "gpu_power_limit", "500 of 700 W");
  worse(state, "temperature_celsius", 82, "gpu_temperature", "slows down at 90");
  worse(state, "ecc_uncorrected", 3, "gpu_ecc", "3 uncorrectable memory errors");
  worse(settings, "persistence_mode", 0, "gpu_persistence", "off");
  state["throttled"] = true;
  state["throttle_reasons"] = {"sw_power_cap", "applications_clocks_setting"};
  expect_doubt(detail::gpu_conditions(state, settings), "gpu_throttle", "throttled (sw_power_cap)");
  EXPECT_THAT(find(detail::gpu_conditions(state, settings), "gpu_clocks").detail,
              HasSubstr("application clocks"));
  EXPECT_EQ(detail::gpu_conditions(nullptr, nullptr).size(), 1U);
  EXPECT_THAT(doubtful(detail::gpu_conditions(nullptr, nullptr)), IsEmpty());
}

// ------------------------------------------------------------------------------- the real machine

struct Outcome {
  int status = -1;
  std::string output;
};

/// Runs a shell command, standard error included.
Outcome shell(const std::string& command) {
  Outcome outcome;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  for (std::size_t count = 0; (count = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    outcome.output.append(buffer, count);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) outcome.status = WEXITSTATUS(status);
  return outcome;
}

/// Keeps every CPU busy while it lives.
class Neighbours {
 public:
  explicit Neighbours(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        while (true) asm volatile("");  // NOLINT(hicpp-no-assembler)
      }
      children_.push_back(child);
    }
  }
  ~Neighbours() {
    for (const pid_t child : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  }
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

 private:
  std::vector<pid_t> children_;
};

const std::string kProgram = KMEANS_BENCH_PROGRAM;

TEST_F(MachineCheckTest, ABusyNeighbourIsFoundOnThisMachine) {
  if (!read_activity(check_scope(1, json::object())).busy_seconds) {
    GTEST_SKIP() << "this system does not count processor time";
  }
  const Neighbours neighbours(allowed_cpus().size());
  const auto found = shell(kProgram + " machine --check --json --check-seconds 1 --strict");
  EXPECT_EQ(found.status, 3) << found.output;
  const json report = json::parse(found.output);
  EXPECT_GE(report.at("doubtful"), 1);
  std::string state;
  for (const auto& condition : report.at("conditions")) {
    if (condition.at("check") == "cpu_use") state = condition.at("state");
  }
  EXPECT_EQ(state, "doubtful") << found.output;
  // Looked at, told, and left to the user, unless the user insists.
  EXPECT_EQ(shell(kProgram + " machine --check --check-seconds 0.3").status, 0);
}

TEST_F(MachineCheckTest, ARunRefusesOrRecordsABusyNeighbour) {
  if (!read_activity(check_scope(1, json::object())).busy_seconds) {
    GTEST_SKIP() << "this system does not count processor time";
  }
  // A cell that wants every CPU: one thread among two CPUs can have its own whatever others do.
  write("tiny.json", R"({"name": "tiny", "title": "Tiny", "init": "first",
    "data": {"generator": "uniform", "seed": 1}, "variants": ["openmp_simd"],
    "scales": {"quick": {"sweep": {"n": [100], "d": [2], "k": [2]}, "iterations": 2,
                         "processes": 1, "repetitions": 1, "min_seconds": 0.5}}})");
  const std::string run = kProgram + " run " + (folder_ / "tiny.json").string() + " --out " +
                          (folder_ / "out").string();
  const Neighbours neighbours(allowed_cpus().size());
  const auto refused = shell(run + " --require-quiet --check-seconds 1");
  EXPECT_EQ(refused.status, 3) << refused.output;
  EXPECT_THAT(refused.output, AllOf(HasSubstr("not fit for measuring now"), HasSubstr("cpu_use: "),
                                    HasSubstr("--accept")));
  EXPECT_FALSE(fs::exists(folder_ / "out/tiny.json"));
  const auto measured = shell(run);
  EXPECT_EQ(measured.status, 0) << measured.output;
  EXPECT_THAT(measured.output, HasSubstr("warning: cpu_use: others used"));
  const json result = read_json_file(folder_ / "out/tiny.json");
  const json& conditions = result.at("context").at("conditions");
  ASSERT_FALSE(conditions.empty());
  EXPECT_EQ(conditions.at(0).at("check"), "cpu_use");
  EXPECT_EQ(conditions.at(0).at("state"), "doubtful");
  // And what happened while the worker ran; where a quota or a host leaves hardly anything to share, that.
  EXPECT_THAT(result.at("cells").at(0).at("noted").dump(),
              AnyOf(HasSubstr("other processes used"), HasSubstr("CPU quota was used up"),
                    HasSubstr("the host of this virtual machine withheld")));
}

TEST_F(MachineCheckTest, OnlyKnownChecksCanBeAccepted) {
  const auto refused = shell(kProgram + " machine --check --accept noise");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.output, HasSubstr("cpu_use"));
  EXPECT_EQ(shell(kProgram + " machine --strict").status, 2);
}

TEST(MachineCheckCode, KernelsThatTheDriverTranslatesAreDoubtful) {
  GpuDevice gpu;
  gpu.major = 9;
  gpu.minor = 0;
  const auto state = [&](std::vector<int> built_for, int ptx) {
    GpuStatus build;
    build.built_for = std::move(built_for);
    build.built_ptx = ptx;
    return detail::gpu_code(build, gpu).state;
  };
  EXPECT_EQ(state({75}, 75), State::doubtful);
  EXPECT_EQ(state({75, 90}, 75), State::good);
  gpu.minor = 3;  // code for 9.0 is its own
  EXPECT_EQ(state({90}, 90), State::good);
  gpu.major = 8;
  EXPECT_EQ(state({75, 80}, 80), State::good);
  EXPECT_EQ(state({75}, 75), State::doubtful);
}

TEST_F(MachineCheckTest, TheManualNamesEveryCheck) {
  std::ifstream stream(fs::path(KMEANS_SOURCE_DIR) / "docs/machine.md");
  const std::string manual{std::istreambuf_iterator<char>(stream),
                           std::istreambuf_iterator<char>()};
  for (const auto& name : check_names()) EXPECT_THAT(manual, HasSubstr("`" + name + "`"));
}

// A driver library of our own, loaded as the real one would be.
constexpr const char* kFakeDriver = R"C(
typedef void* device;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char* uuid, device* d) { *d = (device)1; return uuid[0] != 'G'; }
int nvmlDeviceGetClockInfo(device d, unsigned type, unsigned* v) { *v = 1000 + type; return 0; }
int nvmlDeviceGetMaxClockInfo(device d, unsigned type, unsigned* v) { *v = 1980; return 0; }
int nvmlDeviceGetPowerUsage(device d, unsigned* v) { *v = 80000; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(device d, unsigned* v) { *v = 400000; return 0; }
int nvmlDeviceGetPowerManagementDefaultLimit(device d, unsigned* v) { *v = 700000; return 0; }
int nvmlDeviceGetTemperature(device d, unsigned sensor, unsigned* v) { *v = 84; return 0; }
int nvmlDeviceGetTemperatureThreshold(device d, unsigned type, unsigned* v) {
  *v = type == 1 ? 90 : 0;
  return 0;
}
int nvmlDeviceGetPersistenceMode(device d, unsigned* v) { *v = 0; return 0; }
int nvmlDeviceGetCurrentClocksEventReasons(device d, unsigned long long* v) { *v = 4; return 0; }
)C";

TEST_F(MachineCheckTest, TheDriverIsAskedThroughItsLibrary) {
  write("nvml.c", kFakeDriver);
  const std::string library = (folder_ / "libnvidia-ml.so.1").string();
  const auto built =
      shell("c++ -x c -shared -fPIC -o " + library + " " + (folder_ / "nvml.c").string());
  if (built.status != 0) GTEST_SKIP() << "no compiler: " << built.output;
  write(
      "bin/nvidia-smi",
      "#!/bin/sh\necho 'NVIDIA H200, GPU-01234567-89ab-cdef-0123-456789abcdef, 580.95.05, 143771, "
      "9.0, 1980, 3201, 400.00, Enabled, Disabled, Disabled'\n");
  fs::permissions(folder_ / "bin/nvidia-smi", fs::perms::owner_all);
  const auto found =
      shell("PATH=" + (folder_ / "bin").string() + ":$PATH LD_LIBRARY_PATH=" + folder_.string() +
            " CUDA_VISIBLE_DEVICES= " + kProgram + " machine --check --json --check-seconds 0");
  ASSERT_EQ(found.status, 0) << found.output;
  std::map<std::string, std::string> states;
  std::map<std::string, std::string> details;
  const json report = json::parse(found.output);
  for (const auto& condition : report.at("conditions")) {
    states[condition.at("check")] = condition.at("state");
    details[condition.at("check")] = condition.at("detail");
  }
  EXPECT_EQ(states["gpu_power_limit"], "doubtful");
  EXPECT_THAT(details["gpu_power_limit"], HasSubstr("400 of 700 W"));
  EXPECT_EQ(states["gpu_temperature"], "doubtful");
  EXPECT_EQ(states["gpu_persistence"], "doubtful");
  EXPECT_THAT(details["gpu_throttle"], HasSubstr("throttled (sw_power_cap)"));
  EXPECT_EQ(states["gpu_use"], "unknown");
  EXPECT_EQ(states["gpu_ecc"], "unknown");
}

}  // namespace
}  // namespace kmeans
