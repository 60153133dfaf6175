// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/ranked_variant.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "datasets/points.h"
#include "harness/exact_step.h"
#include "harness/support/errors.h"
#include "harness/support/hash.h"
#include "harness/support/memory_left.h"
#include "harness/support/parallel.h"
#include "harness/support/precision.h"
#include "harness/verify/ranked_seeding.h"

namespace kmeans {
namespace {

enum class Task : std::int32_t {
  survey,
  seed,
  setup,
  reset,
  step,
  fetch,
  quality,
  facts,
  times,
  drop,
  end
};

struct Order {
  Task task = Task::end;
  std::int32_t variant = 0;  ///< of several RankedVariants
  std::int64_t value = 0;    ///< iterations, the length of a text, or an exit code
};

void give(Communicator& ranks, Order order) { ranks.broadcast(&order, sizeof(order)); }

void give(Communicator& ranks, Task task, std::int32_t variant, const nlohmann::json& description) {
  std::string text = description.dump();
  give(ranks, {task, variant, static_cast<std::int64_t>(text.size())});
  ranks.broadcast(text.data(), static_cast<std::int64_t>(text.size()));
}

std::string name_of(const Communicator& ranks, int rank) {
  return "rank " + std::to_string(rank) + " of " + std::to_string(ranks.size());
}

/// Does something on this rank that may fail; then every rank knows whether it failed anywhere. Throws
/// the first rank's error on every rank, with the rank unless all have the same.
template <class Work>
void together(Communicator& ranks, const Work& work) {
  const auto attempt = [&]() -> std::string {
    try {
      work();
      return "";
    } catch (const UserError& error) {
      return std::to_string(error.code()) + ":" + error.what();
    } catch (const std::bad_alloc&) {
      return "0:out of host memory: needs more than " + memory_left();
    } catch (const std::exception& error) {
      return std::string("0:") + error.what();
    }
  };
  const auto texts = ranks.all_gather_texts(attempt());
  const auto first =
      std::find_if(texts.begin(), texts.end(), [](const auto& t) { return !t.empty(); });
  if (first == texts.end()) return;
  const auto colon = first->find(':');
  const int code = std::stoi(first->substr(0, colon));
  std::string reason = first->substr(colon + 1);
  if (std::adjacent_find(texts.begin(), texts.end(), std::not_equal_to<>()) != texts.end()) {
    reason = name_of(ranks, static_cast<int>(first - texts.begin())) + ": " + reason;
  }
  if (code != 0) throw UserError(static_cast<ExitCode>(code), reason);
  throw std::runtime_error(reason);
}

/// In the middle of something that all ranks must do: if one cannot, all end.
template <class Work>
void or_abort(Communicator& ranks, const Work& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    ranks.abort("out of host memory: needs more than " + memory_left(), kExitUnusableEnvironment);
  } catch (const std::exception& error) {
    ranks.abort(error.what(), kExitUnusableEnvironment);
  }
}

/// What is the same on every rank that has the same points: their number, and their bytes; of many only
/// those of evenly spaced rows.
template <class T>
std::string mark_of(const T* points, std::int64_t n, std::int64_t d) {
  constexpr std::int64_t kBytes = 64 << 20;  // takes a tenth of a second
  const std::int64_t row = d * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t rows = std::min(n, std::max<std::int64_t>(2, kBytes / row));
  std::string hashes;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto i = static_cast<std::int64_t>(static_cast<__int128>(n - 1) * r /
                                             std::max<std::int64_t>(1, rows - 1));
    hashes += fnv1a_hex(points + i * d, row);
    if (hashes.size() > 65536) hashes = fnv1a_hex(hashes.data(), hashes.size());
  }
  return fnv1a_hex(hashes.data(), hashes.size());
}

/// What the other ranks get of a problem.
template <class T>
nlohmann::json description_of(const std::string& variant, const Problem<T>& whole) {
  return {{"variant", variant},
          {"precision", to_string(whole.shape.precision)},
          {"n", whole.shape.n},
          {"d", whole.shape.d},
          {"k", whole.shape.k},
          // As float64 exact, and written with all of its digits.
          {"max_abs", static_cast<double>(whole.max_abs)},
          {"threads", whole.threads},
          {"spherical", whole.spherical},
          {"weighted", whole.counted.weights != nullptr},
          {"weights_scale_n", whole.counted.scale_n},
          {"weights_max_abs", static_cast<double>(whole.counted.max_abs)},
          {"points_file", whole.points_file}};
}

