// SPDX-License-Identifier: Apache-2.0
//
// Which results may stand in one ranking: by what their answers are worth, and by their data.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/variant.h"

namespace kmeans {

/// What an answer is worth: never ranked with one of another kind.
enum class AnswerKind {
  exact,        ///< The exact Lloyd step, bit for bit.
  certified,    ///< Differs by no more than rounding in float32 or float64 explains.
  approximate,  ///< The same in a shorter precision, whose rounding decides labels.
};
AnswerKind answer_kind(bool exact, Precision precision);
/// "exact", "certified", "approximate".
const char* name_of(AnswerKind kind);

/// Of the data set `label` by the `context` of a result file: its generator, with what makes its data another
/// kind; "file" for data of a file; empty where the context does not say.
std::string kind_of_data(const nlohmann::json& context, const std::string& label);
/// The same of a data set by its description.
std::string kind_of_data(const nlohmann::json& spec);

}  // namespace kmeans
