// SPDX-License-Identifier: Apache-2.0
#include "harness/run/fit_choice.h"

#include <algorithm>
#include <utility>

#include "harness/machine/machine.h"
#include "harness/record/measures.h"
#include "harness/record/result_file.h"
#include "harness/run/estimate.h"
#include "harness/run/machine_folder.h"
#include "harness/support/errors.h"
#include "harness/support/memory_left.h"
#include "harness/support/text.h"
#include "harness/verify/session.h"

namespace kmeans {
namespace {

// Seconds: so much longer than a later one a process's first fit on a GPU takes at most (kmeans_exact_gpu in
// results/nvidia-h200-x2/fits-gpu.json).
constexpr double kStartOfCuda = 0.35;
// On the safe side of cuda_best's setups on file (results/nvidia-h100-x4, nvidia-h200-x4).
constexpr double kGpuSetup = 0.4;
constexpr double kGpuSetupPerCoordinate = 5e-9;
// Of the multiply-adds of 64 lanes a multiprocessor, and of the memory's bandwidth: no family is as slow where there is
// much to do.
constexpr double kLanes = 64;
constexpr double kShareOfLanes = 0.25;
constexpr double kShareOfBandwidth = 0.5;
constexpr double kLaunches = 1e-4;
constexpr double kCpuSetupPerCoordinate = 4e-8;  // of one thread

double rough_on_cpu(const FitFacts& facts) {
  const Sizes s(facts.shape);
  const double iteration = estimated_iteration_seconds(facts.on_cpu, facts.shape, facts.threads);
  return s.n * s.d * kCpuSetupPerCoordinate / facts.threads +
         static_cast<double>(facts.iterations) * iteration;
}

double rough_on_gpu(const FitFacts& facts, const GpuDevice& gpu) {
  const Sizes s(facts.shape);
  const double rate =
      kShareOfLanes * kLanes * std::max(1, gpu.multiprocessors) * std::max(gpu.clock_hertz, 5e8);
  const double bytes = kShareOfBandwidth * std::max(gpu.memory_bytes_per_second, 1e11);
  const double iteration =
      operations_2nkd(facts.shape) / 2 / rate + compulsory_bytes(facts.shape) / bytes + kLaunches;
  return kGpuSetup + kGpuSetupPerCoordinate * s.n * s.d +
         static_cast<double>(facts.iterations) * iteration;
}

/// By the model of what is on file; absent where that has none for this shape and these threads.
std::optional<double> modelled(const FitFacts& facts, const std::string& variant, bool gpu,
                               const std::vector<AdviceSeries>& all) {
  for (const auto& series : all) {
    if (series.variant != variant || series.gpu != gpu || series.gpus > 1) continue;
    if (series.precision != to_string(facts.shape.precision)) continue;
    if ((!gpu && series.threads != facts.threads) || series.shapes() < kShapesForAdvice) continue;
    if (!series.refused.reason_against(facts.shape).empty()) continue;
    return advice_of(series, {facts.shape, "", facts.iterations}, "", std::nullopt).fit;
  }
  return std::nullopt;
}

std::string by(bool on_file) { return on_file ? "by results on file" : "by rough rates"; }

std::vector<AdviceSeries> series_here() {
  try {
    return series_of(load_all_results(results_of_this_machine()));
  } catch (const UserError&) {
    return {};  // `advise` says what is wrong with them
  }
}

}  // namespace

FitChoice choose_for_fit(const FitFacts& facts, const std::function<const GpuDevice*()>& gpu,
                         const std::function<std::vector<AdviceSeries>()>& series) {
  FitChoice choice;
  choice.cpu_seconds = rough_on_cpu(facts);
  // Rates are right within a factor of a few.
  if (choice.cpu_seconds < kStartOfCuda / 4) return choice;
  const GpuDevice* const device = gpu();
  if (device == nullptr) return choice;
  choice.gpu_seconds = kStartOfCuda + rough_on_gpu(facts, *device);
  const std::string fit = "a fit of " + counted(facts.iterations, "iteration", "iterations") +
                          ", without first centroids, is expected to take ";
  const auto on_file = series();
  const auto cpu = modelled(facts, facts.on_cpu, false, on_file);
  const auto there = modelled(facts, kFitsOnGpu, true, on_file);
  if (cpu) choice.cpu_seconds = *cpu;
  if (there) choice.gpu_seconds = kStartOfCuda + *there;
  choice.gpu = choice.gpu_seconds < choice.cpu_seconds;
  const auto said = [&](const std::string& name, double seconds, bool known) {
    return format_seconds(seconds) + " by " + name + " (" + by(known) + ")";
  };
  const std::string of_gpu =
      said(std::string(kFitsOnGpu) + " with CUDA's start", choice.gpu_seconds, there.has_value());
  const std::string of_cpu = said(facts.on_cpu, choice.cpu_seconds, cpu.has_value());
  choice.why = fit + (choice.gpu ? of_gpu + ", " + of_cpu : of_cpu + ", " + of_gpu);
  return choice;
}

const RegisteredVariant& variant_for_fit(const Shape& shape, std::int64_t iterations, int threads,
                                         bool counted, std::string& why) {
  const RegisteredVariant& cpu = variant_of_fits();
  const RegisteredVariant* gpu = find_variant(kFitsOnGpu);
  if (gpu == nullptr) return cpu;
  if (address_space_left()) return cpu;  // CUDA takes more addresses than memory
  const auto device_for_it = [&]() -> const GpuDevice* {
    const GpuDevice* device = current_gpu();
    if (device == nullptr || !supports(*gpu, shape).ok) return nullptr;
    // Exactly what is free would take a start of CUDA to know.
    const double need = device_memory_need(*gpu, shape, 1, counted);
    return need <= static_cast<double>(device->memory_bytes) ? device : nullptr;
  };
  const FitChoice choice =
      choose_for_fit({shape, iterations, threads, cpu.traits.name}, device_for_it, series_here);
  why = choice.why;
  return choice.gpu ? *gpu : cpu;
}

}  // namespace kmeans
