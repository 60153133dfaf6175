// SPDX-License-Identifier: Apache-2.0
//
// Flags: -ffp-contract=off
//
// Idea:      the exact variants of this folder as families, of which one is at work: chosen by
//            shape, instructions and the iterations to come; where these do not decide, by what some points
//            show in setup: how many bytes leave open, and for 5 to 8 coordinates what boxes save in
//            neighbourhoods; and changed where a sample of points, which follows the centroids behind bounds,
//            shows that bounds would save more than the change costs, or where no label changes any more
// Parallel:  as the family at work; the sample is shared by the threads as well
// Memory:    that of the family at work, which is set up when it begins, and the sample's
// Numerics:  equals the exact Lloyd step bit for bit, since every family does
// Source:    ours; docs/openmp.md has the choice
#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_best_choice.h"
#include "implementations/openmp/_best_sample.h"
#include "implementations/openmp/_bounded_lloyd.h"
#include "implementations/openmp/_crew.h"
#include "implementations/openmp/_family.h"
#include "implementations/openmp/_packed.h"

namespace {

using namespace kmeans::openmp;  // NOLINT: this backend's shared code
using kmeans::Precision;
using kmeans::Problem;
using kmeans::Progress;
using kmeans::Shape;

/// Looked up once, since small problems are solved in less time than that takes; by each thread, so that no child of a
/// fork finds a lock that nobody will open.
const kmeans::Registration& registered(const std::string& name) {
  thread_local std::map<std::string, kmeans::Registration> known;
  const auto found = known.find(name);
  return found != known.end() ? found->second
                              : known.emplace(name, kmeans::registered_variant(name)).first->second;
}

std::unique_ptr<Family<float>> make_family(const std::string& name) {
  auto variant = registered(name).factory.make_float(Precision::f32);
  if (dynamic_cast<Family<float>*>(variant.get()) == nullptr) {
    throw std::logic_error(name + " is not a family of exact variants");
  }
  return std::unique_ptr<Family<float>>(dynamic_cast<Family<float>*>(variant.release()));
}

/// The families that a shape may need, by name; empty where it needs none of the kind.
struct Families {
  std::string brute{};
  std::string tree{};
  std::string bounded{};
  std::string int8{};  // instructions; empty where bytes were not in question

  /// iterations: 0 if nobody knows how many are to come.
  static Families of(const Shape& shape, int threads, std::int64_t iterations = 0,
                     bool weighted = false) {
    // Its nodes have sums without weights.
    const bool tree_takes = !weighted && registered("openmp_tree").traits.supports(shape).ok;
    Families families{.int8 = int8_instructions(shape.d)};
    families.brute =
        brute_family(shape, families.int8, iterations_or(iterations, kExpectedIterations), threads);
    if (tree_takes && (surely_tree(shape, families.int8, threads) || perhaps_tree(shape))) {
      families.tree = "openmp_tree";
    }
    if (bounds_may_serve_at_rest(shape, iterations)) {
      families.bounded = prefers_groups(shape) ? "openmp_yinyang" : "openmp_hamerly";
    }
    return families;
  }
};

double bytes_of(const std::string& family, const Shape& shape, int threads) {
  if (family.empty()) return 0;
  return registered(family).traits.memory_bytes(shape, threads);
}

/// Some points behind bounds, whose centroids go where those of all points go.
class Scout final : public BoundedLloyd<BoundRules> {
 public:
  explicit Scout(bool in_groups) : in_groups_(in_groups) {}
  using BoundedLloyd::follow;

  /// With its points, `shape.n`.
  static double bytes(const Shape& shape, bool in_groups) {
    const double rows = sizeof(float) * static_cast<double>(shape.n * shape.d);
    return rows + BoundedLloyd::bytes_without_sums(shape, groups_of(shape, in_groups));
  }

