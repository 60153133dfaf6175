// SPDX-License-Identifier: Apache-2.0
//
// Limits of the machine, measured: what no program here can exceed by much.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace kmeans {

/// Measures now, in about ten seconds (docs/machine.md says how). The `context.ceilings` of a
/// result file; rates in 10^9 per second, null where something could not be measured:
///   read_gbytes_per_second, read_gbytes_per_second_cache, copy_gbytes_per_second: numbers
///   fma_gflops:  {f32_one_thread, f32_all_threads, f64_one_thread, f64_all_threads}
///   gemm_gflops: {f32, f64, library}
///   timer:       {resolution_seconds, overhead_seconds}
///   details:     {threads, instructions, read_bytes, cache_bytes_per_thread, copy_bytes,
///                 copy_stores, gemm_size, gemm_threads, measured, seconds, cpu_share, disturbed,
///                 notes}
/// `disturbed` is true when other work took the processor away even in the best repetitions.
/// An effort below 1 shortens everything, and the arrays, in proportion: quick but less certain.
nlohmann::json measure_ceilings(double effort = 1);

/// The same, kept in <cache_root()>/machine/ for this fingerprint and build; measured again when
/// forced or when the machine has changed. A disturbed measurement is not kept.
nlohmann::json measured_ceilings(bool force, double effort = 1);

/// Where they are kept: <cache_root()>/machine/<machine id>-<build>.json.
std::string kept_ceilings_file();

/// OpenBLAS reads its environment once, as it is loaded, which is before main() where the program
/// is linked with it. Whatever has to see it undisturbed therefore runs in a fresh process of this
/// program (`<program> machine --openblas-worker MODE`). add_machine_command() names the running
/// program; without one, and in other programs, the matrix product is not measured.
void set_openblas_worker_program(const std::string& program);

/// {version, config, core, threads, file}: OpenBLAS as a library variant meets it. null without it.
nlohmann::json openblas_info();

/// What the fresh process does. MODE is "info" or "gemm"; prints one JSON object.
int run_openblas_worker(const std::string& mode);

}  // namespace kmeans
