// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/commands.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/machine/gpu.h"
#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/text.h"
#include "harness/variants/plugins.h"
#include "harness/variants/registry.h"

namespace kmeans {
namespace {

std::string join(const std::vector<Precision>& precisions) {
  std::string text;
  for (const Precision precision : precisions) {
    text += (text.empty() ? "" : " ") + std::string(to_string(precision));
  }
  return text;
}

int print_list() {
  std::size_t width = 4;
  for (const auto& variant : all_variants()) width = std::max(width, variant.traits.name.size());
  for (const auto& backend : missing_backends()) {
    for (const auto& name : backend.variants) width = std::max(width, name.size());
  }
  const auto w = static_cast<int>(width);
  std::printf("%-*s  %-9s  %-5s  %s\n", w, "name", "precision", "exact", "idea");
  for (const auto& variant : all_variants()) {
    const auto& traits = variant.traits;
    std::printf("%-*s  %-9s  %-5s  %s", w, traits.name.c_str(), join(traits.precisions).c_str(),
                traits.exact ? "yes" : "", traits.summary.c_str());
    if (!traits.source.empty()) std::printf(" [%s]", traits.source.c_str());
    std::printf("\n");
    if (const Support available = availability(variant); !available.ok) {
      std::printf("%-*s  unavailable: %s\n", w, "", available.reason.c_str());
    }
  }
  for (const auto& backend : missing_backends()) {
    for (const auto& name : backend.variants) {
      std::printf("%-*s  unavailable: %s\n", w, name.c_str(), backend.reason.c_str());
    }
  }
  const GpuStatus& status = gpu_status();
  std::printf("\n");
  if (const std::string missing = missing_source_tree(); !missing.empty()) {
    std::printf("Python variants: none, since %s\n", missing.c_str());
  }
  for (const auto& device : status.devices) {
    std::printf("GPU %d: %s, compute capability %d.%d, %s, %s\n", device.index, device.name.c_str(),
                device.major, device.minor,
                format_bytes(static_cast<double>(device.memory_bytes)).c_str(),
                device.uuid.c_str());
  }
  if (!status.problem.empty()) std::printf("GPU: %s\n", status.problem.c_str());
  return kExitOk;
}

/// {"variants": [...], "missing_backends": [...]}
nlohmann::json list_variants() {
  nlohmann::json variants = nlohmann::json::array();
  for (const auto& variant : all_variants()) {
    const auto& traits = variant.traits;
    const Support available = availability(variant);
    nlohmann::json precisions = nlohmann::json::array();
    for (const Precision precision : traits.precisions) precisions.push_back(to_string(precision));
    variants.push_back(
        {{"name", traits.name},
         {"backend", variant.backend},
         {"summary", traits.summary},
         {"source", traits.source},
         {"precisions", precisions},
         {"exact", traits.exact},
         {"deterministic", traits.deterministic},
         {"parallel", traits.parallel},
         {"skips_work", traits.skips_work},
         {"distance", traits.distance == Distance::direct ? "direct" : "expanded"},
         {"labels_of", traits.labels_of == LabelsOf::starting ? "starting" : "returned"},
         {"empty_clusters", traits.empty_clusters == EmptyClusters::keep ? "keep" : "relocate"},
         {"timing_note", traits.timing_note},
         {"setup_note", traits.setup_note},
         {"gpu", traits.gpu},
         {"wrong_because", traits.wrong_because},
         {"available", available.ok},
         {"reason", available.ok ? nlohmann::json(nullptr) : nlohmann::json(available.reason)}});
  }
  nlohmann::json missing = nlohmann::json::array();
  for (const auto& backend : missing_backends()) {
    missing.push_back(
        {{"name", backend.name}, {"reason", backend.reason}, {"variants", backend.variants}});
  }
  const GpuStatus& status = gpu_status();
  nlohmann::json gpus = nlohmann::json::array();
  for (const auto& device : status.devices) {
    gpus.push_back(
        {{"index", device.index},
         {"name", device.name},
         {"uuid", device.uuid},
         {"compute_capability", std::to_string(device.major) + "." + std::to_string(device.minor)},
         {"memory_bytes", device.memory_bytes}});
  }
  return {{"variants", variants},
          {"missing_backends", missing},
          {"gpus", gpus},
          {"gpu_problem",
           status.problem.empty() ? nlohmann::json(nullptr) : nlohmann::json(status.problem)}};
}

}  // namespace

void add_list_command(CLI::App& app, Action& action) {
  auto json = std::make_shared<bool>(false);
  auto* list = app.add_subcommand("list", "All variants: what they are, whether they run here");
  list->add_flag("--json", *json, "Machine-readable");
  add_plugin_option(*list);
  list->callback([json, &action] {
    action = [json] {
      if (!*json) return print_list();
      std::printf("%s\n", list_variants().dump(2).c_str());
      return static_cast<int>(kExitOk);
    };
  });
}

}  // namespace kmeans
