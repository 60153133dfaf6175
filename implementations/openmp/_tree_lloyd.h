// SPDX-License-Identifier: Apache-2.0
//
// Lloyd's algorithm over a BoxTree of the points: the walk from the root with lists of candidates, among
// threads, and what is kept of it from iteration to iteration. Include only where -ffp-contract=off.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "harness/exact_step.h"
#include "harness/variant.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_best_choice.h"
#include "implementations/openmp/_box_tree.h"
#include "implementations/openmp/_candidates.h"
#include "implementations/openmp/_packed.h"
#include "implementations/openmp/_range.h"
#include "implementations/openmp/_team.h"
#include "implementations/openmp/_tree_labels.h"

namespace kmeans::openmp {

/// A node, its level, the centroids that may be nearest to a point of it, and where memory is free.
struct TreePlace {
  std::int64_t node = 0;
  int level = 0;
  Candidates list;
  float* memory = nullptr;
};
struct Walker : CountingMember {
  int thread = 0;
  std::vector<TreePlace> path;  // the nodes above the part at hand
  std::vector<float> before;    // its centroids before they moved
  AlignedArray<float> memory;
};

class TreeLloyd : public Team<float, Walker> {
 public:
  void setup(const Problem<float>& problem) override {
    const auto [n, d, k, precision] = problem.shape;
    if (!knows_points_of(problem)) tree_ = BoxTree(problem, problem.threads);
    kernels_ = TreeKernels::of(d);
    margins_ = Margins::of(d);
    form_team(problem, threads_for(problem.shape, problem.threads));
    seen_ = SeenCentroids(threads_);
    part_level_ = 0;
    while (threads_ > 1 && part_level_ + 2 < tree_.levels() && parts() < std::int64_t{8} * threads_)
      ++part_level_;  // not down to leaves, which are given away together where one cluster has them
    taken_ = std::make_unique<std::atomic<std::int64_t>[]>(parts());
    labels_ = TreeLabels(problem, tree_, threads_);
    reach_ = AlignedArray<float>(2 * tree_.leaves());
    keeps_reach_ = k > std::int64_t{2} * BoxesFound::kMaxCandidates;
    drift_.resize(k);
    roots_ = AlignedArray<float>(Candidates::size(d, k));
    for (auto& walker : team_) {
      walker.value.memory = AlignedArray<float>((tree_.depth() + 2) * Candidates::size(d, k));
      walker.value.path.resize(part_level_);
    }
  }

  void reset(const float* centroids) override {
    means_.assign(centroids, centroids + problem_.shape.k * problem_.shape.d);
    labels_.clear(tree_);
    ++iteration_;  // all parts are free, also after labels without a move
    std::fill_n(reach_.data(), 2 * tree_.leaves(), kUnknown);
    const std::int64_t full = tree_.leaves() + tree_.full_leaves();
    std::fill(reach_.data() + full, reach_.data() + 2 * tree_.leaves(), 0.0F);
    std::fill_n(roots_.data(), Candidates::size(problem_.shape.d, problem_.shape.k),
                Candidates::kFarAway);
    seen_.clear();
    pack(0, 1, {0, problem_.shape.k});
  }

  [[nodiscard]] std::optional<Standing> standing() override {
    ordered_labels_.resize(problem_.shape.n);
    labels_.write(tree_, ordered_labels_.data());
    return Standing{ordered_labels_, labels_.totals()};
  }

  void take_over(const Standing& other) override { labels_.take_over(tree_, other); }

  static double bytes(const Shape& shape, int given_threads) {
    const Sizes s = shape;
    const int threads = threads_for(shape, given_threads);
    const double depth = 2 + std::max(0.0, std::log2(s.n / kLeafPoints));
    return BoxTree::bytes(s) + TreeLabels::bytes(s, threads) + 8 * s.k * s.d +
           4 * (1 + threads * (depth + 2)) * (s.k + 32) * (s.d + 1);
  }

 private:
  static int threads_for(const Shape& shape, int threads) {
    return FamilyCosts(shape, threads).tree_threads();
  }

  static constexpr float kUnknown = std::numeric_limits<float>::infinity();
  static constexpr float kUp = 1 + 0x1p-20F;  // more than the roundings of one step

