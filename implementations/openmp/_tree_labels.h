// SPDX-License-Identifier: Apache-2.0
//
// The labels of points in the order of a BoxTree, and the clusters' sums that follow from them. A node all
// of whose points are in one cluster has an owner; when it goes to another cluster, its sums go with it as
// a whole. Labels are written at once wherever they change, so after an iteration they are complete; only
// into the caller's order they are brought when he asks.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "harness/variant.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_box_tree.h"
#include "implementations/openmp/_family.h"
#include "implementations/openmp/_fixed_point_sums.h"
#include "implementations/openmp/_range.h"
#include "implementations/openmp/_simd.h"

namespace kmeans::openmp {

class TreeLabels {
 public:
  TreeLabels() = default;
  TreeLabels(const Problem<float>& problem, const BoxTree& tree, int threads)
      : d_(problem.shape.d),
        owners_(2 * tree.leaves()),
        labels_(tree.full_leaves() * kLeafPoints),
        sums_(problem, threads) {}

  /// No point is in any cluster.
  void clear(const BoxTree& tree) {
    std::fill_n(labels_.data(), tree.full_leaves() * kLeafPoints, kNobody);
    std::fill(owners_.begin(), owners_.end(), kNobody);
    sums_.begin_empty();
  }

  /// Bit i is set where the node `first` + i, of which all points are in cluster clusters[i], is not
  /// known to be so.
  [[nodiscard]] std::uint32_t elsewhere(std::int64_t first, const std::int32_t* clusters,
                                        int count) const {
    return different_labels(clusters, owners_.data() + first, count);
  }

  /// A node that several clusters may own leaves to its children, none for a leaf, whose they were.
  void share(std::int64_t node, Range children) {
    if (owners_[node] == kMixed) return;
    std::fill(owners_.begin() + children.begin, owners_.begin() + children.end, owners_[node]);
    owners_[node] = kMixed;
  }

  /// Called by `thread`: all points of a node, which has some, go to one cluster. Returns how many were not
  /// there.
  std::int64_t give(int thread, const BoxTree& tree, std::int64_t node, int level,
                    std::int32_t cluster) {
    const std::int32_t owner = owners_[node];
    if (owner == cluster) return 0;
    owners_[node] = cluster;
    if (owner != kMixed) {
      const Range leaves = tree.leaves_of(node);
      std::fill(labels_.data() + leaves.begin * kLeafPoints,
                labels_.data() + leaves.end * kLeafPoints, cluster);
      const std::int64_t count = tree.count(node);
      sums_.move_all(thread, tree.sums(node), count, owner, cluster);
      return count;
    }
    if (tree.is_leaf(node)) {
      std::int32_t labels[kLeafPoints];
      std::fill_n(labels, kLeafPoints, cluster);
      return relabel(thread, tree, node - tree.leaves(), labels);
    }
    std::int64_t changed = 0;
    const Range children = tree.children(node, level);
    for (std::int64_t child = children.begin; child < children.end; ++child) {
      if (tree.count(child) == 0) break;
      changed += give(thread, tree, child, level + 1, cluster);
    }
    return changed;
  }

  /// Called by `thread`: new labels for the points of a leaf. Returns how many changed.
  std::int64_t relabel(int thread, const BoxTree& tree, std::int64_t leaf,
                       const std::int32_t* labels) {
    std::int32_t* old_labels = labels_.data() + leaf * kLeafPoints;
    const auto count = static_cast<int>(tree.count(tree.leaves() + leaf));
    std::int64_t total = 0;
    for (int begin = 0; begin < count; begin += 16) {
      std::uint32_t changed =
          different_labels(labels + begin, old_labels + begin, std::min(16, count - begin));
      total += std::popcount(changed);
      for (; changed != 0; changed &= changed - 1) {
        const int p = begin + std::countr_zero(changed);
        float row[kTreeMaxDimension];
        tree.row(leaf, p, row);
        sums_.move(thread, row, old_labels[p], labels[p]);
        old_labels[p] = labels[p];
      }
    }
    return total;
  }

  [[nodiscard]] const std::int32_t* of(std::int64_t leaf) const {
    return labels_.data() + leaf * kLeafPoints;
  }

  /// Asks for a leaf's labels, which are needed soon.
  void fetch(std::int64_t leaf) const {
    __builtin_prefetch(labels_.data() + leaf * kLeafPoints, 1, 3);
    __builtin_prefetch(labels_.data() + leaf * kLeafPoints + kLeafPoints / 2, 1, 3);
  }

  /// The new means of a range of clusters.
  void update(float* means, Range clusters) { sums_.update(means, clusters); }

  /// All labels in the caller's order.
  void write(const BoxTree& tree, std::int32_t* labels) const {
    for (std::int64_t leaf = 0; leaf < tree.full_leaves(); ++leaf) {
      const std::int64_t count = tree.count(tree.leaves() + leaf);
      for (std::int64_t p = 0; p < count; ++p) {
        labels[tree.order(leaf)[p]] = labels_[leaf * kLeafPoints + p];
      }
    }
  }

  /// After clear(): labels in the caller's order, and the sums that follow from them (FixedPointSums::take_over()).
  void take_over(const BoxTree& tree, const Standing& other) {
    std::fill(owners_.begin(), owners_.end(), kMixed);
    for (std::int64_t leaf = 0; leaf < tree.full_leaves(); ++leaf) {
      const std::int64_t count = tree.count(tree.leaves() + leaf);
      for (std::int64_t p = 0; p < count; ++p) {
        labels_[leaf * kLeafPoints + p] = other.labels[tree.order(leaf)[p]];
      }
    }
    sums_.take_over(other.sums);
  }
  [[nodiscard]] std::span<const std::int64_t> totals() const { return sums_.totals(); }

  static double bytes(const Sizes& s, int threads) {
    return 4 * (s.n + kLeafPoints) + 4 * (s.n / 8 + 2) +
           (threads + 1) * s.k * (8 * (round_up(kTreeMaxDimension, 8) + 1) + 1);
  }

 private:
  static constexpr std::int32_t kNobody = -1;  // owns a node before the first iteration
  static constexpr std::int32_t kMixed = -2;   // the points of a node have labels of their own

  std::int64_t d_ = 0;
  KeptVector<std::int32_t> owners_;    // a node's; it counts where all nodes above are mixed
  AlignedArray<std::int32_t> labels_;  // in the order of the tree
  FixedPointSums<float> sums_;
};

}  // namespace kmeans::openmp
