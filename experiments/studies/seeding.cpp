// SPDX-License-Identifier: Apache-2.0
//
// Question:  what do ways to choose first centroids cost, and what are they worth? Time of the
//            choice, its potential (the inertia of the first assignment), the iterations that
//            Lloyd's algorithm has left, and the inertia where it ends
// Method:    each way over several seeds: the suite's own by their --init name, those of libraries
//            by datasets/choose_centroids.py. Lloyd's iterations by an exact engine until no label
//            changes, so that nothing but the start distinguishes the ways; inertia in float64
// Time:      the call alone, points in memory, after one on a small array; a library's in a process
//            of its own, by its own clock
#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "datasets/plus_plus.h"
#include "datasets/points.h"
#include "datasets/python_script.h"
#include "datasets/ward.h"
#include "experiments/studies/_common.h"
#include "harness/machine/gpu.h"
#include "harness/machine/kept_gpu_memory.h"
#include "harness/support/errors.h"
#include "harness/support/gpu_seeding.h"
#include "harness/support/json_file.h"
#include "harness/support/largest_abs.h"
#include "harness/support/parallel.h"
#include "harness/support/temporary_folder.h"
#include "harness/variants/registry.h"
#include "harness/verify/session.h"

namespace kmeans::studies::seeding {
namespace {

constexpr const char* kGreedy = "scikit-learn-greedy";  // what times are compared with

struct Plan {
  std::vector<std::string> inits;
  std::vector<std::string> gpu_inits;
  std::vector<std::string> libraries;
  std::int64_t seeds = 0;
  std::int64_t repeats = 0;
  std::int64_t iterations = 0;
};

/// What one way chose, k x d for each seed, and its times.
struct Chosen {
  std::vector<std::vector<float>> centroids;
  std::vector<double> seconds;
  std::vector<double> gpu_seconds;  // of those, once the points are in the GPU's memory
  std::string library;              // name and version; empty for the suite's own
  std::string note;
  std::string absent;  // why there is nothing
};

/// Where Lloyd's algorithm led from one start.
struct Ends {
  std::vector<double> potential;
  std::vector<double> iterations;
  std::vector<double> inertia;
  bool settled = true;
};

Chosen by_init(const Points& points, std::int64_t k, const std::string& init, const Plan& plan) {
  const auto spec = [&](std::int64_t seed) {
    return parse_init(init + ":" + std::to_string(seed));
  };
  const json small{{"generator", "uniform"}, {"n", 1000}, {"d", points.d()}};
  initial_centroids(generate(parse_dataset(small), ScalarType::f32), 8, spec(0));
  Chosen chosen;
  for (std::int64_t seed = 1; seed <= plan.seeds; ++seed) {
    Points found;
    for (std::int64_t repeat = 0; repeat < plan.repeats; ++repeat) {
      const auto start = std::chrono::steady_clock::now();
      found = initial_centroids(points, k, spec(seed));
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      chosen.seconds.push_back(taken.count());
    }
    chosen.centroids.emplace_back(found.data<float>(), found.data<float>() + k * points.d());
  }
  return chosen;
}

/// Chooses on the GPU in use: kmeans++ and ward.
Chosen by_gpu(const Points& points, std::int64_t k, const std::string& init, const Plan& plan) {
  Chosen chosen;
  if (gpu_board_factory() == nullptr || current_gpu() == nullptr) {
    chosen.absent =
        gpu_board_factory() == nullptr ? "this build has no CUDA" : gpu_status().problem;
    return chosen;
  }
  keep_gpu_memory(true);  // as a later call of the library has it
  const bool ward = init == "ward";
  const std::int64_t most = ward ? ward_seeds(points.n(), k) : k;
  for (std::int64_t seed = 0; seed <= plan.seeds; ++seed) {
    std::vector<float> found;
    for (std::int64_t repeat = 0; repeat < plan.repeats; ++repeat) {
      const auto start = std::chrono::steady_clock::now();
      SeedingProblem<float> problem{
          .points = points.data<float>(), .n = points.n(), .d = points.d()};
      problem.threads = usable_processors();
      problem.max_abs = largest_abs(problem.points, problem.n * problem.d, problem.threads);
      const auto board = gpu_board_factory()(problem, most, chosen.absent);
      if (board == nullptr) return chosen;
      const auto uploaded = std::chrono::steady_clock::now();
      const auto number = static_cast<std::uint64_t>(seed);
      if (ward) {
        found = ward_centroids(problem, k, number, *board);
      } else {
        found.clear();
        for (const auto row : plus_plus_rows(problem, k, number, *board)) {
          const float* point = problem.points + row * problem.d;
          found.insert(found.end(), point, point + problem.d);
        }
      }
      const auto end = std::chrono::steady_clock::now();
      if (seed == 0) continue;  // the first call starts CUDA
      chosen.seconds.push_back(std::chrono::duration<double>(end - start).count());
      chosen.gpu_seconds.push_back(std::chrono::duration<double>(end - uploaded).count());
    }
    if (found.empty()) {
      chosen = {};
      chosen.absent = "there are fewer cells than k";
      return chosen;
    }
    if (seed > 0) chosen.centroids.push_back(std::move(found));
  }
  return chosen;
}

/// Of one exact iteration from given centroids, the best of some: labels of all points, and their means.
double iteration_seconds(const RegisteredVariant& engine, const Problem<float>& problem,
                         const std::vector<float>& start) {
  Session<float> session(engine, problem, start.data());
  double least = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < 3; ++repeat) {
    session.reset();
    const auto begin = std::chrono::steady_clock::now();
    session.step(1);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    least = std::min(least, taken.count());
  }
  return least;
}

Chosen by_library(const Points& points, std::int64_t k, const std::string& way, const Plan& plan,
                  const std::string& points_file, int threads) {
  const TemporaryFolder folder("seeding");
  const auto out = folder / "centroids.npy";
  const auto report = folder / "report.json";
  std::string file = points_file;
  if (file.empty()) {
    file = (folder / "points.npy").string();
    write_npy(file, points);
  }
  const ScriptOutcome outcome = run_python_script(
      "choose_centroids.py",
      {file, "--way", way, "--k", std::to_string(k), "--seeds", std::to_string(plan.seeds),
       "--repeats", std::to_string(plan.repeats), "--threads", std::to_string(threads), "--out",
       out.string(), "--report", report.string()});
  Chosen chosen;
  if (!outcome.failure.empty()) {
    chosen.absent = outcome.failure;
    return chosen;
  }
  try {
    const json said = read_json_file(report);
    chosen.library = said.at("library").get<std::string>();
    chosen.note = said.at("note").get<std::string>();
    for (const auto& repeats : said.at("seconds")) {
      for (const auto& seconds : repeats) chosen.seconds.push_back(seconds.get<double>());
    }
    const Points all = load_points(out, {.scalar = ScalarType::f32});
    const std::int64_t size = k * points.d();
    if (all.n() != plan.seeds * k || all.d() != points.d()) {
      throw InputError("it gave " + std::to_string(all.n()) + " x " + std::to_string(all.d()) +
                       " coordinates");
    }
    for (std::int64_t seed = 0; seed < plan.seeds; ++seed) {
      const float* first = all.data<float>() + seed * size;
      chosen.centroids.emplace_back(first, first + size);
    }
  } catch (const std::exception& error) {  // centroids that are not finite, for example
    chosen = {};
    chosen.absent = error.what();
  }
  return chosen;
}

const RegisteredVariant& engine() {
  const RegisteredVariant* fast = exact_engine(EngineOn::threads);
  return fast != nullptr ? *fast : definition();
}

void follow(const Problem<float>& problem, const std::vector<float>& start, std::int64_t most,
            Ends& ends) {
  Session<float> session(engine(), problem, start.data());
  session.reset();
  std::vector<float> owners = start;
  std::vector<std::int32_t> before;
  for (std::int64_t iteration = 1;; ++iteration) {
    session.step(1);
    kmeans::Outcome<float> outcome = session.fetch();
    const bool settled = outcome.labels == before;
    const auto inertia_now = [&] {
      return quality_of(problem.points, owners.data(), outcome.labels.data(), problem.shape,
                        problem.threads)
          .inertia;
    };
    if (iteration == 1) ends.potential.push_back(inertia_now());
    if (settled || iteration == most) {
      ends.inertia.push_back(inertia_now());
      ends.iterations.push_back(static_cast<double>(iteration));
      ends.settled = ends.settled && settled;
      return;
    }
    owners = std::move(outcome.centroids);
    before = std::move(outcome.labels);
  }
}

double smallest(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

/// Median, smallest and largest; null where there are no values.
void add(json& row, const std::string& key, const std::vector<double>& values, double unit = 1) {
  const auto value = [&](double (*of)(const std::vector<double>&)) {
    return values.empty() ? json(nullptr) : number_or_null(of(values) / unit);
  };
  row[key] = value([](const std::vector<double>& all) { return median(all); });
  row[key + "_min"] = value(smallest);
  row[key + "_max"] = value(largest);
}

/// Values over an inertia, which is 0 where k centroids hold all points.
std::vector<double> over(std::vector<double> values, double inertia) {
  for (double& value : values) value = value == inertia ? 1 : value / inertia;
  return values;
}

StudyOutput run(const StudyInput& input) {
  Parameters parameters(input);
  const Plan plan{.inits = parameters.names("inits", {"random", "kmeans++"}),
                  .gpu_inits = parameters.names("gpu_inits", {}),
                  .libraries = parameters.names("libraries", {}),
                  .seeds = parameters.integer("seeds", 5, 1, 1000),
                  .repeats = parameters.integer("repeats", 1, 1, 1000),
                  .iterations = parameters.integer("iterations", 1000, 1, 1000000)};
  parameters.finish();
  for (const auto& init : plan.inits) parse_init(init + ":1");
  for (const auto& init : plan.gpu_inits) {
    if (init == "kmeans++" || init == "ward") continue;
    throw InputError("gpu_inits: '" + init + "' is not chosen on a GPU; kmeans++ and ward are");
  }

  const Points points(nullptr, input.points, input.n, input.d, ScalarType::f32);
  const Problem<float> problem{
      .shape = {input.n, input.d, input.k},
      .points = input.points,
      .max_abs = largest_abs(input.points, input.n * input.d, input.threads),
      .threads = input.threads,
      .points_file = input.points_file};
  StudyOutput output;
  std::vector<std::string> names;
  std::vector<Chosen> ways;
  for (const auto& init : plan.inits) {
    names.push_back(init);
    ways.push_back(by_init(points, input.k, init, plan));
  }
  for (const auto& init : plan.gpu_inits) {
    names.push_back(init + ", GPU");
    ways.push_back(by_gpu(points, input.k, init, plan));
  }
  for (const auto& library : plan.libraries) {
    names.push_back(library);
    ways.push_back(by_library(points, input.k, library, plan, input.points_file, input.threads));
  }

  std::vector<Ends> ends(ways.size());
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t way = 0; way < ways.size(); ++way) {
    for (const auto& start : ways[way].centroids) {
      follow(problem, start, plan.iterations, ends[way]);
      least = std::min(least, ends[way].inertia.back());
    }
  }
  const auto greedy = std::find(names.begin(), names.end(), kGreedy) - names.begin();
  const bool compared = greedy < std::ssize(names) && !ways[greedy].seconds.empty();
  for (std::size_t way = 0; way < ways.size(); ++way) {
    const bool own = way < plan.inits.size() + plan.gpu_inits.size();
    const bool on_gpu = own && way >= plan.inits.size();
    json row{{"way", names[way]}, {"library", own ? json(nullptr) : json(names[way])}};
    add(row, "seconds", ways[way].seconds);
    add(row, "gpu_seconds", ways[way].gpu_seconds);
    const RegisteredVariant* its = on_gpu ? find_variant("cuda_best") : &engine();
    const auto& taken = on_gpu ? ways[way].gpu_seconds : ways[way].seconds;
    row["seconds_over_iteration"] =
        own && its != nullptr && !taken.empty()
            ? number_or_null(median(taken) /
                             iteration_seconds(*its, problem, ways[way].centroids.front()))
            : json(nullptr);
    row["seconds_over_greedy"] =
        compared && !ways[way].seconds.empty()
            ? json(median(ways[way].seconds) / median(ways[greedy].seconds))
            : json(nullptr);
    add(row, "potential", ends[way].potential);
    add(row, "potential_over_best", over(ends[way].potential, least));
    add(row, "iterations", ends[way].iterations);
    add(row, "inertia", ends[way].inertia);
    add(row, "inertia_over_best", over(ends[way].inertia, least));
    row["inertia_over_greedy"] =
        compared && !ends[way].inertia.empty()
            ? number_or_null(over({median(ends[way].inertia)}, median(ends[greedy].inertia))[0])
            : json(nullptr);
    output.rows.push_back(std::move(row));
  }

  output.notes = {
      "Seconds are of the call alone, points in memory, after one on a small array; a library's in "
      "a process of its own, by its own clock."};
  if (input.threads != usable_processors()) {
    output.notes.push_back("The suite's own ways use all " + std::to_string(usable_processors()) +
                           " processors, libraries " + std::to_string(input.threads) + ".");
  }
  for (std::size_t way = 0; way < ways.size(); ++way) {
    if (!ways[way].absent.empty()) {
      output.notes.push_back("Left out: " + names[way] + " (" + ways[way].absent + ")");
      continue;
    }
    if (!ways[way].library.empty()) {
      output.notes.push_back(names[way] + " (" + ways[way].library + ") " + ways[way].note);
    }
    if (!ends[way].settled) {
      output.notes.push_back(names[way] + ": labels still changed after " +
                             std::to_string(plan.iterations) + " iterations.");
    }
  }
  if (!plan.libraries.empty()) {
    output.notes.emplace_back(
        "Libraries choose the same centroids in every run of one version on one kind of processor; "
        "elsewhere rounding may change a choice.");
  }
  for (const char* key : {"potential_over_best", "inertia_over_best"}) {
    for (const char* end : {"", "_min", "_max"}) output.varying.push_back(std::string(key) + end);
  }
  for (const char* key : {"seconds", "seconds_min", "seconds_max", "gpu_seconds", "gpu_seconds_min",
                          "gpu_seconds_max", "seconds_over_iteration", "seconds_over_greedy",
                          "inertia_over_greedy"}) {
    output.varying.emplace_back(key);
  }
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "seeding",
             .summary = "What ways to choose first centroids cost, and what they are worth",
             .source = "", .needs_data = true, .run = run);

}  // namespace kmeans::studies::seeding
