// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/ceilings.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "harness/machine/ceilings_kernels.h"
#include "harness/machine/environment.h"
#include "harness/machine/gpu.h"
#include "harness/machine/kept_ceilings.h"
#include "harness/machine/machine.h"
#include "harness/machine/openblas_library.h"
#include "harness/support/build_info.h"
#include "harness/support/formatted.h"
#include "harness/support/json_member.h"
#include "harness/support/machine_process.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

// Part of the name of kept measurements: raise it when the way of measuring or keeping changes.
constexpr int kRevision = 3;

// A repetition shorter than this would also measure how unevenly threads leave a barrier.
constexpr double kSecondsPerRepetition = 0.01;
// Neighbours disturb in bursts. So the ceilings are measured in turn, several times: each sees the
// whole period instead of one moment of it.
constexpr int kTurns = 3;
constexpr double kSecondsPerTurn = 0.09;  // at an effort of 1, like the next
// A turn whose best repetition was disturbed goes on until it is not, but no longer than this.
constexpr double kMaxSecondsPerTurn = 0.25;
constexpr int kFewestRepetitions = 4;
// Share of the time for which the threads of the best repetition must have held a processor.
constexpr double kUndisturbedShare = 0.95;
// The same share, for the whole measurement: lower, since OpenBLAS's threads wait between blocks.
constexpr double kFreeOfOthers = 0.9;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Whatever a kernel returns ends here, so that none of its work is dead code.
void consume(double value) { __asm__ volatile("" : : "m"(value)); }

struct Best {
  double rate = 0;       ///< the best repetition: work / (last end - first start)
  double cpu_share = 0;  ///< share of that time for which the slowest thread held a processor
};

Best better(const Best& a, const Best& b) { return a.rate >= b.rate ? a : b; }

/// Runs work(thread, repetition) in `threads` threads at once, again and again, and keeps the
/// fastest repetition. `amount` is what one repetition does in all threads together.
Best best_rate(double effort, int threads, double amount,
               const std::function<double(int thread, std::int64_t repetition)>& work) {
  struct alignas(64) Span {
    double start = 0;
    double end = 0;
    double cpu = 0;
    double result = 0;
  };
  std::vector<Span> spans(static_cast<std::size_t>(threads));
  Best best;
  std::int64_t repetition = 0;
  bool done = false;
  const double began = seconds_now();

  const auto judge = [&]() noexcept {
    double start = std::numeric_limits<double>::infinity();
    double end = 0;
    double share = 1;
    for (const auto& span : spans) {
      start = std::min(start, span.start);
      end = std::max(end, span.end);
      consume(span.result);
    }
    for (const auto& span : spans) {
      // From the common start: a thread that came late had no processor either.
      share = std::min(share, span.cpu / std::max(span.end - start, 1e-9));
    }
    // The first one meets cold caches and a sleeping clock rate.
    if (repetition > 0) best = better({amount / std::max(end - start, 1e-9), share}, best);
    ++repetition;
    const double spent = seconds_now() - began;
    const bool enough = repetition > kFewestRepetitions && spent >= effort * kSecondsPerTurn;
    done = enough && (best.cpu_share >= kUndisturbedShare || spent >= effort * kMaxSecondsPerTurn);
  };
  std::barrier start_together(threads);
  std::barrier end_together(threads, judge);

  const auto cpus = allowed_cpus();
  const auto run = [&](int thread) {
    // Left to itself the scheduler may put two threads on one core for a while.
    if (threads > 1 && static_cast<int>(cpus.size()) == threads) {
      cpu_set_t mask;
      CPU_ZERO(&mask);
      const int cpu = cpus[static_cast<std::size_t>(thread)];
      if (cpu < CPU_SETSIZE) {
        CPU_SET(cpu, &mask);
        pthread_setaffinity_np(pthread_self(), sizeof mask, &mask);
      }
    }
    auto& span = spans[static_cast<std::size_t>(thread)];
    while (!done) {
      start_together.arrive_and_wait();
      const double cpu = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
      span.start = seconds_now();
      span.result = work(thread, repetition);
      span.end = seconds_now();
      span.cpu = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
      end_together.arrive_and_wait();
    }
  };
  std::vector<std::thread> others;
  others.reserve(static_cast<std::size_t>(threads));
  for (int thread = 0; thread < threads; ++thread) others.emplace_back(run, thread);
  for (auto& thread : others) thread.join();
  return best;
}