template <class T>
Problem<T> problem_from(const nlohmann::json& description) {
  Problem<T> problem;
  description.at("n").get_to(problem.shape.n);
  description.at("d").get_to(problem.shape.d);
  description.at("k").get_to(problem.shape.k);
  problem.shape.precision = parse_precision(description.at("precision").get<std::string>());
  problem.max_abs = static_cast<T>(description.at("max_abs").get<double>());
  description.at("threads").get_to(problem.threads);
  description.at("spherical").get_to(problem.spherical);
  description.at("weights_scale_n").get_to(problem.counted.scale_n);
  problem.counted.max_abs = static_cast<T>(description.at("weights_max_abs").get<double>());
  description.at("points_file").get_to(problem.points_file);
  return problem;
}

template <class T>
std::unique_ptr<Variant<T>> make_variant(const RegisteredVariant& registered, Precision precision) {
  if constexpr (std::is_same_v<T, float>) {
    if (registered.factory.make_float) return registered.factory.make_float(precision);
  } else {
    if (registered.factory.make_double) return registered.factory.make_double(precision);
  }
  throw std::logic_error(registered.traits.name + " is not written for " + to_string(precision));
}

template <class T>
T survey_own_rows(Communicator& ranks, const std::string& file, int threads) {
  double largest = 0;
  together(ranks, [&] {
    LoadOptions options;
    options.format = FileFormat::npy;
    options.scalar = scalar_of<T>;
    options.check_finite = false;
    const std::int64_t n = load_points(file, options).n();
    options.check_finite = true;
    options.checked_begin = first_row(n, ranks.rank(), ranks.size());
    options.checked_end = first_row(n, ranks.rank() + 1, ranks.size());
    const Points points = load_points(file, options);
    largest = static_cast<double>(
        largest_abs(points.data<T>() + options.checked_begin * points.d(),
                    (options.checked_end - options.checked_begin) * points.d(), threads));
  });
  return static_cast<T>(ranks.all_reduce_max(largest));
}

/// This rank's part of seed_by_ranks(), which sends the description. Rank 0 has the weights.
template <class T>
std::vector<T> seed_with_others(Communicator& ranks, const nlohmann::json& description,
                                const std::int64_t* weights = nullptr) {
  const double max_abs = description.at("max_abs");
  std::vector<std::int64_t> all_weights(description.at("weights").get<std::int64_t>());
  if (weights != nullptr) std::copy_n(weights, all_weights.size(), all_weights.begin());
  if (!all_weights.empty()) ranks.broadcast(all_weights.data(), 8 * std::ssize(all_weights));
  return centroids_by_ranks(
      ranks, description.at("file").get<std::string>(), description.at("k").get<std::int64_t>(),
      parse_init(description.at("init").get<std::string>()), static_cast<T>(max_abs),
      description.at("threads").get<int>(), all_weights);
}

/// The inertia and loss of a whole are added up in blocks of kBlock rows, as quality_of() does. A rank
/// has whole blocks, and before and behind them rows of blocks that it shares with its neighbours.
struct BlocksOfRows {
  BlocksOfRows(std::int64_t n, int rank, int size)
      : begin(first_row(n, rank, size)), end(first_row(n, rank + 1, size)) {
    first_whole = std::min(end, (begin + kBlock - 1) / kBlock * kBlock);
    // The last rows of all are a block of their own length, which nobody else has a part of.
    last_whole = std::max(first_whole, end / kBlock * kBlock);
  }
  [[nodiscard]] std::int64_t blocks() const { return (last_whole - first_whole) / kBlock; }
  /// A distance for every row of a shared block; inertia and loss of every whole one.
  [[nodiscard]] std::int64_t numbers() const {
    return (first_whole - begin) + 2 * blocks() + (end - last_whole);
  }
  std::int64_t begin;
  std::int64_t end;
  std::int64_t first_whole;
  std::int64_t last_whole;
};

/// Adds up what the ranks send, in the order of the rows.
class QualitySum {
 public:
  /// `weights` of all rows, or null.
  explicit QualitySum(const double* weights) : weights_(weights) {}

