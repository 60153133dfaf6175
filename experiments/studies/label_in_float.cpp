// SPDX-License-Identifier: Apache-2.0
//
// Question:  up to how many clusters does a label survive in a float component of its point?
// Method:    every label from 0 to the most is written as a float and read back: by its value, and
//            by its bits. The paper speaks of a component of the vector and does not say which
// Source:    zechner2009, section V-C; section III for a component of 8 bits (Cao et al.)
#include <bit>

#include "experiments/studies/_common.h"

namespace kmeans::studies::label_in_float {
namespace {

StudyOutput run(const StudyInput& input) {
  Parameters parameters(input);
  const auto most = parameters.integer("most_clusters", 1 << 26, 1, std::int64_t{1} << 31);
  parameters.finish();

  StudyOutput output;
  nlohmann::json first;
  std::int64_t exact = 0;
  std::int64_t exact_bits = 0;
  std::int64_t next_row = 1;
  for (std::int64_t label = 0; label < most; ++label) {
    // Not optimised away: the value goes through memory, as a component of a point does.
    volatile float component = static_cast<float>(label);
    const bool same = static_cast<std::int64_t>(component) == label;
    exact += same ? 1 : 0;
    volatile float bits = std::bit_cast<float>(static_cast<std::uint32_t>(label));
    exact_bits += std::bit_cast<std::uint32_t>(static_cast<float>(bits)) == label ? 1 : 0;
    if (!same && first.is_null()) first = label;
    if (label + 1 == next_row || label + 1 == most) {
      output.rows.push_back(
          {{"k", label + 1},
           {"labels_kept", exact},
           {"share_kept", static_cast<double>(exact) / static_cast<double>(label + 1)},
           {"share_kept_as_bits",
            static_cast<double>(exact_bits) / static_cast<double>(label + 1)}});
      next_row *= 2;
    }
  }
  output.findings = {{"first_label_not_exact", first}, {"labels_in_8_bits", 256}};
  const std::int64_t expected = (std::int64_t{1} << 24) + 1;
  if (most > expected ? first != expected : !first.is_null()) {
    output.wrong = "the first label that a float cannot hold is not 2^24 + 1";
  }
  if (exact_bits != most) output.wrong = "a label's bits do not survive in a float";
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "label_in_float",
             .summary = "labels that survive in a float component of their point",
             .source = "zechner2009", .run = run);

}  // namespace kmeans::studies::label_in_float