 private:
  [[nodiscard]] int groups(const Shape& shape) const override {
    return groups_of(shape, in_groups_);
  }
  [[nodiscard]] bool moves_centroids() const override { return false; }
  static int groups_of(const Shape& shape, bool in_groups) {
    const std::int64_t full = round_up(shape.k, Panels::kWidth) / Panels::kWidth;
    return in_groups ? static_cast<int>(std::min<std::int64_t>(full, kMaxGroups)) : 1;
  }
  bool in_groups_;
};

class OpenmpBest final : public kmeans::Variant<float>, public Stops<float> {
 public:
  void setup(const Problem<float>& problem) override {
    auto earlier = std::exchange(family_, nullptr);  // none is at work if something fails
    problem_ = problem;
    const Shape& shape = problem.shape;
    const bool weighted = problem.counted.weights != nullptr;
    // A rank without points is tiny, too.
    names_ = is_tiny(shape) ? Families{.brute = "openmp_exact"}
                            : Families::of(shape, problem.threads, problem.iterations, weighted);
    tree_later_ = false;
    const bool by_shape = !names_.tree.empty() && surely_tree(shape, names_.int8, problem.threads);
    if (by_shape) choose_tree_by_shape();
    if (!names_.brute.empty() && !tree_later_) choose_brute_force();
    if (!names_.tree.empty() && !by_shape) choose_tree_by_neighbourhoods();
    // At rest such a tree looks at nodes of many points, and bounds at every point.
    if (by_shape && (begins_with_tree() || tree_later_)) names_.bounded.clear();
    iterations_ = 0;
    again_ = false;
    forget_scout();
    may_scout_ = !names_.bounded.empty() && scouted() > 0;
    family_ = std::move(earlier);
    begin_with(first_name());  // again, if it is the one that is there: then it keeps its copies
  }

  void reset(const float* centroids) override {
    if (!family_ || is_behind_bounds()) begin_with(first_name());
    take_tree_for(iterations_);  // as many as in the run that ends
    family_->reset(centroids);
    open_ = 1;
    tree_share_ = tree_share_seen_;
    again_ = again_ || iterations_ > 0;
    earlier_ = 0;
    scouting_ = may_scout_;
    iterations_ = 0;
    looks_ = Looks(iteration_time(), model().grouping(in_groups()));
    seen_ = 1;
    wait_until_ = 0;
    changed_now_ = false;
    began_ = false;
    rests_ = false;
    judged_ = false;
    no_bounds_ = false;
    if (scout_ != nullptr) scout_->reset(centroids);
  }

  void step(std::int64_t iterations) override {
    distances_ = 0;
    earlier_ = iterations_;
    begin_with_tree_for(iterations);
    looks_.begin(iterations);
    while (iterations > 0) iterations -= go_on({}, iterations, iterations).iterations;
  }

  /// How many there will be is not known: as many again as there have been, it is assumed.
  Stopped step_until(const Stopping& when, std::int64_t most) override {
    distances_ = 0;
    begin_with_tree_for(std::min(most, kExpectedIterations));
    Stopped all;
    while (all.iterations < most && !all.settled && !all.within_shift) {
      earlier_ = iterations_;
      const std::int64_t left = most - all.iterations;
      const std::int64_t asked = std::clamp<std::int64_t>(iterations_, 1, left);
      looks_.begin(1);
      const Stopped now = go_on(when, asked, left);
      all = {all.iterations + now.iterations, now.settled, now.within_shift};
    }
    return all;
  }

  /// By the family at work: no other pays for it.
  void label_again() override { label_with_breaks({}); }
  void label_with_breaks(const std::function<void()>& between) override {
    at_work().label_with_breaks(between);
    distances_ = at_work().computed_distances().value_or(problem_.shape.n * problem_.shape.k);
  }

  void fetch(float* centroids, std::int32_t* labels) override {
    at_work().fetch(centroids, labels);
  }

  [[nodiscard]] const float* centroids() const override { return at_work().centroids(); }

  Progress progress() override { return at_work().progress(); }

  std::optional<std::int64_t> computed_distances() const override { return distances_; }

  std::vector<std::pair<std::string, std::string>> library_info() const override {
    std::string families;
    for (const std::string* name : {&names_.brute, &names_.tree, &names_.bounded}) {
      if (!name->empty()) families += (families.empty() ? "" : ", ") + *name;
    }
    if (names_.int8.empty()) return {{"families", families}};
    return {{"families", families}, {"int8", names_.int8}};
  }