  [[nodiscard]] std::int64_t parts() const { return tree_.nodes(part_level_); }

  void label(int thread, int threads) override {
    team_[thread].value.thread = thread;
    assign(team_[thread].value, threads);
  }

  void move(int thread, int threads) override {
    const Range clusters = part_of(problem_.shape.k, thread, threads);
    update(team_[thread].value, clusters);
    pack(thread, threads, clusters);
    if (thread == 0) ++iteration_;
    if (!keeps_reach_) return;
    wait(threads);
    extend_reach(part_of(tree_.leaves(), thread, threads));
    wait(threads);
    if (thread == 0) join_reach();
  }

  void fetch_labels(std::int32_t* labels) override { labels_.write(tree_, labels); }

  void assign(Walker& walker, int threads) {
    walker.changed = 0;
    for (TreePlace& place : walker.path) place.node = 0;
    const bool any_near = seen_.all().any_near;
    const std::int64_t first = parts() * walker.thread / threads;
    for (std::int64_t i = 0; i < parts(); ++i) {
      const std::int64_t part = (first + i) % parts();
      if (breaks_.now(walker.thread, problem_.shape.n / parts())) break;
      if (threads > 1 && taken_[part].exchange(iteration_) == iteration_) continue;
      if (tree_.count(parts() + part) == 0) continue;
      if (any_near) {
        visit(walker, enter(walker, parts() + part));
      } else {
        visit_all(walker, parts() + part, part_level_);
      }
    }
  }

  /// The place of a node that is a part; remembers the nodes above it.
  TreePlace enter(Walker& walker, std::int64_t part) {
    const std::int64_t k = problem_.shape.k;
    TreePlace place{1, 0, {roots_.data(), Candidates::stride_for(k), k}, walker.memory.data()};
    for (int level = 1; level <= part_level_; ++level) {
      const std::int64_t node = part / (parts() / tree_.nodes(level));
      TreePlace& known = walker.path[level - 1];
      if (known.node != node) known = at_box(place, node);
      place = known;
    }
    return place;
  }

  /// The place of a node below, its list found by its own box.
  [[nodiscard]] TreePlace at_box(const TreePlace& place, std::int64_t node) const {
    const Candidates list = kernels_.prune(place.list, tree_.boxes(node), tree_.box_stride(),
                                           reach_[node], margins_, place.memory);
    return {node, place.level + 1, list, behind(place.memory, list)};
  }
  [[nodiscard]] float* behind(float* memory, const Candidates& list) const {
    return memory + (problem_.shape.d + 1) * list.stride;
  }

  void visit(Walker& walker, const TreePlace& place) {
    if (tree_.count(place.node) == 0) return;
    if (place.list.count == 1) {
      return give(walker, place.node, place.level, place.list.index(problem_.shape.d, 0));
    }
    const Range children = children_of(place.node, place.level);
    labels_.share(place.node, children);
    if (tree_.is_leaf(place.node)) return label_leaf(walker, place);
    descend(walker, place, place.node, children);
  }

  /// From a node, or a half of it and so on, to the children in it. Long lists shrink at every halving.
  void descend(Walker& walker, const TreePlace& place, std::int64_t half, Range children) {
    if (place.list.count <= BoxesFound::kMaxCandidates) {
      return visit_together(walker, place, children);
    }
    if (children.end - children.begin == 1) {
      return visit(walker, {half, place.level + 1, place.list, place.memory});
    }
    const std::int64_t middle = (children.begin + children.end) / 2;
    for (const Range part : {Range{children.begin, middle}, Range{middle, children.end}}) {
      half = part.begin == middle ? half + 1 : 2 * half;
      if (tree_.count(half) == 0) return;
      TreePlace below = at_box(place, half);
      below.node = place.node;
      below.level = place.level;
      descend(walker, below, half, part);
    }
  }

