// SPDX-License-Identifier: Apache-2.0
//
// What a reproduction found, counted and as JSON, and how build and machine differ from the record's.
#include <algorithm>
#include <array>
#include <numeric>

#include "harness/machine/machine.h"
#include "harness/run/reproduce_parts.h"
#include "harness/support/build_info.h"
#include "harness/support/text.h"

namespace kmeans {

using namespace reproduce_parts;
using nlohmann::json;

namespace {

constexpr std::array<Reproduced, 4> kVerdicts{Reproduced::equal, Reproduced::agrees,
                                              Reproduced::differs, Reproduced::not_run};

std::vector<std::string> names_of_gpus(const json& gpus) {
  std::vector<std::string> names;
  if (gpus.is_array()) {
    for (const auto& gpu : gpus) names.push_back(text_of(member(gpu, "name")));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

const char* to_string(Reproduced verdict) {
  switch (verdict) {
    case Reproduced::equal: return "equal";
    case Reproduced::agrees: return "agrees";
    case Reproduced::differs: return "differs";
    case Reproduced::not_run: return "not run";
  }
  return "";
}

void VerdictCounts::add(const VerdictCounts& others) {
  for (const Reproduced verdict : kVerdicts) counts_[index(verdict)] += others.of(verdict);
}

std::size_t VerdictCounts::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::size_t{0});
}

json VerdictCounts::to_json() const {
  json counts = json::object();
  for (const Reproduced verdict : kVerdicts) counts[to_string(verdict)] = of(verdict);
  return counts;
}

std::string VerdictCounts::text(bool zeros) const {
  std::vector<std::string> texts;
  for (const Reproduced verdict : kVerdicts) {
    if (!zeros && of(verdict) == 0) continue;
    texts.push_back(std::to_string(of(verdict)) + " " + to_string(verdict));
  }
  return joined(texts, ", ");
}

std::string Finding::title() const {
  return part + " " + valid_utf8(name) + (by.empty() ? "" : " (by " + by + ")");
}

std::string Finding::text() const {
  return std::string(to_string(judgement.verdict)) + ": " + title() +
         (judgement.detail.empty() ? "" : ": " + judgement.detail);
}

VerdictCounts FileReport::counts() const {
  VerdictCounts counts;
  for (const Finding& finding : findings) counts.add(finding.judgement.verdict);
  return counts;
}

VerdictCounts FileReport::counts(const std::string& part) const {
  VerdictCounts counts;
  for (const Finding& finding : findings) {
    if (finding.part == part) counts.add(finding.judgement.verdict);
  }
  return counts;
}

std::vector<std::string> surroundings_differences(const json& context) {
  std::vector<std::string> differences;
  const BuildInfo& build = build_info();
  const json suite = member(context, "suite");
  const auto compare = [&](const std::string& what, const json& recorded, const json& here) {
    if (recorded != here) differences.push_back(was_and_is(what, recorded, here));
  };
  compare("commit", member(suite, "git_commit"), build.git_commit);
  if (member(suite, "git_dirty") != false) differences.emplace_back("local changes on record");
  if (build.git_dirty) differences.emplace_back("local changes here");
  compare("build type", member(suite, "build_type"), build.build_type);
  compare("sanitizers", member(suite, "sanitizers"), build.sanitizers);
  compare("compiler", member(suite, "compiler"), build.compiler);
  compare("options of the variants", member(suite, "variant_flags"), build.variant_flags);
  compare("CUDA", member(suite, "cuda"), build.cuda);
  // What -march=native makes of the code is the processor's affair.
  static const json kMachine = machine_fingerprint();
  const json machine = member(context, "machine");
  compare("processor", member(member(machine, "cpu"), "model"),
          member(member(kMachine, "cpu"), "model"));
  if (member(member(machine, "cpu"), "flags") != member(member(kMachine, "cpu"), "flags")) {
    differences.emplace_back("other instruction sets");
  }
  const auto gpus = names_of_gpus(member(machine, "gpus"));
  const auto gpus_here = names_of_gpus(member(kMachine, "gpus"));
  if (gpus != gpus_here) {
    differences.push_back("GPUs: " + (gpus.empty() ? "none" : joined(gpus, ", ")) + " on record, " +
                          (gpus_here.empty() ? "none" : joined(gpus_here, ", ")) + " here");
  }
  return differences;
}

json to_json(const std::vector<FileReport>& reports) {
  json files = json::array();
  VerdictCounts totals;
  for (const auto& report : reports) {
    json findings = json::array();
    for (const auto& finding : report.findings) {
      findings.push_back(
          {{"part", finding.part},
           {"name", finding.name},
           {"verdict", to_string(finding.judgement.verdict)},
           {"detail",
            finding.judgement.detail.empty() ? json(nullptr) : json(finding.judgement.detail)},
           {"by", finding.by.empty() ? json(nullptr) : json(finding.by)},
           {"promised", finding.promised},
           {"estimated_seconds", finding.estimated_seconds}});
    }
    totals.add(report.counts());
    const json suite = member(report.file->context, "suite");
    files.push_back({{"file", report.file->path.filename().string()},
                     {"experiment", report.file->experiment},
                     {"scale", report.file->scale},
                     {"machine", report.file->machine},
                     {"git_commit", member(suite, "git_commit")},
                     {"surroundings", report.surroundings},
                     {"counts", report.counts().to_json()},
                     {"without_answer", report.without_answer},
                     {"findings", std::move(findings)}});
  }
  const BuildInfo& build = build_info();
  return {{"reproduction_version", 1},
          {"here",
           {{"machine", machine_id()},
            {"git_commit", build.git_commit},
            {"git_dirty", build.git_dirty},
            {"compiler", build.compiler},
            {"variant_flags", build.variant_flags}}},
          {"counts", totals.to_json()},
          {"files", std::move(files)}};
}

}  // namespace kmeans