 private:
  /// What the first family takes, once more.
  [[nodiscard]] double first_setup() const {
    return begins_with_tree() ? model().tree_setup() : model().brute_setup();
  }
  [[nodiscard]] FamilyCosts model() const { return FamilyCosts(problem_.shape, problem_.threads); }
  [[nodiscard]] double bounded_cost(double computed) const {
    return model().bounded(computed, in_groups());
  }
  /// Of the family that a run begins with, from now on.
  [[nodiscard]] double settled_cost() const {
    if (begins_with_tree()) return model().tree(tree_share_);
    return crowded(problem_.threads) * model().settled(bytes_at_work_ ? names_.int8 : "", open_);
  }
  [[nodiscard]] bool in_groups() const { return prefers_groups(problem_.shape); }
  /// Points of the sample.
  [[nodiscard]] std::int64_t scouted() const { return scouts(problem_.shape, problem_.iterations); }
  /// Of brute force (when points hardly move any more, as soon as that is less) or of the tree, by the clock.
  [[nodiscard]] double iteration_time() const {
    const double barriers = 1500.0 * (problem_.threads - 1);
    const double cost = begins_with_tree() ? settled_cost() : std::min(brute_cost_, settled_cost());
    return barriers + cost * static_cast<double>(problem_.shape.n) / problem_.threads;
  }
  /// By the clock, if bounds leave so much.
  [[nodiscard]] double look_time(double computed) const {
    return model().look(scouted(), computed, in_groups());
  }
  [[nodiscard]] double share(std::int64_t distances, std::int64_t points) const {
    return static_cast<double>(distances) /
           (static_cast<double>(points) * static_cast<double>(problem_.shape.k));
  }

  /// Throws std::bad_alloc after a setup that ran out of memory; reset() and setup() try again.
  [[nodiscard]] Family<float>& at_work() const {
    if (!family_) throw std::bad_alloc();
    return *family_;
  }
  [[nodiscard]] bool is_behind_bounds() const { return family_ && name_ == names_.bounded; }
  [[nodiscard]] bool begins_with_tree() const { return names_.brute.empty(); }
  /// That a run begins with.
  [[nodiscard]] const std::string& first_name() const {
    return begins_with_tree() ? names_.tree : names_.brute;
  }

  /// `frame`: of this problem, if another family has it.
  void begin_with(const std::string& name, const Frame<float>* frame = nullptr) {
    auto family = std::exchange(family_, nullptr);
    if (!family || name != name_) {
      family.reset();  // before another takes memory
      family = make_family(name);
      if (frame != nullptr) family->take_frame(*frame);
    }
    family->setup(problem_);
    family_ = std::move(family);
    name_ = name;
  }

  /// Instead of brute force, between two runs, if it pays within so many iterations.
  void take_tree_for(std::int64_t iterations) {
    if (!tree_later_ || !tree_pays(problem_.shape, names_.int8, problem_.threads, iterations))
      return;
    begin_with(names_.tree);
    tree_later_ = false;
    names_.brute.clear();
  }

  /// The same at the beginning of a run: later it would not know which labels change.
  void begin_with_tree_for(std::int64_t iterations) {
    if (!tree_later_ || iterations_ > 0) return;
    const std::int64_t kd = problem_.shape.k * problem_.shape.d;
    const std::vector<float> centroids(at_work().centroids(), at_work().centroids() + kd);
    take_tree_for(iterations);
    if (!tree_later_) family_->reset(centroids.data());
  }

  /// The sample's bounds go to the centroids of all points. It is made at the first look, which not every run comes to.
  /// False: there is no memory for it.
  bool look() {
    try {
      if (scout_ == nullptr) {
        scouted_ = evenly_spaced(problem_, scouted());
        scout_ = std::make_unique<Scout>(in_groups());
        scout_->setup(part_of_problem(scouted_, problem_.threads));
        scout_->reset(at_work().centroids());
      }
      scout_->follow(at_work().centroids());
    } catch (const std::bad_alloc&) {
      forget_scout();
      scouting_ = may_scout_ = false;
    }
    return scouting_;
  }
  void forget_scout() {
    scout_.reset();
    scouted_ = {};
  }

