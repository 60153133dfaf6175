// SPDX-License-Identifier: Apache-2.0
#include "harness/record/cell_key.h"

namespace kmeans {

std::string CellKey::work() const {
  return variant + "/" + to_string(shape.precision) + "/" + dataset + "/k" +
         std::to_string(shape.k) + "/T" + std::to_string(iterations);
}

std::string CellKey::text() const {
  return work() + "/t" + std::to_string(threads) + (ranks > 1 ? "/r" + std::to_string(ranks) : "") +
         (gpus > 1 ? "/g" + std::to_string(gpus) : "");
}

std::string CellKey::points() const {
  return points_name(dataset, shape.precision == Precision::f64);
}

nlohmann::json to_json(const CellKey& key) {
  nlohmann::json json{{"key", key.text()},
                      {"variant", key.variant},
                      {"precision", to_string(key.shape.precision)},
                      {"dataset", key.dataset},
                      {"n", key.shape.n},
                      {"d", key.shape.d},
                      {"k", key.shape.k},
                      {"iterations", key.iterations},
                      {"threads", key.threads}};
  if (key.ranks > 1) json["ranks"] = key.ranks;
  if (key.gpus > 1) json["gpus"] = key.gpus;
  return json;
}

std::string points_name(const std::string& dataset, bool float64) {
  return float64 ? dataset + "/f64" : dataset;
}

}  // namespace kmeans
