// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include "harness/machine/ceilings.h"
#include "harness/machine/ceilings_kernels.h"
#include "harness/machine/environment.h"
#include "harness/machine/gpu.h"
#include "harness/machine/kept_ceilings.h"
#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/machine_process.h"
#include "tests/support/scoped.h"

namespace kmeans {
namespace {

namespace fs = std::filesystem;
using test::ScopedVariable;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class MachineTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    const auto file = folder_ / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  /// Makes `nvidia-smi` of this shell script, and the only programs to be found next to it sh's.
  void fake_nvidia_smi(const std::string& script) const {
    write("bin/nvidia-smi", "#!/bin/sh\n" + script);
    ASSERT_EQ(chmod((folder_ / "bin/nvidia-smi").c_str(), 0755), 0);
  }
  [[nodiscard]] std::string fake_path() const {
    return (folder_ / "bin").string() + ":/usr/bin:/bin";
  }

  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

// ---------------------------------------------------------------------------------------- the name

TEST_F(MachineTest, IdIsStableAndFitForAFolder) {
  const ScopedVariable unset("KMEANS_BENCH_MACHINE", std::nullopt);
  const auto id = machine_id();
  EXPECT_EQ(id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos) << id;
  EXPECT_NE(id.front(), '-') << id;
  EXPECT_LE(id.size(), 64U) << id;
  EXPECT_EQ(id, machine_id());
  EXPECT_EQ(id, machine_fingerprint().at("id").get<std::string>());
}

TEST_F(MachineTest, IdComesFromProcessorAndGpus) {
  using detail::compose_machine_id;
  EXPECT_EQ(compose_machine_id("Intel(R) Xeon(R) Processor", 2, "avx512", {}), "xeon-2core-avx512");
  EXPECT_EQ(compose_machine_id("AMD EPYC 9654 96-Core Processor", 96, "avx512",
                               {"NVIDIA H200", "NVIDIA H200"}),
            "epyc-9654-96core-avx512-2xh200");
  EXPECT_EQ(compose_machine_id("Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.00GHz", 16, "avx512",
                               {"NVIDIA H100 80GB HBM3"}),
            "xeon-platinum-8480-16core-avx512-h100-80gb-hbm3");
  EXPECT_EQ(compose_machine_id("13th Gen Intel(R) Core(TM) i7-13700K", 16, "avx2", {}),
            "core-i7-13700k-16core-avx2");
  EXPECT_EQ(compose_machine_id("../../etc \xff\n", 1, "", {"; rm -rf"}), "etc-1core-rm-rf");
  EXPECT_EQ(compose_machine_id("", 1, "", {""}), "cpu-1core-gpu");
  EXPECT_LE(compose_machine_id(std::string(500, 'x'), 1, "avx2", {}).size(), 64U);
}

TEST_F(MachineTest, IdCanBeGivenButNotAsAPath) {
  {
    const ScopedVariable given("KMEANS_BENCH_MACHINE", "lab-node-7");
    EXPECT_EQ(machine_id(), "lab-node-7");
  }
  for (const std::string bad : {"../x", "Upper", "-x", "a b", "a/b", "\xc3\xa4"}) {
    const ScopedVariable given("KMEANS_BENCH_MACHINE", bad);
    EXPECT_THROW(machine_id(), InputError) << bad;
  }
  const ScopedVariable too_long("KMEANS_BENCH_MACHINE", std::string(65, 'a'));
  EXPECT_THROW(machine_id(), InputError);
}

// --------------------------------------------------------------------------------- the fingerprint

TEST_F(MachineTest, FingerprintTellsWhatIsKnownEverywhere) {
  const auto machine = machine_fingerprint();
  const auto& cpu = machine["cpu"];
  EXPECT_GE(cpu["usable_threads"], 1);
  EXPECT_LE(cpu["usable_threads"], cpu["allowed_cpus"]);
  EXPECT_LE(cpu["allowed_cpus"], cpu["logical_cores"]);
  EXPECT_LE(cpu["physical_cores"], cpu["allowed_cpus"]);
  EXPECT_FALSE(cpu["model"].get<std::string>().empty());
  const auto& memory = machine["memory"];
  EXPECT_GT(memory["available_bytes"], 0);
  EXPECT_LE(memory["available_bytes"], memory["total_bytes"]);
  EXPECT_GE(memory["page_bytes"], 4096);
  EXPECT_THAT(machine["os"]["libc"].get<std::string>(), HasSubstr("glibc"));
  EXPECT_TRUE(machine["gpus"].is_array());
}

TEST_F(MachineTest, FingerprintNamesNeitherHostNorUserNorPaths) {
  const auto text = machine_fingerprint().dump();
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  // A name such as "xeon" or "debian" would be found for another reason.
  if (std::strlen(host) >= 8) {
    EXPECT_THAT(text, Not(HasSubstr(host)));
  }
  EXPECT_THAT(text, Not(HasSubstr("/home")));
  EXPECT_THAT(text, Not(HasSubstr("/usr")));
  EXPECT_THAT(text, Not(HasSubstr(KMEANS_SOURCE_DIR)));
}

TEST_F(MachineTest, HashIgnoresWhatChangesByItself) {
  const auto before = machine_fingerprint();
  auto after = before;
  after["cpu"]["current_mhz"] = 12345;
  after["memory"]["available_bytes"] = 1;
  EXPECT_EQ(fingerprint_hash(before), fingerprint_hash(after));
  after["cpu"]["microcode"] = "0xffff";
  EXPECT_NE(fingerprint_hash(before), fingerprint_hash(after));
  EXPECT_EQ(fingerprint_hash(before).size(), 16U);
  EXPECT_EQ(fingerprint_hash(before).find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST_F(MachineTest, ThreadsDoNotDependOnTheThreadThatAsks) {
  const int threads = usable_threads();
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(allowed_cpus().front(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(usable_threads(), threads);
    undo_thread_binding();
    cpu_set_t all;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    EXPECT_EQ(CPU_COUNT(&all), static_cast<int>(allowed_cpus().size()));
  }).join();
}

TEST_F(MachineTest, DenormalFlagsAreSeenAndUndone) {
#if defined(__x86_64__)
  std::thread([] {
    EXPECT_FALSE(denormal_mode().flush_to_zero);
    unsigned control = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(control | 0x8040U);
    EXPECT_TRUE(denormal_mode().flush_to_zero);
    EXPECT_TRUE(denormal_mode().denormals_are_zero);
    EXPECT_THAT(inspect_environment().warnings, Contains(HasSubstr("Denormal")));
    honour_denormals();
    EXPECT_EQ(__builtin_ia32_stmxcsr() & 0x8040U, 0U);
    volatile float tiny = 1e-39F;
    EXPECT_GT(tiny * 0.5F, 0.0F);
  }).join();
#endif
}

// ------------------------------------------------------------------------------------------- caches

TEST_F(MachineTest, ACacheWithoutASizeIsUnknownNotEmpty) {
  const std::string folder =
      "sys/devices/system/cpu/cpu" + std::to_string(allowed_cpus().front()) + "/cache/index";
  const auto write_cache = [&](int index, int level, const std::string& size) {
    const std::string at = folder + std::to_string(index) + "/";
    write(at + "level", std::to_string(level));
    write(at + "type", "Unified");
    if (size.empty()) {
      fs::remove(folder_ / (at + "size"));
    } else {
      write(at + "size", size);
    }
  };
  EXPECT_FALSE(data_caches(folder_).last_level_bytes);
  write_cache(0, 2, "512K");
  write_cache(1, 3, "16M");
  EXPECT_EQ(data_caches(folder_).last_level_bytes, 16 << 20);
  for (const char* none : {"0K", "", "garbage"}) {
    write_cache(1, 3, none);
    EXPECT_FALSE(data_caches(folder_).last_level_bytes) << none;
    EXPECT_EQ(data_caches(folder_).level2_bytes_per_thread, 512 << 10) << none;
  }
}

TEST(Ceilings, ARateThatMayBeACachesIsDoubted) {
  EXPECT_EQ(detail::doubt_about_array(256e6, 100'000'000), "");
  EXPECT_THAT(detail::doubt_about_array(256e6, 200'000'000), HasSubstr("less than twice"));
  EXPECT_THAT(
      detail::doubt_about_array(256 << 20, std::nullopt),
      HasSubstr("does not say how large the last-level cache is: if it is more than half of "
                "the array's 256 MiB"));
}

// ---------------------------------------------------------------------------------- control groups

TEST_F(MachineTest, ReadsControlGroupsOfVersion2) {
  write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n");
  write("proc/self/cgroup", "0::/outer/inner\n");
  write("sys/fs/cgroup/outer/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/outer/memory.max", "max\n");
  write("sys/fs/cgroup/outer/inner/memory.max", "1073741824\n");
  write("sys/fs/cgroup/outer/inner/memory.current", "1048576\n");
  const auto limits = cgroup_limits(folder_);
  EXPECT_EQ(limits.cpus, 1.5);
  EXPECT_EQ(limits.memory_bytes, 1073741824);
  EXPECT_EQ(limits.memory_used_bytes, 1048576);
}

TEST_F(MachineTest, ReadsControlGroupsOfVersion1) {
  write("proc/self/mountinfo",
        "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  write("proc/self/cgroup", "4:memory:/jobs/one\n2:cpu,cpuacct:/jobs\n1:name=systemd:/\n0::/\n");
  write("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us", "400000\n");
  write("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "2000000000\n");
  write("sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "500\n");
  const auto limits = cgroup_limits(folder_);
  EXPECT_EQ(limits.cpus, 4.0);
  EXPECT_EQ(limits.memory_bytes, 2000000000);
  EXPECT_EQ(limits.memory_used_bytes, 500);
}

TEST_F(MachineTest, ReadsTheGroupThatAContainerSees) {
  write("proc/self/mountinfo", "30 23 0:26 /box/7 /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n");
  write("proc/self/cgroup", "0::/box/7\n");
  write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(cgroup_limits(folder_).cpus, 2.0);
  write("proc/self/cgroup", "0::/../elsewhere\n");
  EXPECT_EQ(cgroup_limits(folder_).cpus, 2.0);
}

TEST_F(MachineTest, MissingAndMalformedControlGroupsAreNotALimit) {
  EXPECT_FALSE(cgroup_limits(folder_).cpus);
  write("proc/self/mountinfo", "garbage\n30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n");
  write("proc/self/cgroup", "garbage\n0::/a\n");
  for (const std::string text : {"", "max", "x y", "0 0", "-5 100000", "1 2 3", "100000"}) {
    write("cg/a/cpu.max", text);
    write("cg/a/memory.max", text.empty() ? "" : "x" + text);
    EXPECT_FALSE(cgroup_limits(folder_).cpus) << text;
    EXPECT_FALSE(cgroup_limits(folder_).memory_bytes) << text;
  }
}

// -------------------------------------------------------------------------------------------- GPUs

TEST_F(MachineTest, NoGpuToolMeansNoGpus) {
  const ScopedVariable path("PATH", (folder_ / "nothing").string());
  const auto query = query_gpus(600);
  EXPECT_TRUE(query.gpus.empty());
  EXPECT_EQ(query.problem, "");
}

TEST_F(MachineTest, OneGpuIsDescribed) {
  fake_nvidia_smi(
      "echo 'NVIDIA H200, GPU-01234567-89ab-cdef-0123-456789abcdef, 580.95.05, 143771, 9.0, 1980, "
      "3201, 700.00, Enabled, Disabled, Enabled'\n");
  const ScopedVariable path("PATH", fake_path());
  const ScopedVariable unset("KMEANS_BENCH_MACHINE", std::nullopt);
  const auto query = query_gpus(600);
  EXPECT_EQ(query.problem, "");
  ASSERT_EQ(query.gpus.size(), 1U);
  const auto& gpu = query.gpus[0];
  EXPECT_EQ(gpu["name"], "NVIDIA H200");
  EXPECT_EQ(gpu["driver"], "580.95.05");
  EXPECT_EQ(gpu["memory_bytes"], std::int64_t{143771} << 20);
  EXPECT_EQ(gpu["max_sm_mhz"], 1980);
  EXPECT_EQ(gpu["power_limit_watts"], 700.0);
  EXPECT_EQ(gpu["ecc"], "Enabled");
  EXPECT_EQ(gpu["mig"], "Disabled");
  EXPECT_TRUE(machine_id().ends_with("-h200")) << machine_id();
}

TEST_F(MachineTest, AnOldDriverIsAskedForLess) {
  fake_nvidia_smi(
      "case \"$*\" in *compute_cap*) echo 'Field \"compute_cap\" is not a valid field'; exit 2;; "
      "esac\n"
      "echo 'Tesla K80, GPU-1, 450.80.02, 11441'\n"
      "echo 'Tesla K80, GPU-2, 450.80.02, [N/A]'\n");
  const ScopedVariable path("PATH", fake_path());
  const auto query = query_gpus(600);
  EXPECT_EQ(query.problem, "");
  ASSERT_EQ(query.gpus.size(), 2U);
  EXPECT_TRUE(query.gpus[0]["compute_capability"].is_null());
  EXPECT_TRUE(query.gpus[1]["memory_bytes"].is_null());
}

TEST_F(MachineTest, GarbageFromTheGpuToolIsReportedNotBelieved) {
  const ScopedVariable path("PATH", fake_path());
  for (const std::string script :
       {"echo 'No devices were found'", "printf '\\377\\376, x, y\\n'", "head -c 3000000 /dev/zero",
        "echo ', , , , , , , , , , '", "echo 'NVIDIA-SMI has failed'; exit 9", "kill -SEGV $$"}) {
    fake_nvidia_smi(script + "\n");
    const auto query = query_gpus(600);
    EXPECT_TRUE(query.gpus.empty()) << script;
    EXPECT_THAT(query.problem, HasSubstr("nvidia-smi")) << script;
    EXPECT_NO_THROW(nlohmann::json(query.problem).dump());
  }
}

TEST_F(MachineTest, AHangingGpuToolIsKilledWithItsChildren) {
  fake_nvidia_smi("(sleep 600; true) &\nsleep 600\n");
  const ScopedVariable path("PATH", fake_path());
  const auto query = query_gpus(0.3);
  EXPECT_TRUE(query.gpus.empty());
  EXPECT_THAT(query.problem, HasSubstr("did not end within 1 s"));
  // Both shells have the script's name in their command line until the system has ended them.
  const auto alive = [&] {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::ifstream line(entry.path() / "cmdline");
      const std::string words{std::istreambuf_iterator<char>(line), {}};
      if (words.find((folder_ / "bin/nvidia-smi").string()) != std::string::npos) return true;
    }
    return false;
  };
  for (int look = 0; look < 600 && alive(); ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_FALSE(alive());
}

// ------------------------------------------------------------------------------------- environment

std::map<std::string, std::optional<std::string>> as_map(const EnvironmentChanges& changes) {
  return {changes.begin(), changes.end()};
}

TEST_F(MachineTest, CripplingVariablesAreFoundAndRemovedForWorkers) {
  const ScopedVariable core("OPENBLAS_CORETYPE", "Haswell");
  const ScopedVariable cache("OPENBLAS_L2_SIZE", "262144");
  const ScopedVariable bind("OMP_PROC_BIND", "true");
  const ScopedVariable limit("OMP_THREAD_LIMIT", "1000000");
  const auto report = inspect_environment();
  EXPECT_EQ(report.variables["OPENBLAS_CORETYPE"], "Haswell");
  EXPECT_THAT(report.crippling, Contains("OPENBLAS_CORETYPE"));
  EXPECT_THAT(report.crippling, Contains("OPENBLAS_L2_SIZE"));
  EXPECT_THAT(report.crippling, Contains("OMP_PROC_BIND"));
  EXPECT_THAT(report.crippling, Not(Contains("OMP_THREAD_LIMIT")));
  EXPECT_THAT(report.warnings, Contains(HasSubstr("OPENBLAS_CORETYPE=Haswell makes")));

  const auto changes = worker_environment(report, 2, false);
  const auto map = as_map(changes);
  ASSERT_TRUE(map.contains("OPENBLAS_CORETYPE"));
  EXPECT_EQ(map.at("OPENBLAS_CORETYPE"), std::nullopt);
  EXPECT_EQ(map.at("OPENBLAS_L2_SIZE"), std::nullopt);
  EXPECT_EQ(map.at("OMP_THREAD_LIMIT"), std::nullopt);
  EXPECT_EQ(map.at("OMP_NUM_THREADS"), "2");
  EXPECT_EQ(map.at("OPENBLAS_NUM_THREADS"), "2");
  const auto entries = changed_environment(changes);
  EXPECT_THAT(entries, Contains("OMP_NUM_THREADS=2"));
  EXPECT_THAT(entries, Not(Contains("OPENBLAS_CORETYPE=Haswell")));

  const auto context = environment_context(report, changes);
  EXPECT_THAT(context["neutralised"].dump(), HasSubstr("OPENBLAS_CORETYPE"));
  EXPECT_EQ(context["variables"]["OPENBLAS_CORETYPE"], "Haswell");
}

TEST_F(MachineTest, OpenMpThreadsSleepOnSharedCoresUnlessTheUserSaysHow) {
  const ScopedVariable policy("OMP_WAIT_POLICY", std::nullopt);
  const ScopedVariable count("GOMP_SPINCOUNT", std::nullopt);
  auto report = inspect_environment();
  EXPECT_EQ(suitable_waiting(report, false), "default");
  EXPECT_FALSE(as_map(worker_environment(report, 2, false)).contains("OMP_WAIT_POLICY"));
  report.waiting = suitable_waiting(report, true);
  EXPECT_EQ(report.waiting, "passive");
  for (const bool keep : {false, true}) {
    EXPECT_EQ(as_map(worker_environment(report, 2, keep)).at("OMP_WAIT_POLICY"), "passive");
  }
  EXPECT_EQ(environment_context(report, {})["openmp_waiting"], "passive");

  const ScopedVariable own("GOMP_SPINCOUNT", "77");
  report = inspect_environment();
  report.waiting = suitable_waiting(report, true);
  EXPECT_EQ(report.waiting, "set");
  const auto changes = worker_environment(report, 2, false);
  EXPECT_FALSE(as_map(changes).contains("OMP_WAIT_POLICY"));
  EXPECT_THAT(changed_environment(changes), Contains("GOMP_SPINCOUNT=77"));
  EXPECT_THAT(report.warnings, Contains(HasSubstr("GOMP_SPINCOUNT=77 changes how threads wait")));
}

TEST_F(MachineTest, UsersMayInsist) {
  const ScopedVariable core("OPENBLAS_CORETYPE", "Haswell");
  const ScopedVariable omp("OMP_NUM_THREADS", "1");
  const ScopedVariable blas("OPENBLAS_NUM_THREADS", std::nullopt);
  const auto report = inspect_environment();
  const auto changes = worker_environment(report, 3, true);
  const auto map = as_map(changes);
  EXPECT_FALSE(map.contains("OPENBLAS_CORETYPE"));
  EXPECT_FALSE(map.contains("OMP_NUM_THREADS"));
  EXPECT_EQ(map.at("OPENBLAS_NUM_THREADS"), "3");
  EXPECT_TRUE(environment_context(report, changes)["neutralised"].empty());
}

TEST_F(MachineTest, ThreadCountsAreJudgedByTheMachine) {
  const auto usable = usable_threads();
  const auto crippling_with = [](const std::string& value) {
    const ScopedVariable threads("OPENBLAS_NUM_THREADS", value);
    const auto report = inspect_environment();
    return std::count(report.crippling.begin(), report.crippling.end(), "OPENBLAS_NUM_THREADS");
  };
  EXPECT_EQ(crippling_with(std::to_string(usable)), 0);
  EXPECT_EQ(crippling_with(std::to_string(usable + 1)), 1);
  if (usable > 1) {
    EXPECT_EQ(crippling_with(std::to_string(usable - 1)), 1);
  }
  EXPECT_EQ(crippling_with("many"), 0);
}

TEST_F(MachineTest, OnlyListedVariablesAreRecordedAndNoFolders) {
  const ScopedVariable secret("KMEANS_BENCH_TOKEN", "hunter2");
  const ScopedVariable other("AWS_ACCESS_ID", "hunter3");
  const ScopedVariable cache("KMEANS_BENCH_CACHE", "/home/somebody/cache/");
  const ScopedVariable display("OMP_TOOL_LIBRARIES", "/home/somebody/lib/a.so:/opt/b.so");
  const ScopedVariable odd("OMP_ODD", "\xff");
  const auto report = inspect_environment();
  EXPECT_EQ(report.variables["KMEANS_BENCH_CACHE"], "cache");
  EXPECT_EQ(report.variables["OMP_TOOL_LIBRARIES"], "a.so:b.so");
  const auto text = environment_context(report, {}).dump();
  EXPECT_THAT(text, Not(HasSubstr("hunter")));
  EXPECT_THAT(text, Not(HasSubstr("somebody")));
}

// ---------------------------------------------------------------------------------------- ceilings

TEST_F(MachineTest, KernelsDoTheWorkThatIsCounted) {
  for (const auto& kernels : ceiling_kernels()) {
    // Every accumulator ends at 2 in every lane, and a round counts 2 operations for each of them.
    EXPECT_EQ(kernels.fma_f32(1000), kernels.flops_per_round_f32) << kernels.instructions;
    EXPECT_EQ(kernels.fma_f64(1000), kernels.flops_per_round_f64) << kernels.instructions;
    EXPECT_EQ(kernels.flops_per_round_f32, 2 * kernels.flops_per_round_f64);

    constexpr std::size_t kWords = 3 * kCeilingBlockBytes / sizeof(std::uint64_t);
    alignas(64) static std::uint64_t from[kWords];
    alignas(64) static std::uint64_t to[kWords];
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < kWords; ++i) all ^= from[i] = i * 0x9e3779b97f4a7c15U + 1;
    EXPECT_EQ(kernels.read(from, sizeof from), all) << kernels.instructions;
    EXPECT_EQ(kernels.read_streams(from, sizeof from), all) << kernels.instructions;
    for (const auto copy : {kernels.copy, kernels.copy_streaming}) {
      if (copy == nullptr) continue;
      std::fill(std::begin(to), std::end(to), 0);
      copy(to, from, sizeof from);
      EXPECT_TRUE(std::equal(std::begin(from), std::end(from), std::begin(to)))
          << kernels.instructions;
    }
  }
}

TEST_F(MachineTest, CeilingsArePossibleAndConsistent) {
  set_worker_program("");  // the matrix product has a test of its own
  const auto ceilings = measure_ceilings(0.15);
  const double read = ceilings["read_gbytes_per_second"];
  const double cache = ceilings["read_gbytes_per_second_cache"];
  const double copy = ceilings["copy_gbytes_per_second"];
  const auto& fma = ceilings["fma_gflops"];
  const int threads = ceilings["details"]["threads"];
  for (const double bandwidth : {read, copy}) {
    EXPECT_GT(bandwidth, 0);
    EXPECT_LT(bandwidth, 5000);  // GB/s, which no memory of today gives
  }
  // No core reads more than two 64-byte words, or does more than 128 operations in float32, per
  // cycle at 8 GHz.
  EXPECT_LT(cache, threads * 2 * 64 * 8.0);
  EXPECT_LT(fma["f32_one_thread"], 128 * 8.0);
  EXPECT_LT(fma["f32_all_threads"], threads * 128 * 8.0);
  EXPECT_GT(fma["f64_one_thread"], 0);
  EXPECT_GT(ceilings["timer"]["overhead_seconds"], 1e-9);  // some instructions
  EXPECT_TRUE(ceilings["gemm_gflops"]["f32"].is_null());
  EXPECT_THAT(ceilings["details"]["notes"].dump(), HasSubstr("no matrix product"));
}

TEST_F(MachineTest, CeilingsThatThereIsNoTimeForAreNull) {
  set_worker_program("");
  const auto ceilings = measure_ceilings(0.05, false, 1e-9);
  for (const char* rate :
       {"read_gbytes_per_second", "read_gbytes_per_second_cache", "copy_gbytes_per_second"}) {
    EXPECT_TRUE(ceilings[rate].is_null()) << rate;
  }
  for (const auto& [name, rate] : ceilings["fma_gflops"].items())
    EXPECT_TRUE(rate.is_null()) << name;
  EXPECT_THAT(ceilings["details"]["notes"].dump(), HasSubstr("no time left"));
}

TEST_F(MachineTest, CeilingsStandInSaneRelations) {
  if (build_info().build_type == "Debug" || !build_info().sanitizers.empty()) {
    GTEST_SKIP() << "the relations hold for optimised code only";
  }
  set_worker_program("");
  // Other work lowers single figures for moments: like the ceilings themselves, these are the best
  // of several attempts.
  std::map<std::string, double> best;
  const auto as_expected = [&] {
    return best["f32_one_thread"] >= 1.5 * best["f64_one_thread"] &&
           best["f32_all_threads"] >= 1.5 * best["f64_all_threads"] &&
           best["cache"] >= 0.9 * best["memory"];
  };
  for (int attempt = 0; attempt < 8 && (attempt == 0 || !as_expected()); ++attempt) {
    const auto ceilings = measure_ceilings(0.05);
    for (const auto& [name, rate] : ceilings["fma_gflops"].items()) {
      best[name] = std::max(best[name], rate.get<double>());
    }
    best["cache"] = std::max(best["cache"], ceilings["read_gbytes_per_second_cache"].get<double>());
    best["memory"] = std::max(best["memory"], ceilings["read_gbytes_per_second"].get<double>());
  }
  EXPECT_GE(best["f32_one_thread"], 1.5 * best["f64_one_thread"]);
  EXPECT_GE(best["f32_all_threads"], 1.5 * best["f64_all_threads"]);
  EXPECT_GE(best["f32_all_threads"], 0.9 * best["f32_one_thread"]);
  EXPECT_GE(best["f64_all_threads"], 0.9 * best["f64_one_thread"]);
  EXPECT_GE(best["cache"], 0.9 * best["memory"]);
}

#if defined(__x86_64__)
TEST_F(MachineTest, OpenBlasIsSeenWithoutCripplingVariables) {
  // Not Prescott, which a processor newer than OpenBLAS is taken for.
  const ScopedVariable core("OPENBLAS_CORETYPE", "Nehalem");
  const ScopedVariable threads("OPENBLAS_NUM_THREADS", "1");
  set_worker_program(KMEANS_BENCH_PROGRAM);
  const auto info = openblas_info();
  if (info.is_null()) GTEST_SKIP() << "no OpenBLAS here";
  EXPECT_NE(info["core"], "Nehalem");
  EXPECT_EQ(info["threads"], usable_threads());
}
#endif

/// Ceilings as they are kept, with a mark by which they are known again.
nlohmann::json some_ceilings() {
  return {{"read_gbytes_per_second", 12.5},
          {"read_gbytes_per_second_cache", 98.7},
          {"copy_gbytes_per_second", nullptr},
          {"fma_gflops", {{"f32_one_thread", 70.1}, {"f64_one_thread", 35}}},
          {"gemm_gflops", {{"f32", 120}, {"f64", nullptr}, {"library", "OpenBLAS 0.3.21"}}},
          {"timer", {{"resolution_seconds", 1e-9}, {"overhead_seconds", 2.5e-8}}},
          {"details", {{"disturbed", false}, {"notes", {"a note"}}, {"from_file", true}}}};
}

bool is_from_file(const nlohmann::json& c) { return c.at("details").contains("from_file"); }

class KeptCeilings : public MachineTest {
 protected:
  void SetUp() override {
    MachineTest::SetUp();
    set_worker_program("");
    cache_.emplace("KMEANS_BENCH_CACHE", folder_.string());
    id_.emplace("KMEANS_BENCH_MACHINE", "test-machine");
    file_ = kept_ceilings_file();
    fs::create_directories(file_.parent_path());
    good_ = {{"fingerprint", fingerprint_hash(machine_fingerprint())},
             {"ceilings", some_ceilings()}};
  }

  void keep(const std::string& text) const { std::ofstream(file_) << text; }

  /// Whether the kept ones are used, and what is said meanwhile.
  static std::pair<bool, std::string> read() {
    ::testing::internal::CaptureStderr();
    const bool kept = is_from_file(measured_ceilings(false, 0.01));
    return {kept, ::testing::internal::GetCapturedStderr()};
  }

  nlohmann::json good_;
  fs::path file_;
  std::optional<ScopedVariable> cache_;
  std::optional<ScopedVariable> id_;
};

TEST_F(KeptCeilings, AreUsedUntilForcedStaleOrDamaged) {
  EXPECT_EQ(file_.parent_path(), folder_ / "machine");
  EXPECT_TRUE(file_.filename().string().starts_with("test-machine-")) << file_;
  keep(detail::sealed(good_).dump());
  EXPECT_EQ(read(), std::pair(true, std::string()));
  EXPECT_FALSE(is_from_file(measured_ceilings(true, 0.01)));
  auto of_another = good_;
  of_another["fingerprint"] = "0123456789abcdef";
  keep(detail::sealed(of_another).dump());
  EXPECT_EQ(read(), std::pair(false, std::string()));
  for (const std::string damaged : {"", "{\"fingerprint\": ", "[1]", "{\"fingerprint\": 7}"}) {
    keep(damaged);
    const auto [kept, said] = read();
    EXPECT_FALSE(kept) << damaged;
    EXPECT_THAT(said, HasSubstr("kept ceilings are not used, and measured again")) << damaged;
  }

  // Only a measurement that nothing disturbed is worth keeping.
  fs::remove(file_);
  const auto measured = measured_ceilings(false, 0.01);
  EXPECT_EQ(fs::exists(file_), !measured["details"]["disturbed"].get<bool>());
  if (fs::exists(file_)) {
    EXPECT_EQ(measured_ceilings(false, 0.01), measured);
  }
}

TEST_F(KeptCeilings, EditedOnesAreMeasuredAgain) {
  auto edited = detail::sealed(good_);
  edited["ceilings"]["read_gbytes_per_second"] = 13;
  keep(edited.dump());
  EXPECT_THAT(read(), ::testing::Pair(false, HasSubstr("its hash does not fit what it says")));
  keep(good_.dump());
  EXPECT_THAT(read(), ::testing::Pair(false, HasSubstr("its hash is missing")));
  // By somebody who makes a hash for it.
  edited["ceilings"]["read_gbytes_per_second"] = -5;
  keep(detail::sealed(edited).dump());
  EXPECT_THAT(read(),
              ::testing::Pair(false, HasSubstr("read_gbytes_per_second is -5, outside of")));
  edited = good_;
  edited["gpus"] = {{"GPU-1, driver 13000", {{"read_gbytes_per_second", "<b>"}}}};
  keep(detail::sealed(edited).dump());
  EXPECT_THAT(read(), ::testing::Pair(false, HasSubstr("of a GPU, ")));
}

TEST_F(KeptCeilings, WhatIsNotAFileInTheirPlaceIsNotAHindrance) {
  const auto make_folder = [](const fs::path& place) {
    fs::create_directory(place);
    std::ofstream(place / "somebody's") << "text";
  };
  const auto make_loop = [](const fs::path& place) { fs::create_symlink(place, place); };
  const auto make_pipe = [](const fs::path& place) { ASSERT_EQ(mkfifo(place.c_str(), 0600), 0); };
  for (const std::function<void(const fs::path&)>& make :
       {std::function(make_folder), std::function(make_loop), std::function(make_pipe)}) {
    fs::remove_all(file_);
    make(file_);
    EXPECT_THAT(read(), ::testing::Pair(false, HasSubstr("measured again")));
    fs::remove_all(file_);
    make(file_);
    ::testing::internal::CaptureStderr();
    keep_ceilings(file_, good_);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("in the cache is made again"));
    EXPECT_EQ(read(), std::pair(true, std::string()));
  }
}

TEST(CeilingsInReason, AreToldFromOthers) {
  EXPECT_EQ(detail::unreasonable_ceilings(some_ceilings()), "");
  const std::vector<std::pair<std::string, nlohmann::json>> wrong{
      {"/read_gbytes_per_second", -5},
      {"/read_gbytes_per_second", "<b>"},
      {"/read_gbytes_per_second", 1e308},
      {"/read_gbytes_per_second", 0},
      {"/read_gbytes_per_second", nlohmann::json::array({1})},
      {"/copy_gbytes_per_second", true},
      {"/fma_gflops", 5},
      {"/fma_gflops/f32_one_thread", 0},
      {"/fma_gflops/f32_one_thread", 1e10},
      {"/gemm_gflops/f32", "fast"},
      {"/gemm_gflops/library", 3},
      {"/timer/overhead_seconds", -1e-9},
      {"/timer/overhead_seconds", 3600},
      {"/details/disturbed", true},
      {"/details/disturbed", "no"},
      {"/details/notes", "none"},
      {"/details", nullptr},
      {"/more", "text"},
  };
  for (const auto& [place, value] : wrong) {
    auto ceilings = some_ceilings();
    ceilings[nlohmann::json::json_pointer(place)] = value;
    EXPECT_NE(detail::unreasonable_ceilings(ceilings), "") << place << " = " << value;
  }
  for (const char* key : {"read_gbytes_per_second", "fma_gflops", "gemm_gflops", "details"}) {
    auto ceilings = some_ceilings();
    ceilings.erase(key);
    EXPECT_NE(detail::unreasonable_ceilings(ceilings), "") << key;
  }
}

TEST(CeilingsInReason, HaveAProductOfBytesNoneOrNull) {
  auto ceilings = some_ceilings();
  for (const nlohmann::json& rate : {nlohmann::json(nullptr), nlohmann::json(1.4e6)}) {
    ceilings["gemm_gflops"] = {{"f16", 7.7e5}, {"int8", rate}};
    EXPECT_EQ(detail::unreasonable_ceilings(ceilings), "") << rate;
  }
  ceilings["gemm_gflops"].erase("int8");
  EXPECT_EQ(detail::unreasonable_ceilings(ceilings), "");
  ceilings["gemm_gflops"]["int8"] = "fast";
  EXPECT_THAT(detail::unreasonable_ceilings(ceilings), HasSubstr("gemm_gflops/int8"));
}

TEST_F(MachineTest, AGpuThatCannotBeMeasuredIsTold) {
  set_worker_program("");  // nothing measures the GPU
  const ScopedVariable cache("KMEANS_BENCH_CACHE", folder_.string());
  const ScopedVariable id("KMEANS_BENCH_MACHINE", "test-machine");
  const auto notes_of = [](const nlohmann::json& c) { return c["details"]["notes"].dump(); };
  if (gpu_status().devices.empty()) {
    const ScopedVariable path("PATH", (folder_ / "nothing").string());
    const auto ceilings = measured_ceilings(false, 0.01);
    EXPECT_TRUE(ceilings["gpu"].is_null());
    EXPECT_THAT(notes_of(ceilings), Not(HasSubstr("GPU")));
  }
  fake_nvidia_smi(
      "echo 'NVIDIA H200, GPU-01234567-89ab-cdef-0123-456789abcdef, 580.95.05, 143771, 9.0, 1980, "
      "3201, 700.00, Enabled, Disabled, Enabled'\n");
  const ScopedVariable path("PATH", fake_path());
  for (int time = 0; time < 2; ++time) {  // measured, and as kept: the note is not kept with it
    const auto ceilings = measured_ceilings(false, 0.01);
    EXPECT_TRUE(ceilings["gpu"].is_null());
    const auto text = notes_of(ceilings);
    EXPECT_THAT(text, HasSubstr("the GPU was not measured: "));
    EXPECT_EQ(text.find("the GPU"), text.rfind("the GPU was")) << text;
  }
}

TEST_F(MachineTest, TheGpuIsMeasuredInAProcessOfItsOwn) {
  const auto output = capture_output({KMEANS_BENCH_PROGRAM, "machine", "--gpu-worker", "0.05"},
                                     changed_environment({}), 120);
  ASSERT_TRUE(output.ok) << output.problem;
  const auto answer = nlohmann::json::parse(output.text);
  if (current_gpu() == nullptr) {
    EXPECT_EQ(answer.size(), 1U);
    EXPECT_THAT(answer.at("problem").get<std::string>(), HasSubstr(gpu_status().problem));
  } else {
    EXPECT_EQ(answer.at("details").at("uuid"), current_gpu()->uuid);
  }
}

TEST_F(MachineTest, GpuCeilingsStandInSaneRelationsAndAreKept) {
  if (current_gpu() == nullptr) GTEST_SKIP() << gpu_status().problem;
  set_worker_program(KMEANS_BENCH_PROGRAM);
  const ScopedVariable cache("KMEANS_BENCH_CACHE", folder_.string());
  const ScopedVariable id("KMEANS_BENCH_MACHINE", "test-machine");
  const auto ceilings = measured_ceilings(false, 0.25);
  const auto& gpu = ceilings.at("gpu");
  ASSERT_TRUE(gpu.is_object()) << ceilings["details"]["notes"];
  const double read = gpu["read_gbytes_per_second"];
  EXPECT_GT(read, 10);
  EXPECT_GT(gpu["read_gbytes_per_second_l2"], 0.8 * read);
  EXPECT_GT(gpu["copy_gbytes_per_second"], 0.5 * read);
  EXPECT_LT(gpu["copy_gbytes_per_second"], 1.2 * read);
  EXPECT_GE(gpu["fma_gflops"]["f32"], 0.9 * gpu["fma_gflops"]["f64"].get<double>());
  EXPECT_GT(gpu["launch_and_synchronise_seconds"], gpu["launch_seconds"]);
  EXPECT_GT(gpu["launch_seconds"], 1e-7);
  for (const char* way : {"host_to_device_gbytes_per_second", "device_to_host_gbytes_per_second"}) {
    EXPECT_GT(gpu[way]["pinned"], 0.5) << way;
    EXPECT_GT(gpu[way]["pinned"], 0.8 * gpu[way]["pageable"].get<double>()) << way;
  }
  if (gpu["gemm_gflops"]["f16"].is_number() && current_gpu()->major >= 8) {
    EXPECT_GT(gpu["gemm_gflops"]["f16"], gpu["gemm_gflops"]["f32"]);
  }
  ASSERT_TRUE(gpu["gemm_gflops"].contains("int8"));
  if (gpu["gemm_gflops"]["f16"].is_number()) {
    ASSERT_TRUE(gpu["gemm_gflops"]["int8"].is_number()) << gpu["details"]["notes"];
    // Newer GPUs have fewer units for bytes.
    if (current_gpu()->major == 8 || current_gpu()->major == 9) {
      EXPECT_GT(gpu["gemm_gflops"]["int8"], gpu["gemm_gflops"]["f16"]);
    }
  }
  if (!gpu["details"]["disturbed"].get<bool>()) {
    EXPECT_EQ(measured_ceilings(false, 0.25)["gpu"], gpu);
  }
}

}  // namespace
}  // namespace kmeans