void in_threads(int threads, const std::function<void(int)>& work) {
  std::vector<std::thread> workers;
  workers.reserve(static_cast<std::size_t>(threads));
  for (int thread = 0; thread < threads; ++thread) workers.emplace_back(work, thread);
  for (auto& worker : workers) worker.join();
}

/// Zeroed pages, huge ones where the system has them.
class Pages {
 public:
  explicit Pages(std::size_t bytes) : bytes_(bytes + kHugePage) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    const auto address = reinterpret_cast<std::uintptr_t>(memory_);
    data_ = static_cast<unsigned char*>(memory_) + (kHugePage - address % kHugePage) % kHugePage;
#ifdef MADV_HUGEPAGE
    madvise(data_, bytes, MADV_HUGEPAGE);
#endif
  }
  ~Pages() { munmap(memory_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  [[nodiscard]] unsigned char* data() const { return data_; }

 private:
  static constexpr std::size_t kHugePage = std::size_t{1} << 21;
  std::size_t bytes_;
  void* memory_ = nullptr;
  unsigned char* data_ = nullptr;
};

std::size_t whole_blocks(double bytes) {
  const auto blocks = static_cast<std::size_t>(std::max(bytes, 0.0)) / kCeilingBlockBytes;
  return std::max<std::size_t>(blocks, 1) * kCeilingBlockBytes;
}

/// Four times the last-level caches, so that nothing read once is still there the next time; no
/// more than a quarter of the memory left, and no more than a few seconds' worth of page faults.
std::size_t memory_array_bytes(double effort) {
  constexpr double kLeast = 256.0 * (1 << 20);
  constexpr double kMax = 4096.0 * (1 << 20);
  const auto last_level = static_cast<double>(data_caches().last_level_bytes.value_or(32 << 20));
  const double wanted = effort * std::clamp(4 * last_level, kLeast, kMax);
  return whole_blocks(std::min(wanted, static_cast<double>(available_memory()) / 4));
}

/// Bandwidth of the memory. Each thread has a part of the array, first touched by itself. A
/// repetition goes over the next place of that part rather than all of it: short repetitions are
/// likelier to find the memory undisturbed. All kernels walk round the places in one order and
/// never start over, so that a place comes round again only after the whole array has passed
/// through the caches.
class MemoryCeilings {
 public:
  MemoryCeilings(double effort, const CeilingKernels& kernels, int threads)
      : kernels_(kernels),
        threads_(threads),
        half_(kWindows * whole_blocks(static_cast<double>(memory_array_bytes(effort)) /
                                      (2.0 * kWindows * threads))),
        pages_(bytes()) {
    in_threads(threads, [&](int thread) { std::memset(part(thread), thread + 1, 2 * half_); });
    // As many windows at a time as give a repetition its length.
    std::size_t together = 1;
    while (together < kWindows) {
      const double start = seconds_now();
      consume(static_cast<double>(kernels.read(part(0), 2 * together * (half_ / kWindows))));
      if (seconds_now() - start >= kSecondsPerRepetition / 4) break;
      together *= 2;
    }
    step_ = together * (half_ / kWindows);
    places_ = static_cast<std::int64_t>(kWindows / together);
  }

  void take_turn(double effort) {
    for (const auto kernel : {kernels_.read, kernels_.read_streams}) {
      const auto best = walk(effort, [&](unsigned char* first, unsigned char* second) {
        return static_cast<double>(kernel(first, step_) + kernel(second, step_));
      });
      read_ = better(read_, best);
    }
    for (const auto kernel : {kernels_.copy, kernels_.copy_streaming}) {
      if (kernel == nullptr) continue;
      const auto best = walk(effort, [&](unsigned char* first, unsigned char* second) {
        kernel(second, first, step_);
        return 0.0;
      });
      if (best.rate > copy_.rate) {
        copy_ = best;
        copy_streaming_ = kernel == kernels_.copy_streaming;
      }
    }
  }

  [[nodiscard]] const Best& read() const { return read_; }
  [[nodiscard]] const Best& copy() const { return copy_; }
  [[nodiscard]] bool copy_streaming() const { return copy_streaming_; }
  [[nodiscard]] std::size_t bytes() const { return 2 * half_ * static_cast<std::size_t>(threads_); }

 private:
  static constexpr std::size_t kWindows = 64;  // a power of two

  /// Two halves: what is copied from, and as much to copy to. Both are read.
  [[nodiscard]] unsigned char* part(int thread) const {
    return pages_.data() + 2 * half_ * static_cast<std::size_t>(thread);
  }

  /// Every repetition takes the next place: step_ bytes of either half.
  Best walk(double effort, const std::function<double(unsigned char*, unsigned char*)>& pass) {
    const double amount = 2.0 * static_cast<double>(step_) * threads_;
    std::int64_t last = 0;
    const auto best = best_rate(effort, threads_, amount, [&](int thread, std::int64_t r) {
      if (thread == 0) last = r;
      auto* first = part(thread) + step_ * static_cast<std::size_t>((walked_ + r) % places_);
      return pass(first, first + half_);
    });
    walked_ += last + 1;
    return best;
  }

  const CeilingKernels& kernels_;
  int threads_;
  std::size_t half_;
  Pages pages_;
  std::size_t step_ = 0;
  std::int64_t places_ = 1;
  std::int64_t walked_ = 0;
  Best read_;
  Best copy_;
  bool copy_streaming_ = false;
};

/// How often `once` has to be repeated to take the time of one repetition.
std::int64_t calibrated_rounds(double effort, const std::function<double(std::int64_t)>& once) {
  const double wanted = kSecondsPerRepetition * std::clamp(effort, 0.1, 1.0);
  std::int64_t rounds = 64;
  while (rounds < (std::int64_t{1} << 40)) {
    const double start = seconds_now();
    consume(once(rounds));
    const double seconds = seconds_now() - start;
    if (seconds >= wanted / 2) {
      const double scaled = static_cast<double>(rounds) * wanted / seconds;
      return std::max<std::int64_t>(1, std::llround(scaled));
    }
    rounds *= 4;
  }
  return rounds;
}

class CacheCeiling {
 public:
  CacheCeiling(std::size_t bytes, int threads)
      : threads_(threads), bytes_(bytes), pages_(bytes * static_cast<std::size_t>(threads)) {
    std::memset(pages_.data(), 1, bytes * static_cast<std::size_t>(threads));
  }

  void take_turn(double effort, const CeilingKernels& kernels) {
    const auto pass = [&](int thread, std::int64_t rounds) {
      const auto* part = pages_.data() + bytes_ * static_cast<std::size_t>(thread);
      std::uint64_t result = 0;
      for (std::int64_t round = 0; round < rounds; ++round) result += kernels.read(part, bytes_);
      return static_cast<double>(result);
    };
    const auto rounds = calibrated_rounds(effort, [&](std::int64_t r) { return pass(0, r); });
    const double amount = static_cast<double>(bytes_) * static_cast<double>(rounds) * threads_;
    best_ = better(best_, best_rate(effort, threads_, amount, [&](int thread, std::int64_t) {
                     return pass(thread, rounds);
                   }));
  }

  [[nodiscard]] const Best& best() const { return best_; }

 private:
  int threads_;
  std::size_t bytes_;
  Pages pages_;
  Best best_;
};

class FmaCeiling {
 public:
  FmaCeiling(double (*kernel)(std::int64_t), double flops_per_round, int threads)
      : kernel_(kernel), flops_per_round_(flops_per_round), threads_(threads) {}

  void take_turn(double effort) {
    const auto rounds = calibrated_rounds(effort, kernel_);
    const double amount = flops_per_round_ * static_cast<double>(rounds) * threads_;
    best_ = better(best_, best_rate(effort, threads_, amount,
                                    [&](int, std::int64_t) { return kernel_(rounds); }));
  }

  [[nodiscard]] const Best& best() const { return best_; }

 private:
  double (*kernel_)(std::int64_t);
  double flops_per_round_;
  int threads_;
  Best best_;
};

json measure_timer() {
  using Clock = std::chrono::steady_clock;
  auto resolution = Clock::duration::max();
  auto previous = Clock::now();
  for (int i = 0; i < 20'000; ++i) {
    const auto now = Clock::now();
    if (now > previous) resolution = std::min(resolution, now - previous);
    previous = now;
  }
  constexpr int kCalls = 10'000;
  double overhead = std::numeric_limits<double>::infinity();
  for (int batch = 0; batch < 10; ++batch) {
    const auto start = Clock::now();
    for (int i = 0; i < kCalls; ++i) previous = Clock::now();
    overhead = std::min(overhead, std::chrono::duration<double>(previous - start).count() / kCalls);
  }
  return {{"resolution_seconds", std::chrono::duration<double>(resolution).count()},
          {"overhead_seconds", overhead}};
}

std::string& worker_program() {
  static std::string program;
  return program;
}

/// The one JSON object that a fresh process of this program prints, or {"problem": "..."}.
/// `subject` is what the process looks at.
json ask_worker(const std::vector<std::string>& arguments, const std::string& subject,
                double timeout_seconds) {
  const auto& program = worker_program();
  if (program.empty()) {
    return {{"problem", subject + " is only looked at from within kmeans-bench"}};
  }
  undo_thread_binding();
  const auto environment =
      changed_environment(worker_environment(inspect_environment(), usable_threads(), false));
  std::vector<std::string> command{program, "machine"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const auto output = capture_output(command, environment, timeout_seconds);
  auto answer = json::parse(output.text, nullptr, false);
  if (!answer.is_object()) {
    return {{"problem",
             "the process that looks at " + subject + " " +
                 (output.problem.empty() ? "answered nothing intelligible" : output.problem)}};
  }
  return answer;
}

json ask_openblas_worker(const std::string& mode, double timeout_seconds) {
  return ask_worker({"--openblas-worker", mode}, "OpenBLAS", timeout_seconds);
}

// What is used of OpenBLAS, looked up by name: the suite can be built without it.
using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                       float, float*, int);
using Dgemm = void (*)(int, int, int, int, int, int, double, const double*, int, const double*, int,
                       double, double*, int);
constexpr int kRowMajor = 101;
constexpr int kNoTranspose = 111;

template <class T>
void multiply(void* function, int size, const T* a, const T* b, T* c) {
  using Gemm = std::conditional_t<std::is_same_v<T, float>, Sgemm, Dgemm>;
  reinterpret_cast<Gemm>(function)(kRowMajor, kNoTranspose, kNoTranspose, size, size, size, T{1}, a,
                                   size, b, size, T{0}, c, size);
}

struct GemmRate {
  double gflops = 0;
  int size = 0;
  double cpu_share = 0;  ///< of all threads
};

/// The best rate over square products of growing size, until one takes long enough to be judged by.
/// Nothing if the library multiplies wrongly.
template <class T>
std::optional<GemmRate> measure_gemm(void* function, int threads) {
  constexpr int kSizes[] = {512, 1024, 2048, 3072, 4096, 6144, 8192};
  constexpr double kMaxSecondsPerProduct = 0.4;
  constexpr double kGemmSeconds = 0.25;
  const double memory = static_cast<double>(available_memory()) / 4;
  std::vector<T> a;
  std::vector<T> b;
  std::vector<T> c;
  GemmRate best;
  for (const int size : kSizes) {
    const auto elements = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
    const double flops = 2.0 * size * static_cast<double>(elements);
    const bool too_long = flops > best.gflops * 1e9 * kMaxSecondsPerProduct;
    const bool too_large = 3.0 * static_cast<double>(elements * sizeof(T)) > memory;
    if (size > kSizes[0] && (too_long || too_large)) break;
    a.resize(elements);
    b.resize(elements);
    c.assign(elements, T{0});
    for (std::size_t i = 0; i < elements; ++i) {
      a[i] = static_cast<T>(static_cast<int>(i * 7 % 17) - 8) / T{8};
      b[i] = static_cast<T>(static_cast<int>(i * 5 % 13) - 6) / T{4};
    }
    const double began = seconds_now();
    const auto worth_another = [&](int repetition) {
      const double spent = seconds_now() - began;
      return repetition < 4 || spent < kGemmSeconds ||
             (best.cpu_share < kFreeOfOthers && spent < 2 * kGemmSeconds);
    };
    for (int repetition = 0; worth_another(repetition); ++repetition) {
      const double cpu = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
      const double start = seconds_now();
      multiply<T>(function, size, a.data(), b.data(), c.data());
      const double seconds = std::max(seconds_now() - start, 1e-9);
      const double share = (cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / seconds / threads;
      if (repetition > 0 && flops / seconds / 1e9 > best.gflops) {
        best = {flops / seconds / 1e9, size, std::min(share, 1.0)};
      }
    }
    // The values are small multiples of 1/32: their products and sums are exact in both precisions.
    const std::size_t row = static_cast<std::size_t>(size) / 3;
    const std::size_t column = static_cast<std::size_t>(size) / 5;
    T expected{0};
    for (std::size_t t = 0; t < static_cast<std::size_t>(size); ++t) {
      expected += a[row * static_cast<std::size_t>(size) + t] *
                  b[t * static_cast<std::size_t>(size) + column];
    }
    if (c[row * static_cast<std::size_t>(size) + column] != expected) return std::nullopt;
  }
  return best;
}

json openblas_worker_info(void* library) {
  const auto text = [&](const char* name) -> std::string {
    const auto function = reinterpret_cast<const char* (*)()>(dlsym(library, name));
    return function != nullptr ? function() : "";
  };
  const std::string config = text("openblas_get_config");
  const std::string core = text("openblas_get_corename");
  json info{{"version", nullptr},
            {"config", nullptr},
            {"core", nullptr},
            {"threads", nullptr},
            {"file", nullptr}};
  if (!config.empty()) {
    info["config"] = config;
    // "OpenBLAS 0.3.21 DYNAMIC_ARCH ..."
    const auto begin = config.find(' ');
    if (begin != std::string::npos) {
      info["version"] = config.substr(begin + 1, config.find(' ', begin + 1) - begin - 1);
    }
  }
  if (!core.empty()) info["core"] = core;
  if (const auto threads =
          reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_num_threads"))) {
    info["threads"] = threads();
  }
  Dl_info place{};
  if (void* gemm = dlsym(library, "cblas_sgemm"); gemm != nullptr && dladdr(gemm, &place) != 0) {
    std::error_code ignored;
    const auto file = std::filesystem::canonical(place.dli_fname, ignored);
    if (!ignored) info["file"] = file.filename().string();
  }
  return info;
}

std::string build_key() {
  const auto& build = build_info();
  const std::string text = build.compiler + "/" + build.build_type + "/" + build.sanitizers + "/" +
                           std::to_string(kRevision);
  return formatted("%08x", static_cast<unsigned>(std::hash<std::string>{}(text)&0xffffffffU));
}

/// A kept object, or null.
json kept_object(const json& parent, const std::string& key) {
  const json& found = member(parent, key);
  return found.is_object() ? found : json();
}

bool disturbed(const json& ceilings) { return ceilings.at("details").value("disturbed", false); }

/// The GPU in use as far as its ceilings depend on it.
std::string gpu_key(const GpuDevice& gpu) {
  const auto& status = gpu_status();
  std::string key = gpu.uuid + ", driver " + std::to_string(status.driver_version) + ", runtime " +
                    std::to_string(status.runtime_version) + ", kernels for";
  for (const int capability : status.built_for) key += " " + std::to_string(capability);
  if (status.built_ptx > 0) key += " and PTX " + std::to_string(status.built_ptx);
  return key;
}

/// What a fresh process measures of the GPU, or {"problem": "..."}.
json measure_gpu_apart(double effort) {
  // Most of this is for drivers that start slowly and for code that is still to be compiled.
  constexpr double kTimeoutSeconds = 180;
  auto answer = ask_worker({"--gpu-worker", std::to_string(effort)}, "the GPU", kTimeoutSeconds);
  if (!answer.contains("problem") && !kept_object(answer, "details").is_object()) {
    return {{"problem", "the GPU probe returned no ceilings"}};
  }
  return answer;
}

}  // namespace

namespace detail {
json rounded_rate(double rate) {
  if (!(rate > 0) || !std::isfinite(rate)) return nullptr;
  const double unit = std::pow(10.0, std::floor(std::log10(rate)) - 3);
  return std::round(rate / unit) * unit;
}

std::string doubt_about_array(double array_bytes, std::optional<std::int64_t> last_level_bytes) {
  const std::string why = "part of what is called read from memory may have come from there";
  if (!last_level_bytes) {
    return "the system does not say how large the last-level cache is: if it is more than half of "
           "the "
           "array's " +
           format_bytes(array_bytes) + ", " + why;
  }
  if (array_bytes >= 2 * static_cast<double>(*last_level_bytes)) return "";
  return "the array is less than twice the last-level cache: " + why;
}
}  // namespace detail

void set_worker_program(const std::string& program) { worker_program() = program; }

nlohmann::json openblas_info() {
  static std::mutex mutex;
  static std::map<std::string, json> answers;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto& program = worker_program();
  auto found = answers.find(program);
  if (found == answers.end()) {
    auto answer = ask_openblas_worker("info", 20);
    found = answers.emplace(program, answer.contains("problem") ? json(nullptr) : answer).first;
  }
  return found->second;
}

int run_openblas_worker(const std::string& mode) {
  json answer;
  // Else it would not end: its threads wait for addresses as soon as it is loaded.
  const std::string lacking = openblas_lacks_addresses(usable_threads());
  const OpenBlasLibrary loaded =
      lacking.empty() ? load_openblas() : OpenBlasLibrary{nullptr, lacking};
  if (loaded.handle == nullptr) {
    answer["problem"] = loaded.problem;
  } else {
    void* library = loaded.handle;
    answer = openblas_worker_info(library);
    void* sgemm = dlsym(library, "cblas_sgemm");
    void* dgemm = dlsym(library, "cblas_dgemm");
    if (mode == "gemm" && (sgemm == nullptr || dgemm == nullptr)) {
      answer["problem"] = "OpenBLAS was built without the C interface (cblas_sgemm)";
    } else if (mode == "gemm") {
      const int threads = usable_threads();
      const auto f32 = measure_gemm<float>(sgemm, threads);
      const auto f64 = measure_gemm<double>(dgemm, threads);
      if (f32 && f64) {
        answer["f32"] = detail::rounded_rate(f32->gflops);
        answer["f64"] = detail::rounded_rate(f64->gflops);
        answer["f32_size"] = f32->size;
        answer["f64_size"] = f64->size;
        answer["cpu_share"] = std::min(f32->cpu_share, f64->cpu_share);
      } else {
        answer["problem"] = "OpenBLAS returned a wrong matrix product";
      }
    }
  }
  std::cout << answer.dump() << std::endl;
  return 0;
}

int run_gpu_worker(double effort) {
  json answer;
  try {
    answer = measure_gpu_ceilings(effort);
  } catch (const std::exception& error) {
    answer["problem"] = valid_utf8(error.what());
  }
  std::cout << answer.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
  return 0;
}

nlohmann::json measure_ceilings(double effort, bool matrix_product, double seconds) {
  const double began = seconds_now();
  bool cut_short = false;
  const auto time_left = [&] {
    if (seconds_now() - began < seconds) return true;
    cut_short = true;
    return false;
  };
  const auto& kernels = ceiling_kernels().front();
  const int threads = usable_threads();
  const auto caches = data_caches();
  auto notes = json::array();
  // Threads are started by this one and would inherit its binding.
  undo_thread_binding();
  const auto timer = measure_timer();

  FmaCeiling f32_one(kernels.fma_f32, kernels.flops_per_round_f32, 1);
  FmaCeiling f32_all(kernels.fma_f32, kernels.flops_per_round_f32, threads);
  FmaCeiling f64_one(kernels.fma_f64, kernels.flops_per_round_f64, 1);
  FmaCeiling f64_all(kernels.fma_f64, kernels.flops_per_round_f64, threads);
  const auto cache_bytes =
      whole_blocks(static_cast<double>(caches.level2_bytes_per_thread.value_or(256 << 10)) / 2);
  CacheCeiling cache(cache_bytes, threads);
  std::optional<MemoryCeilings> memory;
  // In case time runs short, first what limits most problems. The cache before memory: memory does not limit
  // points that the cache holds.
  for (int turn = 0; turn < (effort < 0.1 ? 1 : kTurns); ++turn) {
    if (time_left()) f32_all.take_turn(effort);
    if (time_left()) cache.take_turn(effort, kernels);
    try {
      if (turn == 0 && time_left()) memory.emplace(effort, kernels, threads);
    } catch (const std::bad_alloc&) {
      notes.push_back("there was not enough memory to measure its bandwidth");
    }
    if (memory && time_left()) memory->take_turn(effort);
    for (auto* fma : {&f32_one, &f64_all, &f64_one}) {
      if (time_left()) fma->take_turn(effort);
    }
  }
  if (cut_short) notes.push_back("there was no time left to measure all of them");

  double share = 1;
  const auto seen = [&](const Best& best) -> json {
    if (best.rate == 0) return nullptr;
    share = std::min(share, best.cpu_share);
    return detail::rounded_rate(best.rate / 1e9);
  };
  // All threads can at least do what one does while the others rest.
  const json fma{{"f32_one_thread", seen(f32_one.best())},
                 {"f32_all_threads", seen(better(f32_all.best(), f32_one.best()))},
                 {"f64_one_thread", seen(f64_one.best())},
                 {"f64_all_threads", seen(better(f64_all.best(), f64_one.best()))}};
  json gigabytes_read;
  json gigabytes_copied;
  json copy_stores;
  json array_bytes;
  if (memory) {
    gigabytes_read = seen(memory->read());
    gigabytes_copied = seen(memory->copy());
    copy_stores = memory->copy_streaming() ? "non-temporal" : "ordinary";
    array_bytes = memory->bytes();
    const auto doubt =
        detail::doubt_about_array(static_cast<double>(memory->bytes()), caches.last_level_bytes);
    if (!doubt.empty()) notes.push_back(doubt);
  }
  const auto gigabytes_cache = seen(cache.best());
  memory.reset();

  const auto blas = matrix_product ? ask_openblas_worker("gemm", 60)
                                   : json{{"problem", "it was left out of a quick look"}};
  json gemm{{"f32", nullptr}, {"f64", nullptr}, {"library", nullptr}};
  json gemm_size;
  if (blas.contains("f32")) {
    gemm["f32"] = blas["f32"];
    gemm["f64"] = blas["f64"];
    gemm_size = {{"f32", blas["f32_size"]}, {"f64", blas["f64_size"]}};
    share = std::min(share, blas.value("cpu_share", 1.0));
  } else {
    notes.push_back("no matrix product: " +
                    blas.value("problem", std::string("OpenBLAS gave no rate")));
  }
  if (blas.contains("version") && blas["version"].is_string()) {
    gemm["library"] = "OpenBLAS " + blas["version"].get<std::string>() +
                      (blas["core"].is_string() ? " " + blas["core"].get<std::string>() : "");
  }

  return {{"read_gbytes_per_second", gigabytes_read},
          {"read_gbytes_per_second_cache", gigabytes_cache},
          {"copy_gbytes_per_second", gigabytes_copied},
          {"fma_gflops", fma},
          {"gemm_gflops", gemm},
          {"timer", timer},
          {"details",
           {{"threads", threads},
            {"instructions", kernels.instructions},
            {"read_bytes", array_bytes},
            {"cache_bytes_per_thread", cache_bytes},
            {"copy_bytes", array_bytes},
            {"copy_stores", copy_stores},
            {"gemm_size", gemm_size},
            {"gemm_threads", blas.contains("threads") ? blas["threads"] : json(nullptr)},
            {"measured", utc_now()},
            {"seconds", std::round((seconds_now() - began) * 100) / 100},
            {"cpu_share", std::round(share * 1000) / 1000},
            {"disturbed", share < kFreeOfOthers},
            {"notes", notes}}}};
}

std::string kept_ceilings_file() {
  return (std::filesystem::path(cache_root()) / "machine" /
          (machine_id() + "-" + build_key() + ".json"))
      .string();
}

namespace {

constexpr double kAnyTime = std::numeric_limits<double>::infinity();

/// With limited time, a quick look.
json find_ceilings(bool force, double effort, double seconds) {
  const bool quick = seconds < kAnyTime;
  const double began = seconds_now();
  const auto machine = machine_fingerprint();
  const auto file = kept_ceilings_file();
  auto kept = read_kept_ceilings(file, fingerprint_hash(machine));
  bool changed = false;

  auto ceilings = force ? json(nullptr) : kept_object(kept, "ceilings");
  if (ceilings.is_null()) {
    ceilings = measure_ceilings(effort, !quick, seconds);
    if (!disturbed(ceilings)) {
      kept["ceilings"] = ceilings;
      changed = true;
    }
  }

  json gpu_ceilings;
  std::string problem = gpu_status().problem;
  if (const auto* gpu = current_gpu()) {
    const auto key = gpu_key(*gpu);
    if (!force) gpu_ceilings = kept_object(kept_object(kept, "gpus"), key);
    if (gpu_ceilings.is_null() && seconds_now() - began >= seconds) {
      problem = "there was no time left";
    } else if (gpu_ceilings.is_null()) {
      auto answer = measure_gpu_apart(effort);
      if (answer.contains("problem")) {
        problem = answer["problem"].is_string() ? answer["problem"].get<std::string>() : "";
      } else {
        gpu_ceilings = std::move(answer);
        if (!disturbed(gpu_ceilings)) {
          if (kept_object(kept, "gpus").is_null()) kept["gpus"] = json::object();
          kept["gpus"][key] = gpu_ceilings;
          changed = true;
        }
      }
    }
  }
  if (changed && !quick) keep_ceilings(file, kept);

  const bool gpu_there = !gpu_status().devices.empty() || !machine.at("gpus").empty();
  if (gpu_ceilings.is_null() && gpu_there && ceilings.contains("details")) {
    ceilings["details"]["notes"].push_back("the GPU was not measured: " + problem);
  }
  ceilings["gpu"] = gpu_ceilings;
  return ceilings;
}

}  // namespace

nlohmann::json measured_ceilings(bool force, double effort) {
  return find_ceilings(force, effort, kAnyTime);
}

nlohmann::json ceilings_at_hand(double effort, double seconds) {
  return find_ceilings(false, effort, seconds);
}

}  // namespace kmeans
