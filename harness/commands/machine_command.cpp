// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/commands.h"

#include <cstdio>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "harness/machine/ceilings.h"
#include "harness/machine/environment.h"
#include "harness/machine/gpu_option.h"
#include "harness/machine/machine.h"
#include "harness/machine/machine_check.h"
#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

struct MachineOptions {
  bool json = false;
  bool id = false;
  bool no_ceilings = false;
  bool force = false;
  bool check = false;
  bool strict = false;
  CheckOptions check_options;
  std::string openblas_worker;
  std::optional<double> gpu_worker;  ///< the effort
};

constexpr int kLabelWidth = 16;

void print_line(const std::string& label, const std::string& text) {
  std::cout << "  " << std::left << std::setw(kLabelWidth) << label << text << "\n";
}

bool known(const json& object, const char* key) {
  return object.is_object() && object.contains(key) && !object.at(key).is_null();
}

/// A fact as plain text, without quotation marks; "unknown" for null.
std::string plain(const json& value) {
  if (value.is_null()) return "unknown";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string joined(const json& values, const char* separator) {
  std::string text;
  for (const auto& value : values) text += (text.empty() ? "" : separator) + plain(value);
  return text;
}

std::string bytes_of(const json& value) {
  return value.is_null() ? "unknown" : format_bytes(value.get<double>());
}

std::string rate(const json& value, const char* unit) {
  if (value.is_null()) return "not measured";
  std::ostringstream text;
  const double number = value.get<double>();
  text << std::fixed
       << std::setprecision(number < 10    ? 2
                            : number < 100 ? 1
                                           : 0)
       << number << " " << unit;
  return text.str();
}

void print_cpu(const json& cpu) {
  std::cout << "CPU\n";
  print_line("model", plain(cpu["model"]));
  std::string threads =
      counted(cpu["usable_threads"].get<std::size_t>(), "usable thread", "usable threads") +
      " on " + counted(cpu["physical_cores"].get<std::size_t>(), "core", "cores") + " (" +
      plain(cpu["logical_cores"]) + " logical in all, " + plain(cpu["smt_siblings"]) + " per core";
  if (known(cpu, "cgroup_cpus")) threads += ", quota of " + plain(cpu["cgroup_cpus"]) + " CPUs";
  print_line("threads", threads + ")");
  print_line("instructions", plain(cpu["instructions"]) + ": " + joined(cpu["flags"], " "));
  std::string caches;
  for (const auto& cache : cpu["caches"]) {
    if (cache["type"] == "instruction") continue;
    caches += (caches.empty() ? "L" : ", L") + plain(cache["level"]) + " " +
              plain(cache["instances"]) + " x " + bytes_of(cache["bytes"]);
  }
  print_line("caches", caches.empty() ? "unknown" : caches);
  std::string clocks = "base " + plain(cpu["base_mhz"]) + ", highest " + plain(cpu["max_mhz"]) +
                       ", now " + plain(cpu["current_mhz"]) + " MHz";
  print_line("clock", clocks + "; governor " + plain(cpu["governor"]));
  print_line("microcode", plain(cpu["microcode"]));
  print_line("NUMA nodes", plain(cpu["numa_nodes"]));
  print_line("hypervisor", known(cpu, "hypervisor") ? plain(cpu["hypervisor"]) : "none");
}

void print_memory(const json& memory) {
  std::cout << "Memory\n";
  std::string total =
      bytes_of(memory["total_bytes"]) + ", " + bytes_of(memory["available_bytes"]) + " available";
  if (known(memory, "cgroup_limit_bytes")) {
    total += ", limited to " + bytes_of(memory["cgroup_limit_bytes"]);
  }
  print_line("size", total);
  print_line("pages", bytes_of(memory["page_bytes"]) + ", transparent huge pages " +
                          plain(memory["transparent_huge_pages"]));
  print_line("swap", bytes_of(memory["swap_bytes"]));
}

void print_gpus(const json& fingerprint) {
  std::cout << "GPUs\n";
  if (known(fingerprint, "gpus_problem")) print_line("problem", plain(fingerprint["gpus_problem"]));
  if (fingerprint["gpus"].empty()) print_line("none", "");
  int index = 0;
  for (const auto& gpu : fingerprint["gpus"]) {
    print_line(std::to_string(index++), plain(gpu["name"]) + ", " + bytes_of(gpu["memory_bytes"]) +
                                            ", driver " + plain(gpu["driver"]));
    print_line("", "compute capability " + plain(gpu["compute_capability"]) + ", highest clocks " +
                       plain(gpu["max_sm_mhz"]) + " / " + plain(gpu["max_memory_mhz"]) +
                       " MHz, power limit " + plain(gpu["power_limit_watts"]) + " W");
    print_line(
        "", "ECC " + plain(gpu["ecc"]) + ", MIG " + plain(gpu["mig"]) + ", " + plain(gpu["uuid"]));
  }
}

void print_software(const json& fingerprint) {
  const auto& os = fingerprint["os"];
  const auto& libraries = fingerprint["libraries"];
  std::cout << "Software\n";
  print_line("system", plain(os["name"]) + " " + plain(os["version"]) + ", kernel " +
                           plain(os["kernel"]) + ", " + plain(os["libc"]));
  const auto& build = build_info();
  print_line("build", build.version + ", " + build.build_type +
                          (build.sanitizers.empty() ? "" : " with " + build.sanitizers) + ", " +
                          build.compiler + ", " + build.variant_flags);
  const auto& openblas = libraries["openblas"];
  print_line("OpenBLAS", openblas.is_null()
                             ? "none"
                             : plain(openblas["config"]) + ", core " + plain(openblas["core"]) +
                                   ", " + plain(openblas["file"]));
  const auto& openmp = libraries["openmp"];
  print_line("OpenMP", openmp.is_null() ? "none"
                                        : plain(openmp["runtime"]) + ", specification " +
                                              plain(openmp["specification"]));
  print_line("libraries",
             "Eigen " + plain(libraries["eigen"]) + ", Google Benchmark " +
                 plain(libraries["google_benchmark"]) + ", nlohmann/json " +
                 plain(libraries["nlohmann_json"]) + ", CLI11 " + plain(libraries["cli11"]) +
                 (known(libraries, "cuda") ? ", CUDA " + plain(libraries["cuda"]) : std::string()));
}

void print_environment(const json& environment) {
  std::cout << "Environment\n";
  std::string variables;
  for (const auto& [name, value] : environment["variables"].items()) {
    variables += (variables.empty() ? "" : ", ") + name + "=" + plain(value);
  }
  print_line("variables", variables.empty() ? "none that matter" : variables);
  for (const auto& warning : environment["warnings"]) print_line("warning", plain(warning));
  if (!environment["neutralised"].empty()) {
    print_line("neutralised", joined(environment["neutralised"], ", ") + " (for workers)");
  }
}

void print_ceilings(const json& ceilings) {
  const auto& details = ceilings["details"];
  const auto& fma = ceilings["fma_gflops"];
  const auto& gemm = ceilings["gemm_gflops"];
  std::cout << "Ceilings, measured " << plain(details["measured"]) << " with "
            << counted(details["threads"].get<std::size_t>(), "thread", "threads") << "\n";
  print_line("read, memory", rate(ceilings["read_gbytes_per_second"], "GB/s") + " from " +
                                 bytes_of(details["read_bytes"]));
  print_line("read, cache", rate(ceilings["read_gbytes_per_second_cache"], "GB/s") + " from " +
                                bytes_of(details["cache_bytes_per_thread"]) + " per thread");
  print_line("copy", rate(ceilings["copy_gbytes_per_second"], "GB/s") + " read and written, " +
                         plain(details["copy_stores"]) + " stores");
  for (const std::string precision : {"f32", "f64"}) {
    print_line("FMA, " + precision, rate(fma[precision + "_one_thread"], "GFLOP/s") +
                                        " in one thread, " +
                                        rate(fma[precision + "_all_threads"], "GFLOP/s") +
                                        " in all (" + plain(details["instructions"]) + ")");
  }
  for (const char* precision : {"f32", "f64"}) {
    std::string text = rate(gemm[precision], "GFLOP/s");
    if (known(details["gemm_size"], precision)) {
      text += ", size " + plain(details["gemm_size"][precision]) + ", " + plain(gemm["library"]);
    }
    print_line(std::string("GEMM, ") + precision, text);
  }
  print_line("timer", "ticks of " + format_seconds(ceilings["timer"]["resolution_seconds"]) +
                          ", a reading takes " +
                          format_seconds(ceilings["timer"]["overhead_seconds"]));
  for (const auto& note : details["notes"]) print_line("note", plain(note));
  if (details["disturbed"].get<bool>()) {
    print_line("note", "other work took the processor away meanwhile (share left: " +
                           plain(details["cpu_share"]) + "): not kept, measure again");
  }
}

/// "4540 GB/s from 4 GiB"; without the circumstances where nothing was measured.
std::string rate_with(const json& value, const char* unit, const std::string& circumstances) {
  return rate(value, unit) + (value.is_null() ? "" : circumstances);
}

std::string duration(const json& seconds) {
  return seconds.is_null() ? "not measured" : format_seconds(seconds.get<double>());
}

void print_gpu_ceilings(const json& gpu) {
  const auto& details = gpu["details"];
  const auto& bytes = details["bytes"];
  std::cout << "GPU ceilings, measured " << plain(details["measured"]) << " on "
            << plain(details["name"]) << "\n";
  print_line("read, memory",
             rate_with(gpu["read_gbytes_per_second"], "GB/s", " from " + bytes_of(bytes["array"])));
  print_line("read, L2",
             rate_with(gpu["read_gbytes_per_second_l2"], "GB/s", " from " + bytes_of(bytes["l2"])));
  print_line("copy", rate_with(gpu["copy_gbytes_per_second"], "GB/s", " read and written"));
  for (const std::string precision : {"f32", "f64"}) {
    print_line("FMA, " + precision, rate(gpu["fma_gflops"][precision], "GFLOP/s"));
  }
  for (const std::string kind : {"f64", "f32", "tf32", "f16", "bf16", "int8"}) {
    const auto& size = details["gemm_size"][kind == "f64" ? "f64" : "others"];
    print_line(
        "GEMM, " + kind,
        rate_with(gpu["gemm_gflops"].value(kind, json()), kind == "int8" ? "GOP/s" : "GFLOP/s",
                  ", size " + plain(size) + ", cuBLAS " + plain(details["cublas"])));
  }
  print_line("launch", duration(gpu["launch_seconds"]) + "; with waiting " +
                           duration(gpu["launch_and_synchronise_seconds"]) +
                           "; as a graph's node " + duration(gpu["graph_node_seconds"]));
  print_line("grid barrier", duration(gpu["grid_barrier_seconds"]));
  for (const auto& [label, key] : {std::pair{"to the GPU", "host_to_device_gbytes_per_second"},
                                   std::pair{"from the GPU", "device_to_host_gbytes_per_second"}}) {
    print_line(label, "pinned " + rate(gpu[key]["pinned"], "GB/s") + ", pageable " +
                          rate(gpu[key]["pageable"], "GB/s"));
  }
  for (const auto& note : details["notes"]) print_line("note", plain(note));
  if (details["disturbed"].get<bool>()) print_line("note", "disturbed: not kept, measure again");
}

int run_check(const MachineOptions& options) {
  const auto scope = check_scope(usable_threads(), machine_fingerprint());
  const auto conditions = check_machine(scope, options.check_options.seconds);
  const auto doubts = doubtful(conditions, options.check_options.accepted);
  if (options.json) {
    std::cout << json{{"conditions", to_json(conditions)}, {"doubtful", doubts.size()}}.dump(2)
              << "\n";
  } else {
    for (const auto& condition : conditions) {
      std::cout << std::left << std::setw(10) << to_string(condition.state)
                << std::setw(kLabelWidth) << condition.check << condition.detail << "\n";
    }
    std::cout << (doubts.empty() ? std::string("Nothing doubtful was found.")
                                 : counted(doubts.size(), "thing spoils", "things spoil") +
                                       " measurements made now.")
              << "\n";
  }
  return options.strict && !doubts.empty() ? kExitUnusableEnvironment : kExitOk;
}

int run_machine(const MachineOptions& options) {
  if (!options.openblas_worker.empty()) return run_openblas_worker(options.openblas_worker);
  if (options.gpu_worker) return run_gpu_worker(*options.gpu_worker);
  if (options.id) {
    std::cout << machine_id() << "\n";
    return 0;
  }
  undo_thread_binding();
  if (options.check) return run_check(options);
  const auto report = inspect_environment();
  const auto environment =
      environment_context(report, worker_environment(report, usable_threads(), false));
  const auto fingerprint = machine_fingerprint();
  if (options.json) {
    const auto ceilings = options.no_ceilings ? json(nullptr) : measured_ceilings(options.force);
    std::cout << json{{"machine", fingerprint},
                      {"environment", environment},
                      {"ceilings", ceilings}}
                     .dump(2)
              << "\n";
    return 0;
  }
  std::cout << "Machine " << plain(fingerprint["id"]) << "\n";
  print_cpu(fingerprint["cpu"]);
  print_memory(fingerprint["memory"]);
  print_gpus(fingerprint);
  print_software(fingerprint);
  print_environment(environment);
  std::cout << std::flush;
  if (!options.no_ceilings) {
    const auto ceilings = measured_ceilings(options.force);
    print_ceilings(ceilings);
    if (!ceilings["gpu"].is_null()) print_gpu_ceilings(ceilings["gpu"]);
  }
  return 0;
}

}  // namespace