  const double* add_rows(const double* distances, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i, ++distances) {
      if (i % kBlock == 0) end_block();
      const double weight = weights_ == nullptr ? 1.0 : weights_[i];
      block_.inertia += weight * *distances;
      block_.loss += weight * std::sqrt(*distances);
    }
    return distances;
  }
  const double* add_blocks(const double* sums, std::int64_t blocks) {
    for (std::int64_t block = 0; block < blocks; ++block, sums += 2) {
      end_block();
      block_.inertia = sums[0];
      block_.loss = sums[1];
    }
    return sums;
  }
  Quality total() {
    end_block();
    return total_;
  }

 private:
  void end_block() {
    total_.inertia += block_.inertia;
    total_.loss += block_.loss;
    block_ = {};
  }
  const double* weights_;
  Quality block_;
  Quality total_;
};

}  // namespace

using Clock = std::chrono::steady_clock;

/// The calls of another communicator, with the seconds that they take.
class TimedCalls final : public Communicator {
 public:
  explicit TimedCalls(Communicator& ranks) : ranks_(ranks) {}

  void clear() { spent_ = {}; }
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(spent_).count(); }

  [[nodiscard]] int rank() const override { return ranks_.rank(); }
  [[nodiscard]] int size() const override { return ranks_.size(); }
  [[nodiscard]] int ranks_here() const override { return ranks_.ranks_here(); }
  [[nodiscard]] std::string engine() const override { return ranks_.engine(); }
  void barrier() override {
    timed([&] { ranks_.barrier(); });
  }
  void all_reduce_sum(std::int64_t* values, std::int64_t count) override {
    timed([&] { ranks_.all_reduce_sum(values, count); });
  }
  double all_reduce_max(double value) override {
    timed([&] { value = ranks_.all_reduce_max(value); });
    return value;
  }
  double all_reduce_min(double value) override {
    timed([&] { value = ranks_.all_reduce_min(value); });
    return value;
  }
  void reduce_scatter_sum(const std::int64_t* values, const std::vector<std::int64_t>& counts,
                          std::int64_t* own) override {
    timed([&] { ranks_.reduce_scatter_sum(values, counts, own); });
  }
  void all_gather(void* values, const std::vector<std::int64_t>& bytes) override {
    timed([&] { ranks_.all_gather(values, bytes); });
  }
  void gather(const void* own, const std::vector<std::int64_t>& bytes, void* all) override {
    timed([&] { ranks_.gather(own, bytes, all); });
  }
  void scatter(const void* all, const std::vector<std::int64_t>& bytes, void* own) override {
    timed([&] { ranks_.scatter(all, bytes, own); });
  }
  void broadcast(void* values, std::int64_t bytes, Wait wait) override {
    timed([&] { ranks_.broadcast(values, bytes, wait); });
  }
  [[noreturn]] void abort(const std::string& reason, int exit_code) override {
    ranks_.abort(reason, exit_code);
    std::abort();  // g++ does not see that a virtual function never returns
  }

 private:
  template <class Call>
  void timed(const Call& call) {
    const auto start = Clock::now();
    call();
    spent_ += Clock::now() - start;
  }

  Communicator& ranks_;
  Clock::duration spent_{};
};

/// Without its scalar type.
class AnyRankPart {
 public:
  virtual ~AnyRankPart() = default;
  virtual void reset() = 0;
  virtual void step(std::int64_t iterations) = 0;
  virtual void fetch() = 0;
  virtual void quality() = 0;
  virtual RankTimes times() = 0;
  virtual RankFacts facts() = 0;
};

template <class T>
class RankPart final : public AnyRankPart {
 public:
  explicit RankPart(Communicator& ranks) : ranks_(ranks), timed_(ranks) {}

  /// On rank 0 `whole` has the points and weights, on the others their description.
  void setup(const RegisteredVariant& registered, const Problem<T>& whole, bool weighted) {
    whole_ = whole.shape;
    all_given_ = whole.counted.given;
    own_ = whole;
    const std::int64_t first = first_row(whole.shape.n, ranks_.rank(), ranks_.size());
    own_.shape.n = first_row(whole.shape.n, ranks_.rank() + 1, ranks_.size()) - first;
    own_.points_file.clear();
    own_.shard = {&timed_, first, whole.shape.n};
    if (whole.points_file.empty()) {
      receive_rows(whole.points);
    } else {
      map_rows(whole);
    }
    if (weighted) receive_weights(whole.counted);
    together(ranks_, [&] {
      variant_ = make_variant<T>(registered, whole.shape.precision);
      variant_->setup(own_);
      centroids_.resize(whole.shape.k * whole.shape.d);
      labels_.resize(own_.shape.n);
    });
  }

