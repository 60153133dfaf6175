// SPDX-License-Identifier: Apache-2.0
//
// Variants that are right, and treat the process they live in badly.
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <locale>
#include <stdexcept>
#include <string>

#include "tests/faults/variants/_well_behaved.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

using kmeans::faults::WellBehaved;

class Chatters final : public WellBehaved {
  void step(std::int64_t iterations) override {
    const std::string line(1 << 16, 'x');
    for (int i = 0; i < 64; ++i) std::printf("%s\x1b[2J\n", line.c_str());
    std::fflush(stdout);
    WellBehaved::step(iterations);
  }
};

// A child in a session of its own, which no signal to the worker's group reaches. It has named
// itself before the worker goes on.
class LeavesAChild final : public WellBehaved {
  void setup(const kmeans::Problem<float>& problem) override {
    WellBehaved::setup(problem);
    std::array<int, 2> named{};
    if (::pipe(named.data()) != 0) throw std::runtime_error("no pipe to be had");
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("no process to be had");
    if (child == 0) {
      ::setsid();
      if (::fork() > 0) ::_exit(0);
      if (const char* file = std::getenv("KMEANS_FAULT_CHILD")) {
        std::ofstream(file, std::ios::app) << ::getpid() << '\n';
      }
      ::close(named[0]);
      ::close(named[1]);
      hang();
    }
    ::close(named[1]);
    char nothing = 0;
    while (::read(named[0], &nothing, 1) < 0 && errno == EINTR) continue;
    ::close(named[0]);
  }
};

// A locale of which every C library has decimal points, and the decimal comma where it is there.
class ChangesTheLocale final : public WellBehaved {
  void step(std::int64_t iterations) override {
    if (std::setlocale(LC_ALL, "de_DE.UTF-8") == nullptr &&
        std::setlocale(LC_ALL, "de_DE.utf8") == nullptr) {
      throw std::runtime_error("no locale de_DE here");
    }
    std::locale::global(std::locale(std::setlocale(LC_ALL, nullptr)));
    WellBehaved::step(iterations);
  }
};

class FlushesDenormals final : public WellBehaved {
  void step(std::int64_t iterations) override {
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040U);
#endif
    WellBehaved::step(iterations);
  }
};

class ClosesFiles final : public WellBehaved {
  void step(std::int64_t iterations) override {
    for (int descriptor = 0; descriptor < 1024; ++descriptor) ::close(descriptor);
    WellBehaved::step(iterations);
  }
};

class GoesElsewhere final : public WellBehaved {
  void step(std::int64_t iterations) override {
    if (::chdir("/") != 0) throw std::runtime_error("cannot go to /");
    ::umask(0777);
    WellBehaved::step(iterations);
  }
};

class EmptiesItsEnvironment final : public WellBehaved {
  void step(std::int64_t iterations) override {
    ::clearenv();
    WellBehaved::step(iterations);
  }
};

}  // namespace

KMEANS_VARIANT(Chatters, .name = "fault_chatters",
               .summary = "prints 4 MiB with control characters in every step")
KMEANS_VARIANT(LeavesAChild, .name = "fault_leaves_a_child",
               .summary = "starts a process in a session of its own and leaves it running")
KMEANS_VARIANT(ChangesTheLocale, .name = "fault_changes_the_locale",
               .summary = "leaves the process with decimal commas")
KMEANS_VARIANT(FlushesDenormals, .name = "fault_flushes_denormals",
               .summary = "leaves FTZ and DAZ switched on")
KMEANS_VARIANT(ClosesFiles, .name = "fault_closes_files",
               .summary = "closes every file descriptor, the standard ones included")
KMEANS_VARIANT(GoesElsewhere, .name = "fault_goes_elsewhere",
               .summary = "changes the working folder and the file mode mask")
KMEANS_VARIANT(EmptiesItsEnvironment, .name = "fault_empties_its_environment",
               .summary = "removes all environment variables")