  [[nodiscard]] Problem<float> part_of_problem(const KeptVector<float>& points, int threads) const {
    Problem<float> part = problem_;
    part.shape.n = static_cast<std::int64_t>(points.size()) / problem_.shape.d;
    part.points = points.data();
    part.threads = threads;
    part.points_file.clear();
    part.shard = {};  // a sample of this rank's own
    part.counted = {};
    return part;
  }

  /// In float32 or in bytes? Where the shape leaves it open, by what bytes leave open of some points, between
  /// centroids that are points.
  void choose_brute_force() {
    const FamilyCosts costs = model();
    const std::int64_t iterations = iterations_or(problem_.iterations, kExpectedIterations);
    double open = costs.usual_open();
    if (costs.bytes_may_pay(names_.int8, iterations) && is_worth_a_look_at_bytes(iterations)) {
      open = open_in_bytes();
      constexpr std::int64_t kFew = 20;  // later, bytes leave half as many open
      if (open < kMostOpen && iterations > kFew) open /= 2;
      names_.brute =
          costs.bytes_pay(names_.int8, open, iterations) ? "openmp_int8" : "openmp_exact";
    }
    bytes_at_work_ = names_.brute == "openmp_int8";
    brute_cost_ = crowded(problem_.threads) * costs.brute(bytes_at_work_, names_.int8, open);
  }

  [[nodiscard]] std::int64_t points_in_bytes() const {
    return std::clamp<std::int64_t>(problem_.shape.n / 128, 128, 256);
  }
  [[nodiscard]] bool is_worth_a_look_at_bytes(std::int64_t iterations) const {
    constexpr double kShare = 0.015;
    const FamilyCosts costs = model();
    const double all =
        costs.exact() * static_cast<double>(iterations) * static_cast<double>(problem_.shape.n);
    const auto points = static_cast<double>(points_in_bytes());
    return costs.bytes_look(names_.int8, points) < kShare * all / problem_.threads;
  }
  [[nodiscard]] double open_in_bytes() const {
    const KeptVector<float> some = evenly_spaced(problem_, points_in_bytes(), true);
    const KeptVector<float> centroids = evenly_spaced(problem_, problem_.shape.k);
    const auto bytes = make_family("openmp_int8");
    bytes->setup(part_of_problem(some, 1));
    bytes->reset(centroids.data());
    bytes->step(1);
    return bytes->open_share().value();
  }

  void choose_tree_by_shape() {
    const auto pays = [&](std::int64_t iterations) {
      return tree_pays(problem_.shape, names_.int8, problem_.threads, iterations);
    };
    constexpr std::int64_t kAlways = 2;  // iterations that any run has
    if (pays(iterations_or(problem_.iterations, kAlways))) {
      names_.brute.clear();
    } else if (problem_.iterations > 0) {
      names_.tree.clear();
    } else {
      // There may be only a few iterations.
      tree_later_ = true;
      names_.brute = "openmp_exact";  // bytes take as long to set up as the tree
      bytes_at_work_ = false;
      brute_cost_ = crowded(problem_.threads) * model().exact();
    }
  }

  /// Tree or brute force? By what boxes leave in some neighbourhoods, of centroids that are points.
  void choose_tree_by_neighbourhoods() {
    constexpr std::int64_t kLong = 100;
    const std::int64_t iterations = iterations_or(problem_.iterations, kLong);
    if (!boxes_may_pay(model(), brute_cost_, iterations)) {
      return names_.tree.clear();
    }
    const auto team = [](int threads, const auto& work) { in_team(threads, work); };
    const KeptVector<float> neighbours = neighbourhoods(problem_, team);
    const KeptVector<float> centroids = evenly_spaced(problem_, problem_.shape.k);
    const auto boxes = make_family(names_.tree);
    boxes->setup(part_of_problem(neighbours, std::max(1, problem_.threads / 4)));  // they are few
    boxes->reset(centroids.data());
    boxes->step(1);
    const auto points = static_cast<std::int64_t>(neighbours.size()) / problem_.shape.d;
    const FamilyCosts costs = model();
    tree_share_seen_ = costs.tree_share(share(*boxes->computed_distances(), points));
    const bool tree = prefers_tree(costs, brute_cost_, tree_share_seen_, iterations);
    (tree ? names_.brute : names_.tree).clear();
  }