  /// Rank 0 gives the centroids.
  void reset(const T* centroids) {
    std::copy_n(centroids, centroids_.size(), centroids_.begin());
    reset();
  }
  void reset() override {
    ranks_.broadcast(centroids_.data(), bytes_of_centroids());
    variant_->reset(centroids_.data());
  }
  void step(std::int64_t iterations) override {
    timed_.clear();
    const auto start = Clock::now();
    variant_->step(iterations);
    seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
  }

  RankTimes times() override {
    std::vector<std::array<double, 2>> all(ranks_.size());
    all[ranks_.rank()] = {seconds_, timed_.seconds()};
    ranks_.all_gather(all.data(), std::vector<std::int64_t>(all.size(), sizeof(all[0])));
    RankTimes times;
    for (const auto& [seconds, communication] : all) {
      times.seconds.push_back(seconds);
      times.communication.push_back(communication);
    }
    return times;
  }

  /// Rank 0 receives all labels.
  void fetch(T* centroids, std::int32_t* labels) {
    // What the variant leaves unwritten stays what the caller wrote.
    std::copy_n(centroids, centroids_.size(), centroids_.begin());
    fetch_into(labels);
    std::copy(centroids_.begin(), centroids_.end(), centroids);
  }
  void fetch() override { fetch_into(nullptr); }

  /// On rank 0 the quality of the whole.
  Quality quality(const T* centroids) {
    owners_.assign(centroids, centroids + centroids_.size());
    return quality_of_whole();
  }
  void quality() override { quality_of_whole(); }

  RankFacts facts() override {
    const Progress progress = variant_->progress();
    const auto distances = variant_->computed_distances();
    std::int64_t sums[4] = {progress.changed.value_or(0), progress.changed ? 1 : 0,
                            distances.value_or(0), distances ? 1 : 0};
    ranks_.all_reduce_sum(sums, 4);
    RankFacts facts;
    if (sums[1] == ranks_.size()) facts.changed = sums[0];
    if (sums[3] == ranks_.size()) facts.distances = sums[2];
    return facts;
  }

  [[nodiscard]] const Variant<T>& variant() const { return *variant_; }

 private:
  /// Where there is no file that every rank could read.
  void receive_rows(const T* all) {
    const auto row = own_.shape.d * static_cast<std::int64_t>(sizeof(T));
    together(ranks_, [&] { rows_.resize(own_.shape.n * own_.shape.d); });
    ranks_.scatter(all, parts_of_ranks(whole_.n, ranks_.size(), row), rows_.data());
    own_.points = rows_.data();
  }

  void receive_weights(const CountedPoints<T>& all) {
    together(ranks_, [&] {
      // One more than there are rows: a rank without any has weights, too.
      weights_.resize(own_.shape.n + 1);
      given_.resize(own_.shape.n + 1);
    });
    const auto bytes = parts_of_ranks(whole_.n, ranks_.size(), 8);
    ranks_.scatter(all.weights, bytes, weights_.data());
    ranks_.scatter(all.given, bytes, given_.data());
    own_.counted.weights = weights_.data();
    own_.counted.given = given_.data();
  }

  /// Of a mapped file only what is looked at is read: this rank's rows, and some that all compare.
  void map_rows(const Problem<T>& whole) {
    std::string mark;
    double largest = 0;
    together(ranks_, [&] {
      const T* points = whole.points;
      if (points == nullptr) {
        LoadOptions as_stored;
        as_stored.format = FileFormat::npy;
        as_stored.scalar = scalar_of<T>;
        as_stored.check_finite = false;  // rank 0 did
        file_ = load_points(whole.points_file, as_stored);
        if (file_.n() != whole.shape.n || file_.d() != whole.shape.d) {
          throw InputError(whole.points_file + " holds " + std::to_string(file_.n()) + " x " +
                           std::to_string(file_.d()) + " points here, on rank 0 " +
                           std::to_string(whole.shape.n) + " x " + std::to_string(whole.shape.d));
        }
        points = file_.template data<T>();
      }
      mark = mark_of(points, whole.shape.n, whole.shape.d);
      own_.points = points + own_.shard.first * own_.shape.d;
      largest =
          static_cast<double>(largest_abs(own_.points, own_.shape.n * own_.shape.d, own_.threads));
    });
    const auto marks = ranks_.all_gather_texts(mark);
    const bool same_largest = ranks_.all_reduce_max(largest) == static_cast<double>(whole.max_abs);
    together(ranks_, [&] {
      if (mark != marks[0] || !same_largest) {
        throw InputError(whole.points_file +
                         " does not hold the same points on every rank; it must "
                         "be one file that all see, or equal copies");
      }
    });
  }

