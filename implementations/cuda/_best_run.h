// SPDX-License-Identifier: Apache-2.0
//
// A family at work, and others that are tried on the run's own iterations: every family has the same bits, so an
// iteration that is tried is an iteration made, and no bit shows who made which.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "implementations/cuda/_best_choice.h"
#include "implementations/cuda/_family.h"

namespace kmeans::cuda {

/// A family that may be the fastest, and what a model knows of it, in seconds.
struct Candidate {
  std::string name;
  double likely;       ///< Of an iteration.
  double least;        ///< It cannot be less.
  double setup;        ///< Of its copies of points that are on the GPU.
  bool keeps_bounds;   ///< Saves little in ten iterations and more in each later one.
  bool ahead = false;  ///< Probably the fastest over the whole run.
  /// Its bounds are known to hold once an iteration changes no more labels than this; -1: that is not known.
  std::int64_t holds_below = -1;
};

class BestRun {
 public:
  using At = Family<float>;
  /// Makes a family and sets it up; null, or std::bad_alloc, if there is no room for one more.
  using Make = std::function<std::unique_ptr<At>(const std::string& name)>;
  using Clock = std::function<double()>;  // seconds

  BestRun() = default;
  /// The first of the candidates is set up here. spent: seconds so far, of which trials may take a share as well.
  BestRun(std::vector<Candidate> candidates, Make make, double spent = 0, Clock clock = seconds_now)
      : make_(std::move(make)), clock_(std::move(clock)), all_(spent) {
    for (auto& candidate : candidates) {
      families_.push_back({.known = std::move(candidate), .not_before = 1 + kTimedIterations});
      if (families_.back().known.keeps_bounds)
        families_.back().not_before = kIterationsBeforeBounds;
    }
    const double begin = clock_();
    set_up(0);
    families_[0].done = true;
    all_ += clock_() - begin;
  }

  [[nodiscard]] const At& at_work() const { return *families_[now_].family; }
  [[nodiscard]] At& at_work() { return *families_[now_].family; }

  /// Was there a choice?
  [[nodiscard]] bool chooses() const { return families_.size() > 1; }
  /// Of everything so far, if it chooses.
  [[nodiscard]] double seconds() const { return all_; }

  void reset(const float* centroids) {
    if (!chooses()) {
      made_ = since_ = 0;
      return at_work().reset(centroids);
    }
    if (trial_ && trial_is_over()) end_trial();
    if (trial_) charge(*trial_);
    for (Known& one : families_) one.holds = false;  // so they did in the run that ends
    const double begin = clock_();
    now_ = early_;
    trial_.reset();
    made_ = since_ = 0;
    timed_now_ = false;
    at_work().reset(centroids);
    all_ += clock_() - begin;
  }

  Stopped step_until(const Stopping& when, std::int64_t most, StageRecorder* recorder = nullptr) {
    Stopped all;
    earlier_ = made_;
    while (all.iterations < most && !all.early()) {
      const Stopped some = go_on(when, most - all.iterations, recorder);
      all = {all.iterations + some.iterations, some.settled, some.within_shift};
    }
    return all;
  }
  void step(std::int64_t iterations, StageRecorder* recorder) {
    if (chooses()) {
      step_until({}, iterations, recorder);
      return;
    }
    // No notes: they would take as long as an iteration of few points.
    at_work().expect(std::max(iterations, made_));
    at_work().set_stage_recorder(recorder);
    at_work().step(iterations);
    at_work().set_stage_recorder(nullptr);
    made_ += iterations;
  }

  /// The family at work, the one that goes on where a run is long, or the same, and all that were set up.
  [[nodiscard]] std::string family() const { return families_[early_].known.name; }
  [[nodiscard]] std::string family_of_long_runs() const {
    return families_[later_.value_or(early_)].known.name;
  }
  [[nodiscard]] std::string tried() const {
    std::string names;
    for (const Known& one : families_) {
      if (one.was_set_up) names += (names.empty() ? "" : ", ") + one.known.name;
    }
    return names;
  }

  static double seconds_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

 private:
  static constexpr std::int64_t kExpected = 20;   // of a run that stops by itself, at first
  static constexpr std::int64_t kLastLook = 160;  // by then they do, or never will
  static constexpr double kClear = 0.97;          // less may be the clock's
  static constexpr double kClearEarly = 0.88;     // while points move, others also become faster
  static constexpr double kClearAhead = 1.15;     // what is expected ahead may be slower at first
  static constexpr double kSavedAhead = 0.05;     // and saves so much of an iteration later
  static constexpr double kCount = 100e-6;        // seconds that two counts of changed labels take