  /// Some of the iterations asked for, at most `most`, until the next look.
  Stopped go_on(const Stopping& when, std::int64_t asked, std::int64_t most) {
    consider(asked);
    rested_ = rests_;
    Stopping also = when;
    also.settled = when.settled || watches_for_rest(asked);
    Stopped now = at_work().step_until(also, std::min(most, until_looked_at(asked)));
    if (now.settled && !when.settled) {
      rests_ = true;
      scouting_ = false;
      now.settled = false;
    }
    changed_now_ = began_ && now.iterations == 1;
    began_ = false;
    count(now.iterations);
    iterations_ += now.iterations;
    if (scouting_) scout(now.iterations, asked - now.iterations);
    return now;
  }

  void count(std::int64_t iterations) {
    counted_ = at_work().computed_distances();
    open_ = at_work().open_share().value_or(open_);
    if (name_ == names_.tree) tree_share_ = share(*counted_, iterations * problem_.shape.n);
    distances_ += counted_.value_or(iterations * problem_.shape.n * problem_.shape.k);
  }

  /// The iterations that a change has to pay within: those asked for, or as many again as there were in
  /// earlier steps.
  [[nodiscard]] std::int64_t to_come(std::int64_t asked) const { return std::max(asked, earlier_); }

  /// Within the iterations to come after two looks, if bounds saved everything. Else the sample need not be
  /// looked at.
  [[nodiscard]] bool bounds_may_pay(std::int64_t asked) const {
    return bounds_pay(settled_cost(), bounded_start(), bounded_cost(0), to_come(asked - 1));
  }

  /// The points are copied; all distances are formed, for the groups too. If there was a run before, there may be one
  /// after this, and that begins with the first family.
  [[nodiscard]] double bounded_start(bool at_rest = false) const {
    const FamilyCosts costs = model();
    const double of_one = costs.handing_over() + (at_rest ? 0 : costs.grouping(in_groups()));
    return (again_ ? first_setup() : 0) + costs.bounded_setup() + costs.bounded_first(in_groups()) +
           of_one * problem_.threads / static_cast<double>(problem_.shape.n);
  }

  /// When no label has changed, no centroid moves, and all iterations to come are alike: bounds leave open only what
  /// they cannot decide, such as ties. (What other ranks' labels do is not known here.)
  [[nodiscard]] bool watches_for_rest(std::int64_t asked) const {
    if (rests_ || names_.bounded.empty() || problem_.shard.communicator != nullptr) return false;
    return is_behind_bounds() || pays_at_rest(to_come(asked - 1));
  }
  [[nodiscard]] bool pays_at_rest(std::int64_t left) const {
    return !no_bounds_ && bounds_pay(settled_cost(), bounded_start(true), cost_at_rest(0), left);
  }
  [[nodiscard]] double cost_at_rest(double computed) const {
    return model().bounded_at_rest(computed, in_groups());
  }

  /// Are there iterations to come without a look? The last two before bounds may be tried are looked at.
  [[nodiscard]] bool waits() const { return iterations_ + 1 < wait_until_; }

  /// Iterations to make at once.
  [[nodiscard]] std::int64_t until_looked_at(std::int64_t asked) const {
    if (is_behind_bounds()) return judged_ ? asked : 1;
    if (!scouting_ || (looks_.in_a_row() == 0 && !bounds_may_pay(asked))) return asked;
    if (waits()) return std::min(asked, wait_until_ - 1 - iterations_);
    return std::min(asked, looks_.next(2 * look_time(1)));
  }