  void fetch_into(std::int32_t* labels) {
    std::fill(labels_.begin(), labels_.end(), -1);
    or_abort(ranks_, [&] { variant_->fetch(centroids_.data(), labels_.data()); });
    ranks_.gather(labels_.data(), parts_of_ranks(whole_.n, ranks_.size(), sizeof(std::int32_t)),
                  labels);
    hashes_ = ranks_.all_gather_texts(fnv1a_hex(centroids_.data(), bytes_of_centroids()));
    if (ranks_.rank() != 0) return;
    for (int r = 1; r < ranks_.size(); ++r) {
      if (hashes_[r] != hashes_[0]) {
        throw std::runtime_error(name_of(ranks_, r) + " has other centroids than rank 0 (hash " +
                                 hashes_[r] + ", not " + hashes_[0] + ")");
      }
    }
  }

  Quality quality_of_whole() {
    owners_.resize(centroids_.size());
    ranks_.broadcast(owners_.data(), bytes_of_centroids());
    const std::vector<double> own = own_numbers();
    std::vector<std::int64_t> bytes;
    for (int r = 0; r < ranks_.size(); ++r) {
      bytes.push_back(8 * BlocksOfRows(whole_.n, r, ranks_.size()).numbers());
    }
    std::vector<double> all;
    if (ranks_.rank() == 0)
      all.resize(std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}) / 8);
    ranks_.gather(own.data(), bytes, all.data());
    std::vector<std::int64_t> points(whole_.k);
    for (std::size_t i = 0; i < labels_.size(); ++i) {
      if (own_.counted.counts(static_cast<std::int64_t>(i))) points[labels_[i]] += 1;
    }
    ranks_.all_reduce_sum(points.data(), whole_.k);
    if (ranks_.rank() != 0) return {};
    QualitySum sum(all_given_);
    const double* numbers = all.data();
    for (int r = 0; r < ranks_.size(); ++r) {
      const BlocksOfRows rows(whole_.n, r, ranks_.size());
      numbers = sum.add_rows(numbers, rows.begin, rows.first_whole);
      numbers = sum.add_blocks(numbers, rows.blocks());
      numbers = sum.add_rows(numbers, rows.last_whole, rows.end);
    }
    Quality quality = sum.total();
    quality.empty_clusters = std::count(points.begin(), points.end(), 0);
    return quality;
  }

  [[nodiscard]] std::vector<double> own_numbers() const {
    const BlocksOfRows rows(whole_.n, ranks_.rank(), ranks_.size());
    const auto distance = [&](std::int64_t i) {
      const std::int64_t own = i - rows.begin;
      return exact::squared_distance(own_.points + own * whole_.d,
                                     owners_.data() + std::int64_t{labels_[own]} * whole_.d,
                                     whole_.d);
    };
    std::vector<double> numbers(rows.numbers());
    double* to = numbers.data();
    for (std::int64_t i = rows.begin; i < rows.first_whole; ++i) *to++ = distance(i);
    for_each_part(rows.blocks(), own_.threads, [&](std::int64_t block) {
      const std::int64_t begin = rows.first_whole + block * kBlock;
      double inertia = 0;
      double loss = 0;
      for (std::int64_t i = begin; i < begin + kBlock; ++i) {
        const double squared = distance(i);
        const double weight = given_.empty() ? 1.0 : given_[i - rows.begin];
        inertia += weight * squared;
        loss += weight * std::sqrt(squared);
      }
      to[2 * block] = inertia;
      to[2 * block + 1] = loss;
    });
    to += 2 * rows.blocks();
    for (std::int64_t i = rows.last_whole; i < rows.end; ++i) *to++ = distance(i);
    return numbers;
  }

  [[nodiscard]] std::int64_t bytes_of_centroids() const {
    return static_cast<std::int64_t>(centroids_.size() * sizeof(T));
  }

  Communicator& ranks_;
  TimedCalls timed_;  // what the variant is given
  double seconds_ = 0;
  Shape whole_;
  Problem<T> own_;
  std::vector<T> rows_;                // received, or
  Points file_;                        // mapped
  std::vector<std::int64_t> weights_;  // of this rank's rows, or none; one more
  std::vector<double> given_;          // of which they were made
  const double* all_given_ = nullptr;  // of all rows, on rank 0
  std::unique_ptr<Variant<T>> variant_;
  std::vector<T> centroids_;          // k x d
  std::vector<T> owners_;             // k x d, of the labels whose quality is asked for
  std::vector<std::int32_t> labels_;  // of this rank's rows
  std::vector<std::string> hashes_;
};