  struct Known {
    Candidate known;
    std::int64_t not_before;  // iterations made, of which a trial is the next
    bool done = false;        // it has been tried, or cannot be
    bool holds = false;       // its bounds do, by the labels that change
    bool was_set_up = false;
    std::unique_ptr<At> family{};     // null: not in memory
    std::optional<double> seconds{};  // of an iteration after the first
  };

  /// Of a family on the run's iterations.
  struct Trial {
    std::size_t before;  // at work until then
    double its;          // seconds of an iteration of that one
    double spent;        // all of this run's seconds before
    double first = 0;    // of the first iteration
    double looked = 0;   // of those behind it
  };

  /// A chunk of the iterations, or a change of the family and then one.
  Stopped go_on(const Stopping& when, std::int64_t most, StageRecorder* recorder) {
    const bool stops = when.settled || when.looks_at_shift();
    if (stops) most = std::min(most, std::max(kExpected, made_));  // it may end at any time
    if (trial_ && trial_is_over()) end_trial();
    // Those that are asked for; or as many again as there have been.
    to_come_ = std::max(most, stops ? made_ : earlier_);
    if (trial_) return go_on_trying(when, most, recorder);
    if (doubted_ && later_ == now_ && recorder == nullptr) {
      if (since_ == 0) return run(when, 1, recorder);
      const std::int64_t before = next_look(later_after_) - made_;
      if (before > 0) return run(when, std::min(most, before), recorder);
      settle_doubt();
    }
    if (later_ && now_ == early_) {
      const std::int64_t before = std::max<std::int64_t>(0, later_after_ - made_);
      if (pays(std::max(most - before, stops ? made_ + before : earlier_))) {
        if (before > 0) return run(when, std::min(most, before), recorder);
        change_to(*later_);
        return run(when, doubted_ ? 1 : most, recorder);
      }
    }
    // What stages are timed by is no measure.
    const auto next = recorder == nullptr ? next_to_try(to_come_) : std::nullopt;
    if (!next) return run(when, most, recorder);
    // The first iteration of a family takes longer than others; those behind it are timed.
    if (since_ == 0) return run(when, 1, recorder);
    if (!timed_now_) return run(when, std::min(most, kTimedIterations), recorder);
    const std::int64_t before = families_[*next].not_before - made_;
    if (!is_affordable(families_[*next], to_come_)) {
      return count_before_trying(*next, when, most, recorder);
    }
    if (before > 0) return run(when, std::min(most, before), recorder);
    return begin_trial(*next, when, most, recorder);
  }

  /// Of one whose trial is dear: up to the iteration after which it may be tried, whose changed labels are counted.
  Stopped count_before_trying(std::size_t candidate, const Stopping& when, std::int64_t most,
                              StageRecorder* recorder) {
    Known& one = families_[candidate];
    if (made_ < one.not_before - 1) {
      return run(when, std::min(most, one.not_before - 1 - made_), recorder);
    }
    const double begin = clock_();
    (void)at_work().progress();  // with these labels those of the next iteration are compared
    double counted = clock_() - begin;
    const auto timed = families_[now_].seconds;
    const Stopped made = run(when, 1, recorder);
    families_[now_].seconds = timed;  // an iteration by itself takes longer
    const double again = clock_();
    const auto changed = at_work().progress().changed;
    counted += clock_() - again;
    one.holds = changed && *changed <= one.known.holds_below;
    if (!one.holds) look_later(one, made_);
    all_ += counted;
    trials_ += counted;
    return made;
  }

  /// looked: after so many iterations. Looks are after 10, 40 and 160, as each takes as long as some iterations.
  static void look_later(Known& one, std::int64_t looked) {
    one.not_before = next_look(looked);
    one.done = is_last_look(looked);
  }
  static std::int64_t next_look(std::int64_t looked) {
    std::int64_t look = kIterationsBeforeBounds;
    while (look <= looked) look *= 4;
    return look;
  }
  static bool is_last_look(std::int64_t looked) { return looked >= kLastLook; }

  /// By what is known of it now.
  [[nodiscard]] double iteration_seconds() const {
    return families_[now_].seconds.value_or(families_[now_].known.likely);
  }