  /// After `passed` iterations, with `asked` to come. The sample goes after the centroids of all points.
  void scout(std::int64_t passed, std::int64_t asked) {
    looks_.takes(iteration_time());
    looks_.passed(passed);
    if (waits()) return;
    if (!looks_.due(look_time(seen_), 2 * look_time(1))) return;
    if (!bounds_may_pay(asked)) return looks_.break_off();
    if (!look()) return;
    const std::int64_t distances = *scout_->computed_distances();
    seen_ = share(distances, scouted());
    looks_.looked(look_time(seen_));
    // The first look in a row makes bounds exact where the iterations without a look have used up their gaps.
    foreseen_before_ = std::exchange(foreseen_, coming_share(seen_, looks_.in_a_row() - 1));
    distances_ += distances;
  }

  /// Another family, if its beginning pays within the iterations to come. Bounds are left when the first family
  /// would have saved so much as to go there and come back costs: a burst of movement may soon be over.
  void consider(std::int64_t asked) {
    const std::int64_t left = to_come(asked);
    if (rests_) {
      rest(left);
    } else if (scouting_) {
      if (!looks_.seen_twice() || iterations_ < wait_until_ || left <= 1) return;
      const auto excess = [&](double computed) {
        return excess_of_change(settled_cost(), bounded_start(), bounded_cost(computed), left);
      };
      // Shares differ from one look to the next, so one alone has to save a quarter.
      const bool again = looks_.in_a_row() > 2;
      const double computed = again ? (foreseen_ + foreseen_before_) / 2 : foreseen_;
      if (excess(computed) >= (again ? 0 : -0.2)) return pause(excess(seen_));
      scouting_ = false;
      go_on_with(names_.bounded);
    } else if (is_behind_bounds() && !began_ && !changed_now_) {
      const double now = bounded_cost(share(*counted_, problem_.shape.n));
      lost_ = std::max(0.0, lost_ + now - settled_cost());
      const double there = first_setup();
      if (lost_ < there + bounded_start() - bounded_cost(0)) return;
      if (change_pays(now, there + settled_cost(), settled_cost(), left)) go_back();
    }
  }

  /// Where bounds would not pay even if they went on leaving what they leave now: for as large a part of the iterations
  /// passed as they are dearer, at most half, the sample is not looked at. Shares change by less and less.
  void pause(double excess) {
    const auto passed = static_cast<double>(iterations_);
    const auto iterations = static_cast<std::int64_t>(std::min(0.5, excess) * passed);
    if (iterations < 2) return;  // the look after it only brings bounds to date
    wait_until_ = iterations_ + iterations + 2;
    looks_.break_off();
  }

  /// One iteration at rest is like all that follow, so bounds are judged by it.
  void rest(std::int64_t left) {
    if (!is_behind_bounds()) {
      if (!pays_at_rest(left)) return;
      go_on_with(names_.bounded);
      no_bounds_ = !is_behind_bounds();  // there is no memory for them
    } else if (rested_ && !judged_ && !began_ && !changed_now_) {
      judged_ = true;
      if (cost_at_rest(share(*counted_, problem_.shape.n)) < settled_cost()) return;
      go_on_with(first_name());
      no_bounds_ = true;
    }
  }

  /// Changes to another family, which takes over labels and sums. The one at work is freed first. If there is no memory
  /// for bounds, the first family goes on until the next run.
  void go_on_with(const std::string& name) {
    const std::int64_t kd = problem_.shape.k * problem_.shape.d;
    KeptVector<float> centroids;
    std::optional<Frame<float>> frame;
    AlignedArray<std::int32_t> labels;
    AlignedArray<std::int64_t> sums;
    Standing handed;
    try {
      if (at_work().frame() != nullptr) frame = *at_work().frame();
      centroids.assign(at_work().centroids(), at_work().centroids() + kd);
      const Standing standing = at_work().standing().value();
      handed = {own_copy(standing.labels, labels), own_copy(standing.sums, sums), rests_};
    } catch (const std::bad_alloc&) {
      return;  // as before
    }
    try {
      begin_with(name, frame ? &*frame : nullptr);
      family_->reset(centroids.data());
    } catch (const std::bad_alloc&) {
      if (name == first_name()) throw;
      begin_with(first_name(), frame ? &*frame : nullptr);
      family_->reset(centroids.data());
    }
    family_->take_over(handed);
    lost_ = 0;
    began_ = true;
  }