void add_machine_command(CLI::App& app, Action& action) {
  set_worker_program("/proc/self/exe");
  auto options = std::make_shared<MachineOptions>();
  auto* command = app.add_subcommand("machine", "Describe this machine and measure its limits");
  command->add_flag("--json", options->json,
                    "Print JSON: machine, environment and ceilings as in a result file");
  command->add_flag("--id", options->id,
                    "Print only the machine's name, the folder under results/ "
                    "(KMEANS_BENCH_MACHINE sets another)");
  command->add_flag("--no-ceilings", options->no_ceilings, "Measure nothing");
  command->add_flag("--force", options->force,
                    "Measure the ceilings even if they are known from an earlier run");
  auto* check = command->add_flag("--check", options->check,
                                  "Only look for what would spoil a measurement now");
  command
      ->add_flag("--strict", options->strict,
                 "With --check: end with exit status 3 when something is doubtful")
      ->needs(check);
  add_check_options(*command, options->check_options);
  add_device_option(*command);
  command->add_option("--openblas-worker", options->openblas_worker)
      ->check(CLI::IsMember({"info", "gemm"}))
      ->group("");
  command->add_option("--gpu-worker", options->gpu_worker)->check(CLI::PositiveNumber)->group("");
  command->footer(
      "The ceilings are the best of several repetitions (docs/machine.md); they take about ten "
      "seconds, ten more with a GPU, and are kept for the next run.");
  command->callback([options, &action] { action = [options] { return run_machine(*options); }; });
}

}  // namespace kmeans