// ---- rank 0

template <class T>
RankedVariant<T>::RankedVariant(const RegisteredVariant& registered, Communicator& ranks)
    : registered_(registered), ranks_(ranks) {
  static std::int32_t made = 0;
  number_ = made++;
}

template <class T>
RankedVariant<T>::~RankedVariant() {
  if (begun_) or_abort(ranks_, [&] { give(ranks_, {Task::drop, number_, 0}); });
}

template <class T>
void RankedVariant<T>::setup(const Problem<T>& problem) {
  begun_ = true;
  give(ranks_, Task::setup, number_, description_of(registered_.traits.name, problem));
  own_ = std::make_unique<RankPart<T>>(ranks_);
  own_->setup(registered_, problem, problem.counted.weights != nullptr);
}

template <class T>
void RankedVariant<T>::reset(const T* centroids) {
  give(ranks_, {Task::reset, number_, 0});
  or_abort(ranks_, [&] { own_->reset(centroids); });
}

template <class T>
void RankedVariant<T>::step(std::int64_t iterations) {
  give(ranks_, {Task::step, number_, iterations});
  or_abort(ranks_, [&] { own_->step(iterations); });
}

template <class T>
void RankedVariant<T>::fetch(T* centroids, std::int32_t* labels) {
  give(ranks_, {Task::fetch, number_, 0});
  own_->fetch(centroids, labels);
}

template <class T>
Quality RankedVariant<T>::quality(const T* centroids) {
  give(ranks_, {Task::quality, number_, 0});
  return own_->quality(centroids);
}

template <class T>
RankTimes RankedVariant<T>::times() {
  give(ranks_, {Task::times, number_, 0});
  return own_->times();
}

template <class T>
RankFacts RankedVariant<T>::facts() const {
  give(ranks_, {Task::facts, number_, 0});
  return own_->facts();
}

template <class T>
std::vector<std::pair<std::string, std::string>> RankedVariant<T>::library_info() const {
  auto info = own_->variant().library_info();
  info.emplace_back("ranks", std::to_string(ranks_.size()));
  info.emplace_back("communicator", ranks_.engine());
  return info;
}

template class RankedVariant<float>;
template class RankedVariant<double>;

template <class T>
T survey_rows(Communicator& ranks, const std::string& file, int threads) {
  const Precision precision = sizeof(T) == 8 ? Precision::f64 : Precision::f32;
  give(ranks, Task::survey, 0,
       {{"file", file}, {"precision", to_string(precision)}, {"threads", threads}});
  return survey_own_rows<T>(ranks, file, threads);
}

template float survey_rows(Communicator&, const std::string&, int);
template double survey_rows(Communicator&, const std::string&, int);

template <class T>
std::vector<T> seed_by_ranks(Communicator& ranks, const std::string& file, std::int64_t k,
                             const std::string& init, const SeedingProblem<T>& points) {
  const Precision precision = sizeof(T) == 8 ? Precision::f64 : Precision::f32;
  const nlohmann::json description{{"file", file},
                                   {"precision", to_string(precision)},
                                   {"k", k},
                                   {"init", init},
                                   {"max_abs", static_cast<double>(points.max_abs)},
                                   {"weights", points.weights != nullptr ? points.n : 0},
                                   {"threads", points.threads}};
  give(ranks, Task::seed, 0, description);
  std::vector<T> centroids;
  or_abort(ranks, [&] { centroids = seed_with_others<T>(ranks, description, points.weights); });
  return centroids;
}

