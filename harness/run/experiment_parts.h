// SPDX-License-Identifier: Apache-2.0
//
// How the parts of an experiment file are read; parse_experiment puts them together.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/run/experiment.h"
#include "harness/support/json_reader.h"

namespace kmeans::experiment_parts {

inline constexpr std::int64_t kMaxSize = 1'000'000'000'000;
inline constexpr std::int64_t kMaxIterations = 1'000'000;

const std::vector<std::string>& scale_names();

/// A name that may become part of a file's.
std::string read_name(const JsonReader& value);
/// The description of a data set, without n and d.
nlohmann::json read_data(const JsonReader& value);
/// How the first centroids are chosen.
std::string read_init(const JsonReader& value);

/// The keys variant, precision, threads and at_most_nkd of an object.
VariantChoice read_choice(const JsonReader& object, bool star_allowed);
/// A variant by its name, or by an object of those keys.
VariantChoice read_variant(const JsonReader& value, bool star_allowed);
std::vector<VariantChoice> read_variants(const JsonReader& list);

/// The keys n, d and k of an object; n and d are not read where a file gives them.
SweepShape read_shape(const JsonReader& object, bool from_file);
/// `variants`: of scales that name none.
std::map<std::string, Scale> read_scales(const JsonReader& object,
                                         const std::vector<VariantChoice>& variants,
                                         bool from_file);

/// What traces, studies and fits do not say themselves, they have from the experiment.
std::vector<TraceSpec> read_traces(const JsonReader& list, const Experiment& experiment);
std::vector<StudySpec> read_studies(const JsonReader& list, const Experiment& experiment);
/// One for each k of an entry.
std::vector<FitSpec> read_fits(const JsonReader& list, const Experiment& experiment);

}  // namespace kmeans::experiment_parts
