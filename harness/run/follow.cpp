// SPDX-License-Identifier: Apache-2.0
#include "harness/run/follow.h"

#include <charconv>
#include <cmath>

#include "harness/support/errors.h"

namespace kmeans {
namespace {

double parse_threshold(const std::string& text, const std::string& rule) {
  double value = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !(value >= 0) || !std::isfinite(value)) {
    throw InputError("--stop " + rule + ":E needs a number E >= 0, not '" + text + "'");
  }
  return value;
}

}  // namespace

StopRule parse_stop(const std::string& text) {
  if (text.empty()) return {};
  if (text == "labels") return {StopRule::Kind::labels, 0};
  if (text.rfind("movement:", 0) == 0) {
    return {StopRule::Kind::movement, parse_threshold(text.substr(9), "movement")};
  }
  if (text.rfind("loss:", 0) == 0) {
    return {StopRule::Kind::loss, parse_threshold(text.substr(5), "loss")};
  }
  throw InputError("--stop '" + text + "': must be labels, movement:E or loss:E");
}

// By the variant's own sums where it keeps them: a program stops by what it computes, and a loss
// that is added in floats settles elsewhere than a right one (docs/errata.md).
bool stops(const StopRule& rule, const IterationRecord& now, const IterationRecord* before) {
  const auto loss = [](const IterationRecord& record) {
    return record.own.loss.value_or(record.loss);
  };
  switch (rule.kind) {
    case StopRule::Kind::never: return false;
    case StopRule::Kind::labels: return now.own.changed.value_or(now.changed) == 0;
    case StopRule::Kind::movement: return now.own.movement.value_or(now.movement) <= rule.threshold;
    case StopRule::Kind::tolerance:
      return now.own.changed.value_or(now.changed) == 0 || now.shift <= rule.threshold;
    case StopRule::Kind::loss:
      return before != nullptr && std::abs(loss(now) - loss(*before)) < rule.threshold;
  }
  return false;
}

nlohmann::json to_json(const IterationRecord& record) {
  nlohmann::json json{{"iteration", record.iteration}, {"inertia", record.inertia},
                      {"loss", record.loss},           {"movement", record.movement},
                      {"changed", record.changed},     {"empty_clusters", record.empty_clusters}};
  if (record.own.loss) json["own_loss"] = *record.own.loss;
  if (record.own.movement) json["own_movement"] = *record.own.movement;
  if (record.own.changed) json["own_changed"] = *record.own.changed;
  return json;
}

}  // namespace kmeans
