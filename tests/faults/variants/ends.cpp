// SPDX-License-Identifier: Apache-2.0
//
// Variants that end, or never end, in ways of their own.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "tests/faults/variants/_well_behaved.h"

namespace {

using kmeans::faults::WellBehaved;

class Segfaults final : public WellBehaved {
  void step(std::int64_t /*iterations*/) override {
    volatile int* nowhere = nullptr;
    *nowhere = 1;  // NOLINT: that is the fault
  }
};

class Aborts final : public WellBehaved {
  void step(std::int64_t /*iterations*/) override { std::abort(); }
};

class Exits final : public WellBehaved {
  void step(std::int64_t /*iterations*/) override { std::exit(0); }
};

class ExitsAtOnce final : public WellBehaved {
  void step(std::int64_t /*iterations*/) override { ::_exit(7); }
};

class Throws final : public WellBehaved {
  void step(std::int64_t /*iterations*/) override {
    throw std::runtime_error("no such luck\x1b[31m\xff");
  }
};

class ThrowsInSetup final : public WellBehaved {
  void setup(const kmeans::Problem<float>& /*problem*/) override {
    throw std::runtime_error("nothing to set up with");
  }
};

class ThrowsAnInteger final : public WellBehaved {
  void step(std::int64_t /*iterations*/) override { throw 42; }  // NOLINT: that is the fault
};

class CrashesWhenTimed final : public WellBehaved {
  void step(std::int64_t iterations) override {
    if (timed()) std::abort();
    WellBehaved::step(iterations);
  }
};

class HangsInSetup final : public WellBehaved {
  void setup(const kmeans::Problem<float>& /*problem*/) override { hang(); }
};

class Spins final : public WellBehaved {
  void step(std::int64_t /*iterations*/) override {
    ::signal(SIGTERM, SIG_IGN);  // it takes SIGKILL
    volatile bool ever = false;
    while (!ever) {
    }
  }
};

}  // namespace

KMEANS_VARIANT(Segfaults, .name = "fault_segfaults", .summary = "writes to address 0 in step")
KMEANS_VARIANT(Aborts, .name = "fault_aborts", .summary = "aborts in step")
KMEANS_VARIANT(Exits, .name = "fault_exits", .summary = "calls exit(0) in step")
KMEANS_VARIANT(ExitsAtOnce, .name = "fault_exits_at_once", .summary = "calls _exit(7) in step")
KMEANS_VARIANT(Throws, .name = "fault_throws",
               .summary = "throws a text with control characters and a byte that is not UTF-8")
KMEANS_VARIANT(ThrowsInSetup, .name = "fault_throws_in_setup", .summary = "throws in setup")
KMEANS_VARIANT(ThrowsAnInteger, .name = "fault_throws_an_integer",
               .summary = "throws something that is not an exception")
KMEANS_VARIANT(CrashesWhenTimed, .name = "fault_crashes_when_timed",
               .summary = "is right while it is verified, aborts when it is timed")
KMEANS_VARIANT(HangsInSetup, .name = "fault_hangs_in_setup", .summary = "never returns from setup")
KMEANS_VARIANT(Spins, .name = "fault_spins",
               .summary = "an endless loop in step that ignores SIGTERM")