  /// The children of a node, all tested at once.
  void visit_together(Walker& walker, const TreePlace& place, Range children) {
    BoxesFound found;
    kernels_.prune_boxes(place.list, tree_.boxes(children.begin), tree_.box_stride(), margins_,
                         found);
    const std::int64_t end = std::min(children.end, tree_.first_empty(children.begin));
    const auto count = static_cast<int>(end - children.begin);
    const std::uint32_t all = (1U << count) - 1;
    std::uint32_t owned =
        labels_.elsewhere(children.begin, found.index.data(), count) & found.owned;
    for (; owned != 0; owned &= owned - 1) {
      const int child = std::countr_zero(owned);
      give(walker, children.begin + child, place.level + 1, found.index[child]);
    }
    const std::uint32_t mixed = ~found.owned & all;
    if (tree_.is_leaf(children.begin)) fetch_leaves(children.begin - tree_.leaves(), mixed);
    for (std::uint32_t left = mixed; left != 0; left &= left - 1) {
      const int child = std::countr_zero(left);
      const Candidates list =
          kernels_.chosen(place.list, found.places(place.list.count, child), place.memory);
      visit(walker, {children.begin + child, place.level + 1, list, behind(place.memory, list)});
    }
  }

  /// Leaves that lie anywhere in memory are on their way while the first are labelled.
  void fetch_leaves(std::int64_t first, std::uint32_t which) const {
    constexpr std::int64_t kLine = 16;  // floats
    for (; which != 0; which &= which - 1) {
      const std::int64_t leaf = first + std::countr_zero(which);
      const float* tile = tree_.tile(leaf);
      for (std::int64_t at = 0; at < problem_.shape.d * kLeafPoints; at += kLine) {
        __builtin_prefetch(tile + at, 0, 3);
      }
      labels_.fetch(leaf);
    }
  }

  [[nodiscard]] Range children_of(std::int64_t node, int level) const {
    return tree_.is_leaf(node) ? Range{} : tree_.children(node, level);
  }

  void give(Walker& walker, std::int64_t node, int level, std::int32_t cluster) {
    const std::int64_t changed = labels_.give(walker.thread, tree_, node, level, cluster);
    walker.changed += changed;
    if (changed != 0) forget_reach(node);
  }

  void forget_reach(std::int64_t node) {
    const Range leaves = tree_.leaves_of(node);
    std::fill_n(reach_.data() + tree_.leaves() + leaves.begin, leaves.end - leaves.begin, kUnknown);
  }

  /// Labels the points of a leaf.
  void label_leaf(Walker& walker, const TreePlace& place) {
    const std::int64_t leaf = place.node - tree_.leaves();
    const Candidates& list = place.list;
    std::int32_t labels[kLeafPoints];
    float farthest = 0;
    std::uint32_t open = kernels_.label_leaf(tree_.tile(leaf), list, margins_, labels, &farthest);
    if (keeps_reach_) {
      reach_[place.node] = std::sqrt(farthest * margins_.decisive + margins_.underflow) * kUp;
    }
    const std::int64_t count = tree_.count(place.node);
    const std::uint64_t real = (std::uint64_t{1} << count) - 1;  // behind them is padding
    walker.distances += (count + std::popcount(open & real)) * list.count;
    const std::int64_t d = problem_.shape.d;
    for (; open != 0; open &= open - 1) {
      const int p = std::countr_zero(open);
      labels[p] = decide(problem_.points + tree_.order(leaf)[p] * d, list.count,
                         [&](std::int64_t at) { return list.index(d, at); });
    }
    walker.changed += labels_.relabel(walker.thread, tree_, leaf, labels);
  }

  /// The exact step's label among the candidates, whose indices ascend.
  template <class Index>
  std::int32_t decide(const float* point, std::int64_t count, const Index& index) const {
    const std::int64_t d = problem_.shape.d;
    std::int32_t nearest = 0;
    double lowest = std::numeric_limits<double>::infinity();
    for (std::int64_t place = 0; place < count; ++place) {
      const std::int32_t j = index(place);
      const double distance = exact::squared_distance(point, means_.data() + j * d, d);
      if (distance < lowest) {
        lowest = distance;
        nearest = j;
      }
    }
    return nearest;
  }