  /// One that may save more than its trial costs: the trial costs a small share of all, or, if there is none such,
  /// the changed labels can show first that its bounds hold.
  [[nodiscard]] std::optional<std::size_t> next_to_try(std::int64_t to_come) const {
    std::optional<std::size_t> best;
    std::pair<bool, double> most{false, 0};  // is it affordable, seconds saved
    for (std::size_t f = 0; f < families_.size(); ++f) {
      const Known& one = families_[f];
      if (one.done || f == now_) continue;
      const auto left = static_cast<double>(
          to_come - std::max<std::int64_t>(0, one.not_before - made_) - kTimedIterations);
      const double cost = trial_seconds(one);
      const double saved = left * (iteration_seconds() - least_seconds(one)) - cost;
      const bool affordable = is_affordable(one, to_come);
      const bool can_be_shown = one.known.holds_below >= 0 &&
                                within(kTrialShare, kCount, to_come) &&
                                within(kTrialShareIfBoundsHold, cost, to_come);
      if (saved > cost && (affordable || can_be_shown) && std::pair(affordable, saved) > most) {
        most = {affordable, saved};
        best = f;
      }
    }
    return best;
  }

  /// Of an iteration. Bounds save pairs, and nothing of what else the family at work was seen to take.
  [[nodiscard]] double least_seconds(const Known& one) const {
    if (!one.known.keeps_bounds) return one.known.least;
    return one.known.least * std::max(1.0, iteration_seconds() / families_[now_].known.likely);
  }

  /// The first iteration after a change takes about as long as two, of the family tried and of the one returned to.
  [[nodiscard]] double trial_seconds(const Known& one) const {
    return (one.family == nullptr ? one.known.setup : 0) + 2 * one.known.likely +
           iteration_seconds();
  }
  [[nodiscard]] bool is_affordable(const Known& one, std::int64_t to_come) const {
    return within(one.holds ? kTrialShareIfBoundsHold : kTrialShare, trial_seconds(one), to_come);
  }
  /// Seconds of trials besides those so far, in a share of all.
  [[nodiscard]] bool within(double share, double more, std::int64_t to_come) const {
    return trials_ + more <= share * (all_ + static_cast<double>(to_come) * iteration_seconds());
  }

  Stopped run(const Stopping& when, std::int64_t iterations, StageRecorder* recorder) {
    At& family = at_work();
    Known& known = families_[now_];
    const double before = clock_();
    family.expect(to_come_);
    const double begin = clock_();
    all_ += begin - before;
    family.set_stage_recorder(recorder);
    Stopped made{.iterations = iterations};
    if (when.settled || when.looks_at_shift()) {
      made = family.step_until(when, iterations);
    } else {
      family.step(iterations);
    }
    family.set_stage_recorder(nullptr);
    last_ = clock_() - begin;
    all_ += last_;
    if (since_ > 0 && made.iterations > 0 && recorder == nullptr) {
      known.seconds = last_ / static_cast<double>(made.iterations);
      timed_now_ = true;
    }
    made_ += made.iterations;
    since_ += made.iterations;
    return made;
  }

  void change_to(std::size_t family) {
    const double begin = clock_();
    families_[family].family->go_on_from(at_work());
    now_ = family;
    since_ = 0;
    timed_now_ = false;
    all_ += clock_() - begin;
  }

  /// On the next iterations: one, then kTimedIterations that are timed.
  Stopped begin_trial(std::size_t candidate, const Stopping& when, std::int64_t most,
                      StageRecorder* recorder) {
    const Trial trial{.before = now_, .its = iteration_seconds(), .spent = all_};
    const double begin = clock_();
    if (families_[candidate].family == nullptr) {
      try {
        set_up(candidate);
      } catch (const std::bad_alloc&) {  // the family at work has its memory already
      }
    }
    all_ += clock_() - begin;
    if (families_[candidate].family == nullptr) {
      families_[candidate].done = true;
      return go_on(when, most, recorder);
    }
    change_to(candidate);
    trial_ = trial;
    const Stopped made = run(when, 1, recorder);
    trial_->first = last_;
    return made;
  }

  Stopped go_on_trying(const Stopping& when, std::int64_t most, StageRecorder* recorder) {
    const Stopped made = run(when, std::min(most, 1 + kTimedIterations - since_), recorder);
    trial_->looked += last_;
    return made;
  }

