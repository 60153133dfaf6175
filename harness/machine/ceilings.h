// SPDX-License-Identifier: Apache-2.0
//
// Limits of the machine, measured: what no program here can exceed by much.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace kmeans {

/// Measures the processor and its memory now, in about ten seconds (docs/machine.md says how).
/// Rates in 10^9 per second, null where something could not be measured:
///   read_gbytes_per_second, read_gbytes_per_second_cache, copy_gbytes_per_second: numbers
///   fma_gflops:  {f32_one_thread, f32_all_threads, f64_one_thread, f64_all_threads}
///   gemm_gflops: {f32, f64, library}
///   timer:       {resolution_seconds, overhead_seconds}
///   details:     {threads, instructions, read_bytes, cache_bytes_per_thread, copy_bytes,
///                 copy_stores, gemm_size, gemm_threads, measured, seconds, cpu_share, disturbed,
///                 notes}
/// `disturbed` is true when other work took the processor away even in the best repetitions.
/// An effort below 1 shortens everything, and the arrays, in proportion: quick but less certain.
/// The matrix product, whose library takes seconds to be sure of, can be left out. After `seconds` nothing
/// more is begun: what was not measured is null, and a note says so.
nlohmann::json measure_ceilings(double effort = 1, bool matrix_product = true,
                                double seconds = std::numeric_limits<double>::infinity());

/// The `context.ceilings` of a result file: the same, and `gpu`, what measure_gpu_ceilings() returns
/// of the GPU in use, or null. Both are kept in <cache_root()>/machine/ for this fingerprint and
/// build, and the latter for the GPU and its driver; measured again when forced or when any of
/// these has changed, or when what is kept is damaged or beyond reason (harness/machine/kept_ceilings.h). A
/// disturbed measurement is not kept.
nlohmann::json measured_ceilings(bool force, double effort = 1);

/// The same, for whoever has little time: kept ones, else measured with this effort and without the
/// matrix product, none begun after `seconds`, and then not kept, since they are less than what others
/// would take them for.
nlohmann::json ceilings_at_hand(double effort, double seconds);

/// Where they are kept: <cache_root()>/machine/<machine id>-<build>.json.
std::string kept_ceilings_file();

/// What must be measured in a fresh process runs as `<program> machine --openblas-worker MODE` or
/// `<program> machine --gpu-worker EFFORT`: OpenBLAS reads its environment once, as it is loaded, and
/// keeps its threads; and a GPU's memory and context are to be free again before any cell runs.
/// add_machine_command() names the running program; without one, and in other programs, neither the
/// matrix product nor the GPU is measured.
void set_worker_program(const std::string& program);

/// {version, config, core, threads, file}: OpenBLAS as a library variant meets it. null without it.
nlohmann::json openblas_info();

/// What the fresh process does. MODE is "info" or "gemm"; prints one JSON object.
int run_openblas_worker(const std::string& mode);

/// Limits of the GPU in use, measured now (docs/machine.md): the `gpu` part of `context.ceilings`.
/// Throws std::runtime_error where there is none.
nlohmann::json measure_gpu_ceilings(double effort = 1);

/// Prints what measure_gpu_ceilings() returns, or {"problem": "..."}.
int run_gpu_worker(double effort);

namespace detail {
/// Shortened to what is certain: more digits would suggest a precision that no ceiling has. null
/// unless positive and finite.
nlohmann::json rounded_rate(double rate);

/// Why a rate read from an array of so many bytes may not be that of memory; empty: it is.
std::string doubt_about_array(double array_bytes, std::optional<std::int64_t> last_level_bytes);
}  // namespace detail

}  // namespace kmeans
