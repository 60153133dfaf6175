// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/commands.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "datasets/dataset.h"
#include "harness/commands/csv_options.h"
#include "harness/exact_step.h"
#include "harness/machine/gpu.h"
#include "harness/machine/gpu_option.h"
#include "harness/machine/machine.h"
#include "harness/machine/ranks.h"
#include "harness/run/fit_choice.h"
#include "harness/run/fit_length.h"
#include "harness/run/follow.h"
#include "harness/run/out_folder.h"
#include "harness/support/atomic_file.h"
#include "harness/support/errors.h"
#include "harness/support/gpu_seeding.h"
#include "harness/support/granted.h"
#include "harness/support/json_file.h"
#include "harness/support/mean_variance.h"
#include "harness/support/memory_left.h"
#include "harness/support/option_checks.h"
#include "harness/support/precision.h"
#include "harness/support/text.h"
#include "harness/support/whole_weights.h"
#include "harness/variants/plugins.h"
#include "harness/verify/ranked_seeding.h"
#include "harness/verify/ranked_variant.h"
#include "harness/verify/resolution.h"
#include "harness/verify/session.h"

namespace kmeans {
namespace {

constexpr const char* kOfGpus = "nccl_exact";
constexpr const char* kOfLittleMemory = "openmp_blocks";
constexpr const char* kOfLittleGpuMemory = "cuda_blocks";

// Of several ranks the one that is for them.
std::string default_variant() {
  constexpr const char* kOfRanks = "mpi_exact";
  if (process_ranks().size() > 1 && find_variant(kOfRanks) != nullptr) return kOfRanks;
  return variant_of_fits().traits.name;
}

struct FitOptions {
  std::string file;
  std::int64_t k = 0;
  std::string variant = default_variant();
  bool variant_is_chosen = false;
  std::string precision;
  std::string init = "ward:1";
  std::string weights;
  std::string metric = "euclidean";
  std::int64_t iterations = 0;
  std::string stop;
  std::optional<double> tol;
  int threads = 0;
  std::string out;
  std::string why;  ///< Of the variant, where it was chosen between processor and GPU.
  CsvColumns csv;
  bool json = false;
  bool quiet = false;
};

// Says what the precision, or the exact step, cannot do with these points. Throws InputError where
// there would not be an answer.
template <class T>
void check_range(const Problem<T>& problem, const Traits& traits) {
  const auto [n, d, k, precision] = problem.shape;
  if constexpr (std::is_same_v<T, float>) {
    const std::string lost =
        problem.counted.weights != nullptr
            ? lost_by_fixed_point_at(problem.points, n, d, problem.counted, problem.threads)
            : lost_by_fixed_point_at(problem.points, n, d, problem.max_abs, problem.threads);
    if (!lost.empty() && traits.exact) throw InputError(lost);
    if (!lost.empty()) {
      std::fprintf(stderr, "kmeans-bench: note: %s; %s is not exact\n", lost.c_str(),
                   traits.name.c_str());
    }
  }
  // Exact variants form distances in float64 whatever their points are.
  const bool wide = traits.exact || precision == Precision::f64;
  const double largest = wide ? std::numeric_limits<double>::max()
                              : static_cast<double>(std::numeric_limits<float>::max());
  const double smallest = wide ? std::numeric_limits<double>::min()
                               : static_cast<double>(std::numeric_limits<float>::min());
  const auto max_abs = static_cast<double>(problem.max_abs);
  // Squared distances are at most d (2 max|x|)^2; where max|x| squared underflows, all do.
  if (max_abs > std::sqrt(largest / static_cast<double>(d)) / 2) {
    std::fprintf(
        stderr,
        "kmeans-bench: warning: coordinates up to %.3g: their squared distances may exceed "
        "the range of %s (%.2g); rescale the points%s\n",
        max_abs, wide ? "float64" : "float32", largest, wide ? "" : ", or use f64");
  } else if (max_abs > 0 && max_abs * 0x1p-12 < std::sqrt(smallest)) {
    std::fprintf(stderr,
                 "kmeans-bench: warning: coordinates of at most %.3g: squares of their differences "
                 "vanish in %s (below %.2g); rescale the points%s\n",
                 max_abs, wide ? "float64" : "float32", smallest, wide ? "" : ", or use f64");
  }
}

// What of an answer is not finite; empty if all is.
template <class T>
std::string not_finite(const IterationRecord& last, const std::vector<T>& centroids) {
  std::string what;
  const auto add = [&](bool finite, const char* name) {
    if (!finite) what += (what.empty() ? "" : ", ") + std::string(name);
  };
  add(std::all_of(centroids.begin(), centroids.end(), [](T c) { return std::isfinite(c); }),
      "centroids");
  add(std::isfinite(last.inertia), "inertia");
  add(std::isfinite(last.loss), "loss");
  return what;
}

/// Nothing that is read may be replaced by what is written.
void check_fit_outputs(const FitOptions& options, const InitSpec& init) {
  if (options.out.empty()) return;
  std::vector<NamedFile> inputs{{"the points", options.file}};
  if (init.method == InitSpec::Method::file) inputs.push_back({"the initial centroids", init.file});
  if (!options.weights.empty()) inputs.push_back({"--weights", options.weights});
  std::vector<NamedFile> outputs;
  for (const char* name : {"centroids.npy", "labels.npy", "summary.json"}) {
    outputs.push_back({std::string("--out: ") + name, std::filesystem::path(options.out) / name});
  }
  check_outputs(outputs, inputs);
}

bool by_cosine(const FitOptions& options) { return options.metric == "cosine"; }

/// Where every rank can read its rows by itself. What is in another format, rank 0 reads and sends.
std::string file_for_ranks(const FitOptions& options) {
  const std::filesystem::path file = options.file;
  // Rows of length one are rank 0's to send.
  const bool mapped =
      process_ranks().size() > 1 && file.extension() == ".npy" && !by_cosine(options);
  return mapped ? std::filesystem::absolute(file).string() : "";
}

/// Those that could do it, of the variants that share their work among the ranks and GPUs there are.
std::string variants_with(bool Traits::*what) {
  std::string names;
  for (const auto& variant : all_variants()) {
    const Traits& traits = variant.traits;
    if (!(traits.*what) || (process_ranks().size() > 1 && !traits.shards)) continue;
    if (gpus_in_use() > 1 && !traits.many_gpus) continue;
    names += (names.empty() ? "" : ", ") + traits.name;
  }
  return names;
}

/// One of several copies that do the same work would be of no use to anyone.
void refuse_idle_ranks(const RegisteredVariant& registered) {
  const int ranks = process_ranks().size();
  if (ranks == 1 || registered.traits.shards) return;
  throw InputError(registered.traits.name + " needs all points, so " + std::to_string(ranks) +
                   " ranks cannot share its work; these can: " + variants_with(&Traits::shards));
}

/// The same of GPUs.
void refuse_idle_gpus(const RegisteredVariant& registered) {
  if (gpus_in_use() == 1 || registered.traits.many_gpus) return;
  throw InputError(registered.traits.name + " shares its points among no GPUs, so --gpus " +
                   std::to_string(gpus_in_use()) + " would leave them idle; " + kOfGpus + " does");
}

/// Who takes weights?
void refuse_unused_weights(const FitOptions& options, const RegisteredVariant& registered) {
  if (options.weights.empty() || registered.traits.weights) return;
  throw InputError("--weights: " + registered.traits.name +
                   " takes none; these do: " + variants_with(&Traits::weights));
}

/// Who takes rows and centroids of length one?
void refuse_other_metric(const FitOptions& options, const RegisteredVariant& registered,
                         Precision precision) {
  if (!by_cosine(options)) return;
  if (!registered.traits.spherical) {
    throw InputError("--metric cosine: " + registered.traits.name +
                     " does not take it; these do: " + variants_with(&Traits::spherical));
  }
  if (precision != Precision::f32) {
    throw InputError("--metric cosine: takes f32, not " + std::string(to_string(precision)));
  }
}

/// Rows of length one (docs/exact-step.md).
Points unit_rows(const Points& points) {
  const auto [n, d] = std::pair(points.n(), points.d());
  const auto* const given = points.data<float>();
  const auto rows = std::make_shared<std::vector<float>>(n * d);
  float* const unit = rows->data();
  for (std::int64_t i = 0; i < n; ++i) exact::unit_row(given + i * d, d, unit + i * d);
  return {rows, unit, n, d, ScalarType::f32};
}

/// The weights of a file, one a point; empty without a file.
struct FileWeights {
  std::vector<double> given;
  WholeWeights whole;
};

FileWeights load_weights(const FitOptions& options, std::int64_t n) {
  FileWeights weights;
  if (options.weights.empty()) return weights;
  const Points file = load_points(options.weights, {.scalar = ScalarType::f64});
  if (file.d() != 1 || file.n() != n) {
    throw InputError(options.weights + ": has " + std::to_string(file.n()) + " x " +
                     std::to_string(file.d()) + " numbers; one weight for each of " +
                     std::to_string(n) + " points is needed");
  }
  weights.given.assign(file.data<double>(), file.data<double>() + n);
  try {
    weights.whole = whole_weights(weights.given.data(), n);
  } catch (const std::invalid_argument& error) {
    throw InputError(options.weights + ": " + error.what());
  }
  return weights;
}

template <class T>
CountedPoints<T> counted_points(const FileWeights& weights, const Problem<T>& problem) {
  if (weights.given.empty()) return {};
  const std::int64_t* whole = weights.whole.of_points.data();
  return {.weights = whole,
          .scale_n = weights.whole.scale_n,
          .max_abs = largest_weighted_abs(problem.points, problem.shape.n, problem.shape.d, whole),
          .given = weights.given.data()};
}

/// What nobody has chosen must fit: where the default variant's own memory does not, the one that takes the
/// points block by block, and a line says so. A mapped file's pages come and go, and do not count.
const RegisteredVariant& that_fits(const FitOptions& options, const RegisteredVariant& chosen,
                                   const Shape& shape, int threads, double available) {
  const auto* blocks = find_variant(kOfLittleMemory);
  if (options.variant_is_chosen || process_ranks().size() > 1 || blocks == nullptr) return chosen;
  if (!options.weights.empty() || by_cosine(options)) return chosen;
  if (!chosen.traits.memory_bytes || !takes(blocks->traits, shape.precision)) return chosen;
  const Sizes s = shape;
  const double need = chosen.traits.memory_bytes(shape, threads) + 12 * s.n;
  // Of a limit on addresses a mapping takes its part.
  const double mapped = address_space_left() ? s.scalar * s.n * s.d : 0;
  if (need + mapped <= available) return chosen;
  std::fprintf(stderr,
               "kmeans-bench: note: %s needs %s of memory besides the points, has %s: %s takes the "
               "points from where they lie, block by block, in every iteration\n",
               chosen.traits.name.c_str(), format_bytes(need).c_str(),
               format_bytes(available).c_str(), kOfLittleMemory);
  return *blocks;
}

/// What runs where nobody chooses, if a GPU could, and `why`.
const RegisteredVariant& that_is_quicker(const FitOptions& options, const RegisteredVariant& chosen,
                                         const Shape& shape, int threads, std::string& said) {
  if (options.variant_is_chosen || gpus_in_use() > 1 || process_ranks().size() > 1) return chosen;
  std::string why;
  const std::int64_t iterations = options.iterations > 0 ? options.iterations : kIterationsOfFit;
  const bool counted = !options.weights.empty() || by_cosine(options);
  const RegisteredVariant& quicker = variant_for_fit(shape, iterations, threads, counted, why);
  if (const double need = device_memory_need(quicker, shape, 1, counted); need > 0) {
    // Others may have some of the GPU's memory; nobody asked for a GPU.
    const auto memory = gpu_memory();
    if (!memory ||
        need > static_cast<double>(at_most_granted(kGrantedGpuMemory, memory->free_bytes))) {
      return chosen;
    }
  }
  said = why;
  return quicker;
}

/// Of a GPU that does not hold the points, in place of an exact variant the one that is sent them block by
/// block, with the same bits, and a line says so.
const RegisteredVariant& that_fits_gpu(const FitOptions& options, const RegisteredVariant& chosen,
                                       const Shape& shape) {
  const auto* blocks = find_variant(kOfLittleGpuMemory);
  const double need = device_memory_need(chosen, shape);
  if (need == 0 || blocks == nullptr || !chosen.traits.exact || gpus_in_use() > 1) return chosen;
  if (!takes(blocks->traits, shape.precision) || chosen.traits.name == kOfLittleGpuMemory) {
    return chosen;
  }
  if (!options.weights.empty() || by_cosine(options)) return chosen;
  const auto memory = gpu_memory();
  if (!memory) return chosen;
  const auto free = static_cast<double>(at_most_granted(kGrantedGpuMemory, memory->free_bytes));
  if (need <= free) return chosen;
  std::fprintf(stderr,
               "kmeans-bench: note: %s needs %s of GPU memory, %s are free: %s sends the points to "
               "the GPU block by block, in every iteration\n",
               chosen.traits.name.c_str(), format_bytes(need).c_str(), format_bytes(free).c_str(),
               kOfLittleGpuMemory);
  return *blocks;
}

/// Are these points, which were read from it, just the bytes that a .npy file ends with? Then they can be read
/// from it. Its header alone is looked at: another mapping would take as many addresses again.
bool is_npy_of(const std::string& name, const Points& points) {
  constexpr std::uintmax_t kLongestHeader = 65536;
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(name, error);
  const auto bytes =
      static_cast<std::uintmax_t>(points.n() * points.d() * size_of(points.scalar()));
  if (error || points.scalar() != ScalarType::f32 || size < bytes) return false;
  if (size - bytes > kLongestHeader) return false;
  std::string header(size - bytes, '\0');
  std::ifstream in(name, std::ios::binary);
  if (!in.read(header.data(), static_cast<std::streamsize>(header.size()))) return false;
  const auto has = [&](const char* text) { return header.find(text) != std::string::npos; };
  return header.rfind("\x93NUMPY", 0) == 0 && has("<f4") && has("'fortran_order': False");
}

/// For people, what is going to run; JSON lines have no heading.
void print_heading(const FitOptions& options, const Traits& traits, const Shape& shape,
                   int threads) {
  const int used = traits.parallel ? threads : 1;
  const int ranks = process_ranks().size();
  std::printf("%s: n = %s, d = %lld, k = %lld, %s, %s%d thread%s%s, init %s\n", traits.name.c_str(),
              format_count(shape.n).c_str(), static_cast<long long>(shape.d),
              static_cast<long long>(shape.k), to_string(shape.precision),
              ranks == 1 ? "" : (std::to_string(ranks) + " ranks of ").c_str(), used,
              used == 1 ? "" : "s", ranks == 1 ? "" : " each", options.init.c_str());
  if (!options.why.empty()) std::printf("chosen, as %s\n", options.why.c_str());
  if (options.quiet) return;
  std::printf("%9s  %22s  %22s  %14s  %12s\n", "iteration", "inertia", "loss", "movement",
              "changed");
}

void print_iteration(const FitOptions& options, const IterationRecord& record) {
  if (options.quiet) return;
  if (options.json) {
    std::printf("%s\n", to_json(record).dump().c_str());
  } else {
    std::printf("%9lld  %22.17g  %22.17g  %14.6g  %12lld\n",
                static_cast<long long>(record.iteration), record.inertia, record.loss,
                record.movement, static_cast<long long>(record.changed));
  }
  std::fflush(stdout);
}

/// Is the end a fixed point, and whose centroids are the labels nearest to?
std::string settled_sentence(const nlohmann::json& summary) {
  if (summary.at("settled").get<bool>()) {
    return "Settled: no label changed in the last iteration.";
  }
  const auto changed = summary.at("labels_changed").get<std::int64_t>();
  std::string text = "Not settled: ";
  text += summary.at("iterations") == 1
              ? std::string("one iteration ran")
              : counted(changed, "label", "labels") + " changed in the last iteration";
  if (summary.at("labels_of") == "returned") return text + ".";
  return text +
         "; the labels are those of its beginning: nearest to the centroids before it, not to the "
         "final ones.";
}

void print_end(const FitOptions& options, const nlohmann::json& summary) {
  if (options.json) {
    std::printf("%s\n", summary.dump().c_str());
    return;
  }
  std::printf("%s%lld iterations, inertia %.17g, %lld empty clusters, labels %s, %s per iteration",
              options.quiet ? "" : "\n", summary.at("iterations").get<long long>(),
              summary.at("inertia").get<double>(), summary.at("empty_clusters").get<long long>(),
              summary.at("label_hash").get_ref<const std::string&>().c_str(),
              format_seconds(summary.at("seconds_per_iteration")).c_str());
  if (!options.quiet) {
    std::printf(" (%s with what its line says)",
                format_seconds(summary.at("seconds_per_iteration_with_record")).c_str());
  }
  std::printf("\n%s\n", settled_sentence(summary).c_str());
  if (!options.out.empty()) {
    std::printf("wrote centroids.npy, labels.npy and summary.json to %s\n", options.out.c_str());
  }
}

/// The files of one answer; those of an earlier one stay, all of them, until these are on disk.
template <class T>
void write_answer(const std::filesystem::path& folder, const Outcome<T>& outcome,
                  const Shape& shape, const nlohmann::json& summary) {
  AtomicFile centroids(folder / "centroids.npy");
  AtomicFile labels(folder / "labels.npy");
  AtomicFile about(folder / "summary.json");
  write_npy(centroids, make_points(outcome.centroids.data(), shape.k, shape.d));
  write_npy_labels(labels, outcome.labels.data(), shape.n);
  const std::string text = presentable(summary).dump(1) + "\n";
  about.write(text.data(), text.size());
  for (AtomicFile* file : {&centroids, &labels, &about}) file->flush();
  for (AtomicFile* file : {&centroids, &labels, &about}) file->commit();
}

/// Follows the clustering, prints it and writes what was asked for. Returns the exit status.
template <class T>
int fit_session(const FitOptions& options, Session<T>& session) {
  const Problem<T>& problem = session.problem();
  const Shape& shape = problem.shape;
  StopRule rule = parse_stop(options.stop);
  std::int64_t iterations = options.iterations;
  if (iterations == 0) {
    iterations = kLongestFit;
    if (options.stop.empty()) rule.kind = StopRule::Kind::labels;
  }
  if (options.tol) {
    const double variance =
        mean_variance(problem.points, shape.n, shape.d, problem.threads, problem.counted.weights);
    rule = {StopRule::Kind::tolerance, *options.tol * variance};
  }
  if (!options.json) print_heading(options, session.traits(), shape, session.problem().threads);
  const auto followed = follow(
      session, iterations, rule,
      [&](const IterationRecord& record, const Outcome<T>&) { print_iteration(options, record); },
      options.quiet ? Seen::last : Seen::each);
  const IterationRecord& last = followed.records.back();
  const auto count = static_cast<double>(followed.records.size());
  const bool returned = session.traits().labels_of == LabelsOf::returned;
  nlohmann::json summary{{"summary", true},
                         {"variant", session.traits().name},
                         {"precision", to_string(shape.precision)},
                         {"n", shape.n},
                         {"d", shape.d},
                         {"k", shape.k},
                         {"init", options.init},
                         {"iterations", last.iteration},
                         {"inertia", last.inertia},
                         {"loss", last.loss},
                         {"label_hash", followed.outcome.label_hash()},
                         {"empty_clusters", last.empty_clusters},
                         {"settled", last.changed == 0},
                         {"labels_changed", last.changed},
                         {"labels_of", last.changed == 0 || returned ? "returned" : "starting"},
                         {"seconds_per_iteration", followed.step_seconds / count},
                         {"seconds_per_iteration_with_record", followed.seconds / count}};
  if (!options.weights.empty()) summary["weights"] = options.weights;
  if (!options.why.empty()) summary["chosen_as"] = options.why;
  if (by_cosine(options)) summary["metric"] = options.metric;
  if (!options.out.empty()) {
    write_answer(options.out, followed.outcome, shape, summary);
  }
  print_end(options, summary);
  const std::string what = not_finite(last, followed.outcome.centroids);
  if (what.empty()) return kExitOk;
  std::fprintf(stderr,
               "kmeans-bench: there is no answer: %s not finite after iteration %lld; the points "
               "leave the range of %s, or changed meanwhile%s\n",
               what.c_str(), static_cast<long long>(last.iteration), to_string(shape.precision),
               options.out.empty() ? "" : "; it was written all the same");
  return kExitCellsFailed;
}

/// Of what the variant is known to take, and of what there was before the points were read.
std::string out_of_memory(const RegisteredVariant& registered, const Shape& shape, int threads,
                          double available) {
  std::string text = "out of memory: " + registered.traits.name + " and the points need about " +
                     format_bytes(memory_need(registered, shape, threads)) + ", but only " +
                     format_bytes(available) + " were free";
  if (address_space_left()) text += " (ulimit -v, of which threads take addresses, too)";
  const auto* blocks = find_variant(kOfLittleMemory);
  if (registered.traits.streams || blocks == nullptr || !takes(blocks->traits, shape.precision)) {
    return text;
  }
  return text + "; --variant " + kOfLittleMemory + " takes the points block by block";
}

/// Those of ranks are chosen by all of them, where each can read its rows.
template <class T>
Points first_centroids(const FitOptions& options, const RegisteredVariant& registered,
                       const Problem<T>& problem, const Points& points, const InitSpec& init) {
  Communicator& ranks = process_ranks();
  if (ranks.size() == 1 || problem.points_file.empty() || !ranks_choose<T>(init)) {
    // A GPU that takes the points anyway, unless a CPU is done before they are there.
    constexpr double kLittle = 1e7;
    const auto [n, d, k, precision] = problem.shape;
    const double products =
        static_cast<double>(n) * static_cast<double>(d) * static_cast<double>(k);
    return initial_centroids(points, k, init, problem.counted.weights,
                             registered.traits.gpu && products > kLittle, problem.max_abs);
  }
  const auto centroids = seed_by_ranks<T>(ranks, problem.points_file, options.k, options.init,
                                          {.n = points.n(),
                                           .weights = problem.counted.weights,
                                           .max_abs = problem.max_abs,
                                           .threads = problem.threads});
  return make_points(centroids.data(), options.k, points.d());
}

/// `available`: bytes of memory before the points were read.
template <class T>
int fit_problem(const FitOptions& options, const RegisteredVariant& registered,
                const Points& points, Problem<T>& problem, const InitSpec& init, double available) {
  // Where addresses are what is short (`ulimit -v`), buffers to read into would take more of them, and the
  // mapping is there already.
  if (registered.traits.streams && process_ranks().size() == 1 && !address_space_left() &&
      memory_need(registered, problem.shape, problem.threads) > available &&
      is_npy_of(options.file, points)) {
    problem.points_file = std::filesystem::absolute(options.file).string();
    problem.beyond_memory = true;
  }
  if (const Support support = supports(registered, problem.shape); !support.ok) {
    throw InputError(support.reason);
  }
  check_range(problem, registered.traits);
  // A start that a GPU chooses and the variant share one upload; a library's process cannot.
  std::unique_ptr<KeptGpuRows> kept;
  if constexpr (std::is_same_v<T, float>) {
    const bool ours = registered.traits.gpu && registered.backend != "python";
    if (ours) {
      kept = std::make_unique<KeptGpuRows>(problem.points, problem.shape.n, problem.shape.d);
    }
  }
  Points initial = first_centroids(options, registered, problem, points, init);
  if (problem.spherical) initial = unit_rows(initial);
  try {
    Session<T> session(registered, problem, initial.data<T>());
    kept.reset();  // by now the variant has what it needs
    return fit_session(options, session);
  } catch (const UserError&) {
    throw;
  } catch (const std::runtime_error& error) {
    // Who reads the file in every iteration finds out what became of it.
    if (problem.beyond_memory) throw InputError(error.what());
    throw;
  }
}

template <class T>
int fit_typed(FitOptions options, const RegisteredVariant& chosen, Precision precision) {
  // Before the file is read: what the system keeps of it may count as taken, and can be taken back.
  const auto available = static_cast<double>(available_memory());
  LoadOptions load;
  load.scalar = scalar_of<T>;
  load.csv = options.csv;
  std::vector<std::string> notes;
  std::string rounded;
  load.notes = &notes;
  load.rounded = &rounded;
  const InitSpec init = parse_init(options.init);
  check_fit_outputs(options, init);
  const std::string ranks_file = file_for_ranks(options);
  load.check_finite = ranks_file.empty();  // every rank looks through its own rows
  std::optional<double> largest;
  load.largest_abs = &largest;
  Points points = load_points(options.file, load);
  print_notes(notes, rounded);
  if (by_cosine(options)) {
    points = unit_rows(points);
    largest.reset();
  }
  const int threads = options.threads > 0 ? options.threads : threads_per_rank();
  if (options.k < 1 || options.k > points.n()) {
    throw InputError("-k " + std::to_string(options.k) + ": must be from 1 to n = " +
                     std::to_string(points.n()) + " (the points of " + options.file + ")");
  }
  if (!options.out.empty()) check_writable(options.out);
  const Shape shape{points.n(), points.d(), options.k, precision};
  const RegisteredVariant& quicker = that_is_quicker(options, chosen, shape, threads, options.why);
  const RegisteredVariant& registered =
      that_fits_gpu(options, that_fits(options, quicker, shape, threads, available), shape);
  if (&registered != &quicker) options.why.clear();  // another line says why not
  try {
    auto problem = make_problem<T>(points, options.k, precision, threads, ranks_file, largest);
    const FileWeights weights = load_weights(options, points.n());
    problem.counted = counted_points(weights, problem);
    problem.spherical = by_cosine(options);
    return fit_problem(options, registered, points, problem, init, available);
  } catch (const std::bad_alloc&) {
    throw EnvironmentError(out_of_memory(registered, shape, threads, available));
  }
}

int run_fit(const FitOptions& options) {
  const RegisteredVariant& registered = require_variant(options.variant);
  if (const Support available = availability(registered); !available.ok) {
    throw EnvironmentError(options.variant + " is not available here: " + available.reason);
  }
  refuse_idle_ranks(registered);
  if (options.tol && process_ranks().size() > 1) {
    throw InputError(
        "--tol is a share of the variance of all points, of which each rank has a part; use "
        "--stop movement:E");
  }
  refuse_idle_gpus(registered);
  refuse_unused_weights(options, registered);
  const Precision precision = options.precision.empty() ? registered.traits.precisions.front()
                                                        : parse_precision(options.precision);
  refuse_other_metric(options, registered, precision);
  return precision == Precision::f64 ? fit_typed<double>(options, registered, precision)
                                     : fit_typed<float>(options, registered, precision);
}

}  // namespace

void add_fit_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<FitOptions>();
  auto* fit = app.add_subcommand("fit", "Cluster one file, printing a line per iteration");
  fit->footer(
      "Example:\n"
      "  kmeans-bench fit data.npy -k 4 --variant cpu_naive --precision f64 \\\n"
      "      --init rows:1,3,6,8 --iterations 22\n\n"
      "Inertia in iteration t is that of the labels found in t against the centroids they were\n"
      "found with; loss is the sum of distances (not squared) likewise. The time per iteration\n"
      "at the end is the variant's own; the one in brackets holds those sums, too.\n"
      "summary.json says whether it settled (no label changed in the last iteration); where not,\n"
      "labels_of says which centroids the labels are nearest to: 'returned' ones are those of\n"
      "centroids.npy, 'starting' ones those before the last iteration.");
  fit->add_option(
         "file", options->file,
         "Points: npy, csv, fvecs, bvecs, fbin, IDX, LIBSVM, Parquet or Arrow\n(docs/datasets.md)")
      ->required();
  fit->add_option("-k,--clusters", options->k, "Number of clusters, 1 to n")
      ->required()
      ->transform(whole_number(std::numeric_limits<std::int64_t>::min()));
  auto* variant =
      fit->add_option(
             "--variant", options->variant,
             "Which implementation (`kmeans-bench list`); where a GPU can be used, cuda_best\n"
             "is the default if its fit is expected to be quicker, and a line says why\n"
             "(docs/best.md)")
          ->capture_default_str();
  fit->add_option("--precision", options->precision, "f64, f32, ...; default: the variant's first");
  fit->add_option("--init", options->init,
                  "first, random:SEED, rows:I,J,..., kmeans++:SEED, ward:SEED, threshold:T, "
                  "threshold-as-printed:T, or "
                  "a file of k x d")
      ->capture_default_str();
  fit->add_option("--weights", options->weights,
                  "A file of n numbers of at least 0, in any of the formats: how often each point "
                  "counts\n(docs/exact-step.md)")
      ->check([](const std::string& file) {
        return std::string(file.empty() ? "it is empty; name a file" : "");
      });
  fit->add_option("--metric", options->metric,
                  "euclidean, or cosine: rows and centroids are scaled to length one\n"
                  "(docs/exact-step.md)")
      ->capture_default_str()
      ->check(CLI::IsMember({"euclidean", "cosine"}));
  fit->add_option(
         "--iterations", options->iterations,
         "Exactly this many (at most this many with --stop or --tol); default: until no label "
         "changes, at most 300")
      ->transform(whole_number(1));
  fit->add_option("--stop", options->stop,
                  "labels (none changes), movement:E (summed squared movement <= E), loss:E (loss "
                  "changes by less than E)");
  fit->add_option(
         "--tol", options->tol,
         "Stop as scikit-learn's tol does: no label changes, or the summed squared movement\n"
         "is at most this share of the columns' mean variance (docs/exact-step.md)")
      ->check(CLI::Range(0.0, std::numeric_limits<double>::max()))
      ->excludes("--stop");
  fit->add_option("--threads", options->threads, "CPU threads; default: all usable ones")
      ->transform(whole_number(1, kMaxThreads));
  add_device_option(*fit);
  add_plugin_option(*fit);
  add_gpus_option(*fit);
  add_csv_options(*fit, options->csv);
  fit->add_option("--out", options->out, "Write centroids.npy, labels.npy, summary.json here")
      ->check([](const std::string& folder) {
        return std::string(folder.empty() ? "it is empty; name a folder, or leave --out away" : "");
      });
  fit->add_flag("--json", options->json, "JSON lines: one per iteration, then a summary");
  fit->add_flag("--quiet", options->quiet,
                "The end alone: no line per iteration, nor the time that its sums take");
  fit->callback([options, variant, &action] {
    options->variant_is_chosen = variant->count() > 0;
    if (gpus_in_use() > 1 && !options->variant_is_chosen) options->variant = kOfGpus;
    action = [options] { return run_fit(*options); };
  });
}

}  // namespace kmeans