  [[nodiscard]] bool trial_is_over() const { return since_ == 1 + kTimedIterations; }

  /// Not before others are asked for: its labels are those of the last iteration until then.
  void end_trial() {
    const Trial trial = *trial_;
    trial_.reset();
    charge(trial);
    families_[now_].seconds = trial.looked / static_cast<double>(kTimedIterations);
    judge(now_, trial.before, trial.its, trial.first);
  }

  /// With what it cost beyond what the family before would have taken for these iterations.
  void charge(const Trial& trial) {
    trials_ += std::max(0.0, all_ - trial.spent - static_cast<double>(since_) * trial.its);
  }

  void judge(std::size_t candidate, std::size_t before, double its, double first) {
    Known& one = families_[candidate];
    // What bounds save grows from iteration to iteration.
    const std::int64_t looked = made_ - since_;
    const double clear = one.known.ahead                                   ? kClearAhead
                         : one.known.keeps_bounds && !is_last_look(looked) ? kClearEarly
                                                                           : kClear;
    const bool faster = *one.seconds < clear * its && is_faster_than_first(one, before);
    if (one.known.keeps_bounds) {
      if (faster) {
        one.done = true;
        later_ = candidate;
        later_after_ = looked;
        later_saved_ = std::max(its - *one.seconds, one.known.ahead ? kSavedAhead * its : 0);
        later_costs_ = std::max(0.0, first - *one.seconds);
        if (*one.seconds >= its) doubted_ = its;
        return;
      }
      one.holds = false;
      look_later(one, looked);
      return_to(before, candidate);
      return;
    }
    one.done = true;
    if (faster) {
      families_[before].family.reset();
      families_[before].done = true;
      if (before == early_) {
        later_saved_ -= its - *one.seconds;
        if (later_ && later_saved_ <= 0) {
          families_[*later_].family.reset();
          later_.reset();
        }
      } else {  // ahead of what bounds save, so from the start
        families_[early_].family.reset();
        later_.reset();
      }
      early_ = candidate;
      return;
    }
    return_to(before, candidate);
  }

  /// Bounds that were expected ahead may be at work while they are not.
  [[nodiscard]] bool is_faster_than_first(const Known& one, std::size_t before) const {
    const auto& first = families_[early_].seconds;
    return before == early_ || !first || *one.seconds < kClear * *first;
  }

  /// Are bounds that were slower than the first family ahead of it by the next look?
  void settle_doubt() {
    const double saved = *doubted_ - *families_[now_].seconds;
    doubted_.reset();
    if (saved > 0) {
      later_saved_ = saved;
      return;
    }
    return_to(early_, now_);
    later_.reset();
  }

  /// After a trial of one that is no faster. The first iteration takes about as long as two.
  void return_to(std::size_t before, std::size_t tried) {
    const double spent = all_;
    change_to(before);
    trials_ += all_ - spent + iteration_seconds();
    if (families_[tried].done) families_[tried].family.reset();
  }

  /// The later family, where so many iterations are to come.
  [[nodiscard]] bool pays(std::int64_t to_come) const {
    return static_cast<double>(to_come) * later_saved_ > later_costs_;
  }

  void set_up(std::size_t candidate) {
    families_[candidate].family = make_(families_[candidate].known.name);
    families_[candidate].was_set_up = families_[candidate].family != nullptr;
  }

  Make make_;
  Clock clock_;
  std::vector<Known> families_;       // the likeliest first
  std::size_t early_ = 0;             // begins a run
  std::size_t now_ = 0;               // at work
  std::optional<std::size_t> later_;  // goes on behind bounds after so many iterations
  std::int64_t later_after_ = 0;
  double later_saved_ = 0;         // in each iteration
  double later_costs_ = 0;         // what its first one takes beyond a later one
  std::optional<double> doubted_;  // of the first family: seconds that the later one is to beat
  std::optional<Trial> trial_;     // that goes on
  double all_ = 0;                 // seconds of everything so far
  double trials_ = 0;              // of what trials cost
  double last_ = 0;                // of the last run()
  bool timed_now_ = false;         // families_[now_].seconds is of this run
  std::int64_t made_ = 0;          // iterations since reset()
  std::int64_t since_ = 0;         // since this family began
  std::int64_t earlier_ = 0;       // of made_, those of calls before this one
  std::int64_t to_come_ = 0;       // as far as it is known
};

}  // namespace kmeans::cuda
