// SPDX-License-Identifier: Apache-2.0
#include "harness/record/kinds.h"

#include "harness/support/json_member.h"

namespace kmeans {

using nlohmann::json;

AnswerKind answer_kind(bool exact, Precision precision) {
  if (exact) return AnswerKind::exact;
  return precision == Precision::f32 || precision == Precision::f64 ? AnswerKind::certified
                                                                    : AnswerKind::approximate;
}

const char* name_of(AnswerKind kind) {
  switch (kind) {
    case AnswerKind::exact: return "exact";
    case AnswerKind::certified: return "certified";
    case AnswerKind::approximate: break;
  }
  return "approximate";
}

std::string kind_of_data(const json& context, const std::string& label) {
  const json& datasets = member(context, "datasets");
  const json* dataset = &member(datasets, label);
  if (!dataset->is_object()) dataset = &member(datasets, label + "/f64");
  return kind_of_data(member(*dataset, "spec"));
}

std::string kind_of_data(const json& spec) {
  if (!spec.is_object()) return "";
  const std::string generator = text_in(spec, "generator");
  const json& low = member(spec, "low");
  return (generator.empty() ? "file" : generator) + (low.is_null() ? "" : " from " + low.dump());
}

}  // namespace kmeans
