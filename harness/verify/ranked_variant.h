// SPDX-License-Identifier: Apache-2.0
//
// A variant at work on several ranks (docs/scaling.md). Rank 0 runs the program; its session holds a
// RankedVariant, which to the harness is a variant like any other. The other ranks do what it orders:
// each sets up the variant on its own rows, and all of them step together.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/communicator.h"
#include "harness/support/seed_distances.h"
#include "harness/variant.h"
#include "harness/variants/registry.h"
#include "harness/verify/verify.h"

namespace kmeans {

/// What one rank's variant can say after a step, added up over the ranks.
struct RankFacts {
  std::optional<std::int64_t> changed;
  std::optional<std::int64_t> distances;
};

/// What every rank took for the last step, rank 0 first.
struct RankTimes {
  std::vector<double> seconds;
  std::vector<double>
      communication;  ///< Of these in calls to the others, waiting for them included.
};

/// A rank's part: its rows, and the variant on them.
template <class T>
class RankPart;

template <class T>
class RankedVariant final : public Variant<T> {
 public:
  /// The variant must have the trait `shards`. Rank 0 alone makes one.
  RankedVariant(const RegisteredVariant& registered, Communicator& ranks);
  ~RankedVariant() override;
  RankedVariant(const RankedVariant&) = delete;
  RankedVariant& operator=(const RankedVariant&) = delete;

  /// `problem` is the whole. Where there is a points_file, the other ranks read their rows from it, and
  /// no two ranks may find other points there: throws InputError. Else rank 0 sends them, as it does weights, with
  /// what they were made of. What a rank's variant throws is thrown here, with the rank.
  void setup(const Problem<T>& problem) override;
  void reset(const T* centroids) override;
  void step(std::int64_t iterations) override;
  /// Throws std::runtime_error if ranks have other centroids than rank 0.
  void fetch(T* centroids, std::int32_t* labels) override;
  Progress progress() override { return {{}, facts().changed, {}}; }
  [[nodiscard]] std::optional<std::int64_t> computed_distances() const override {
    return facts().distances;
  }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> library_info() const override;

  RankTimes times();

  /// quality_of() the labels that fetch() gave, by every rank for its own rows; the same bits as of the
  /// whole. `centroids` (k x d): those that the labels belong to.
  Quality quality(const T* centroids);

 private:
  [[nodiscard]] RankFacts facts() const;

  const RegisteredVariant& registered_;
  Communicator& ranks_;
  std::int32_t number_;  // by which the orders name it
  bool begun_ = false;   // the other ranks know of it
  std::unique_ptr<RankPart<T>> own_;
};

extern template class RankedVariant<float>;
extern template class RankedVariant<double>;

/// Rank 0: all ranks look through their rows of a npy file. Gives the largest |coordinate|. Throws
/// InputError where one is not finite, or where a rank cannot read the file.
template <class T>
T survey_rows(Communicator& ranks, const std::string& file, int threads);

/// Rank 0: k x d initial centroids by a method that ranks_choose() (harness/verify/ranked_seeding.h), of all
/// ranks on their rows of a npy file that survey_rows() has looked through; the weights, if any, are sent. A rank
/// that cannot read the file, or has too little memory, ends all.
template <class T>
std::vector<T> seed_by_ranks(Communicator& ranks, const std::string& file, std::int64_t k,
                             const std::string& init, const SeedingProblem<T>& points);

/// All ranks: were they started with the same words? Throws InputError, on every rank.
void expect_same_start(Communicator& ranks, const std::string& words);

/// Ranks other than 0: does what rank 0 orders, until dismiss_ranks(). Returns the exit
/// code that was given there. An error in the middle of a step ends all ranks.
int serve_rank_0(Communicator& ranks);

/// Rank 0: the others end with this exit code.
void dismiss_ranks(Communicator& ranks, int exit_code);

}  // namespace kmeans