  template <class T>
  std::span<const T> own_copy(std::span<const T> values, AlignedArray<T>& own) const {
    own = AlignedArray<T>(static_cast<std::int64_t>(values.size()));
    copy_by_team(values, own.data(), problem_.threads);
    return {own.data(), values.size()};
  }

  /// To the first family. Bounds are tried again when it has made as many iterations as there have been: if the
  /// sample is misleading, each time costs a smaller part of all.
  void go_back() {
    go_on_with(first_name());
    if (is_behind_bounds()) return;
    scouting_ = true;
    looks_ = Looks(iteration_time(), 0);
    wait_until_ = 2 * iterations_ + 16;
  }

  Problem<float> problem_;
  Families names_;
  bool tree_later_ = false;  // instead of brute force, if enough iterations are to come
  std::unique_ptr<Family<float>> family_;  // at work
  std::string name_;
  double brute_cost_ = 0;
  bool bytes_at_work_ = false;  // as brute force
  bool may_scout_ = false;
  std::unique_ptr<Scout> scout_;  // bounds of scouted_; null before the first look
  KeptVector<float> scouted_;     // points
  bool scouting_ = false;
  Looks looks_;                          // of the scout, since reset
  bool began_ = false;                   // the family at work has made no iteration
  bool changed_now_ = false;             // the last iteration was its first
  bool rests_ = false;                   // an iteration changed no label
  bool rested_ = false;                  // before the last iteration
  bool judged_ = false;                  // bounds at rest are
  bool no_bounds_ = false;               // at rest, in this run
  std::int64_t iterations_ = 0;          // since reset
  std::int64_t earlier_ = 0;             // before this step
  std::int64_t distances_ = 0;           // in this step
  std::optional<std::int64_t> counted_;  // by the family, in its last step
  double tree_share_seen_ = 1;           // of distances, that the tree forms: by neighbourhoods
  double tree_share_ = 1;                // and when it was last at work
  bool again_ = false;                   // there was a run before this one
  double open_ = 1;              // of points, the share that bytes left so when last at work
  double seen_ = 1;              // of distances, that bounds of the sample left at the last look
  double foreseen_ = 1;          // that they come to leave, by that look
  double foreseen_before_ = 1;   // and by the one before
  double lost_ = 0;              // that the first family would have saved, a point
  std::int64_t wait_until_ = 0;  // so many iterations, before bounds are tried again
};

}  // namespace

KMEANS_VARIANT(
    OpenmpBest, .name = "openmp_best",
    .summary =
        "the exact Lloyd step by the family of exact variants that suits the shape, changed on the "
        "way where a sample or labels at rest show that bounds would save more",
    .exact = true, .parallel = true, .shards = true, .weights = true, .spherical = true,
    .skips_work = true, .sums = Sums::wide,
    .setup_note = "sets up the family that begins; the next one is set up on the way",
    .supports = openmp::tiled_supports, .memory_bytes = [](const Shape& s, int threads) {
      const Families families = Families::of(s, threads);
      constexpr std::int64_t kMany = 1000;  // iterations
      const bool bytes = FamilyCosts(s, threads).bytes_pay(families.int8, 0, kMany);
      const double brute = bytes_of(bytes ? "openmp_int8" : families.brute, s, threads);
      const double bounded = bytes_of(families.bounded, s, threads);
      const double one = std::max({brute, bounded, bytes_of(families.tree, s, threads)});
      // Labels, centroids and sums that one family hands over to the next.
      const double sums = 8.0 * static_cast<double>(s.k * (round_up(s.d, 8) + 1));
      const double handed =
          12.0 * static_cast<double>(s.n) + 4.0 * static_cast<double>(s.k * s.d) + sums;
      const Shape sample{scouts(s, 0), s.d, s.k, s.precision};
      const double scout = sample.n == 0 ? 0 : Scout::bytes(sample, prefers_groups(s));
      return one + handed + scout;
    })