template std::vector<float> seed_by_ranks(Communicator&, const std::string&, std::int64_t,
                                          const std::string&, const SeedingProblem<float>&);
template std::vector<double> seed_by_ranks(Communicator&, const std::string&, std::int64_t,
                                           const std::string&, const SeedingProblem<double>&);

void dismiss_ranks(Communicator& ranks, int exit_code) { give(ranks, {Task::end, 0, exit_code}); }

// ---- the other ranks

namespace {

class Server {
 public:
  explicit Server(Communicator& ranks) : ranks_(ranks) {}

  int serve() {
    while (true) {
      Order order;
      // After a reset a step is timed, and should find all ranks awake. Otherwise rank 0 has work of
      // its own, for which it may need the processor that this rank would wait on.
      ranks_.broadcast(&order, sizeof(order),
                       last_ == Task::reset ? Communicator::Wait::busy : Communicator::Wait::idle);
      if (order.task == Task::end) return static_cast<int>(order.value);
      last_ = order.task;
      or_abort(ranks_, [&] { obey(order); });
    }
  }

 private:
  void obey(const Order& order) {
    if (order.task == Task::survey) return survey(order);
    if (order.task == Task::seed) return seed(order);
    if (order.task == Task::setup) return setup(order);
    if (order.task == Task::drop) {
      parts_.erase(order.variant);
      return;
    }
    AnyRankPart& part = *parts_.at(order.variant);
    switch (order.task) {
      case Task::reset: return part.reset();
      case Task::step: return part.step(order.value);
      case Task::fetch: return part.fetch();
      case Task::quality: return part.quality();
      case Task::facts: part.facts(); return;
      case Task::times: part.times(); return;
      case Task::survey:
      case Task::seed:
      case Task::setup:
      case Task::drop:
      case Task::end: break;
    }
  }

  nlohmann::json receive(const Order& order) {
    std::string text(order.value, '\0');
    ranks_.broadcast(text.data(), order.value);
    return nlohmann::json::parse(text);
  }

  void survey(const Order& order) {
    const auto description = receive(order);
    const std::string file = description.at("file");
    const int threads = description.at("threads");
    try {
      if (description.at("precision") == to_string(Precision::f64)) {
        survey_own_rows<double>(ranks_, file, threads);
      } else {
        survey_own_rows<float>(ranks_, file, threads);
      }
    } catch (const CommunicationError&) {
      throw;
    } catch (const std::exception&) {
      return;  // rank 0 knows
    }
  }

  void seed(const Order& order) {
    const auto description = receive(order);
    if (description.at("precision") == to_string(Precision::f64)) {
      seed_with_others<double>(ranks_, description);
    } else {
      seed_with_others<float>(ranks_, description);
    }
  }

  void setup(const Order& order) {
    const auto description = receive(order);
    const auto& registered = require_variant(description.at("variant").get<std::string>());
    if (description.at("precision") == to_string(Precision::f64)) {
      setup_part<double>(order.variant, registered, description);
    } else {
      setup_part<float>(order.variant, registered, description);
    }
  }

  template <class T>
  void setup_part(std::int32_t number, const RegisteredVariant& registered,
                  const nlohmann::json& description) {
    auto part = std::make_unique<RankPart<T>>(ranks_);
    try {
      part->setup(registered, problem_from<T>(description), description.at("weighted").get<bool>());
    } catch (const CommunicationError&) {
      throw;
    } catch (const std::exception&) {
      return;  // rank 0 knows, and drops the variant
    }
    parts_[number] = std::move(part);
  }

  Communicator& ranks_;
  Task last_ = Task::end;
  std::map<std::int32_t, std::unique_ptr<AnyRankPart>> parts_;
};

}  // namespace

int serve_rank_0(Communicator& ranks) { return Server(ranks).serve(); }

void expect_same_start(Communicator& ranks, const std::string& words) {
  const auto all = ranks.all_gather_texts(words);
  for (int r = 1; r < ranks.size(); ++r) {
    if (all[r] == all[0]) continue;
    throw InputError(name_of(ranks, r) + " was started as `" + all[r] + "`, rank 0 as `" + all[0] +
                     "`; all ranks must be the same program with the same arguments");
  }
}

}  // namespace kmeans