  /// For centroids that float32 cannot compare with the points: all are looked at.
  void visit_all(Walker& walker, std::int64_t node, int level) {
    if (tree_.count(node) == 0) return;
    const Range children = children_of(node, level);
    labels_.share(node, children);
    for (std::int64_t child = children.begin; child < children.end; ++child) {
      visit_all(walker, child, level + 1);
    }
    if (!tree_.is_leaf(node)) return;
    walker.distances += tree_.count(node) * problem_.shape.k;
    reach_[node] = kUnknown;
    std::int32_t labels[kLeafPoints];
    for (int p = 0; p < kLeafPoints; ++p) {
      const std::int32_t point = tree_.order(node - tree_.leaves())[p];
      labels[p] = decide(problem_.points + point * problem_.shape.d, problem_.shape.k,
                         [](std::int64_t j) { return static_cast<std::int32_t>(j); });
    }
    walker.changed += labels_.relabel(walker.thread, tree_, node - tree_.leaves(), labels);
  }

  /// The new means of a range of clusters, and how far they moved.
  void update(Walker& walker, Range clusters) {
    const std::int64_t d = problem_.shape.d;
    if (keeps_reach_) {
      walker.before.assign(means_.begin() + clusters.begin * d, means_.begin() + clusters.end * d);
    }
    labels_.update(means_.data(), clusters);
    if (!keeps_reach_) return;
    for (std::int64_t j = clusters.begin; j < clusters.end; ++j) {
      const float* before = walker.before.data() + (j - clusters.begin) * d;
      const double moved = exact::squared_distance(before, means_.data() + j * d, d);
      drift_[j] = static_cast<float>(std::sqrt(moved) * tree_.scale()) * kUp;
    }
  }

  /// No point of a leaf is further from the centroid that it had than before and that one moved.
  void extend_reach(Range leaves) {
    for (std::int64_t leaf = leaves.begin; leaf < leaves.end; ++leaf) {
      float& reach = reach_[tree_.leaves() + leaf];
      if (reach == kUnknown) continue;
      const std::int32_t* labels = labels_.of(leaf);
      const std::int64_t count = tree_.count(tree_.leaves() + leaf);
      float most = 0;
      for (std::int64_t p = 0; p < count; ++p) most = std::max(most, drift_[labels[p]]);
      reach = (reach + most) * kUp;
    }
  }

  void join_reach() {
    for (std::int64_t node = tree_.leaves() - 1; node > 0; --node) {
      reach_[node] = std::max(reach_[2 * node], reach_[2 * node + 1]);
    }
  }

  /// Brings new means into the root's list. One that is far from all points, where another is near,
  /// goes where every test leaves it out.
  void pack(int thread, int threads, Range clusters) {
    constexpr float kNear = 0x1p20F;
    const auto [n, d, k, precision] = problem_.shape;
    const std::int64_t stride = Candidates::stride_for(k);
    CentroidRange seen;
    for (std::int64_t j = clusters.begin; j < clusters.end; ++j) {
      float farthest = 0;
      for (std::int64_t t = 0; t < d; ++t) {
        const float value = scaled_coordinate(means_[j * d + t], tree_.scale());
        roots_[t * stride + j] = value;
        farthest = std::max(farthest, std::abs(value));
      }
      roots_[d * stride + j] = std::bit_cast<float>(static_cast<std::int32_t>(j));
      seen.any_near |= farthest <= kNear;
      if (farthest <= Candidates::kFarAway) continue;
      for (std::int64_t t = 0; t < d; ++t) roots_[t * stride + j] = Candidates::kFarAway;
    }
    seen_.put(thread, threads, seen);
  }

  BoxTree tree_;
  TreeKernels kernels_;
  Margins margins_;
  SeenCentroids seen_;          // only whether any is near
  std::int64_t iteration_ = 1;  // the same for all threads, whichever were there before
  int part_level_ = 0;          // the level of the subtrees that threads take
  std::unique_ptr<std::atomic<std::int64_t>[]> taken_;  // a part's last iteration
  TreeLabels labels_;
  KeptVector<std::int32_t> ordered_labels_;  // the caller's order; only where they are handed over
  AlignedArray<float> reach_;  // no point of a node is further from the nearest centroid
  bool keeps_reach_ = false;   // only where lists are long
  std::vector<float> drift_;   // k
  AlignedArray<float> roots_;  // the list of all centroids
};

}  // namespace kmeans::openmp
