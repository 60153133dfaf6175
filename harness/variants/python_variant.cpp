// SPDX-License-Identifier: Apache-2.0
#include "harness/variants/python_variant.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "harness/machine/gpu.h"
#include "harness/support/python_process.h"
#include "harness/support/text.h"
#include "harness/variants/python_connection.h"

namespace kmeans {
namespace {

using nlohmann::json;

constexpr std::size_t kLabelsAlignment = 64;  // as in worker.py

/// The process that serves a variant; centroids and labels travel through `exchange`, points through
/// `points` where that is a descriptor.
std::unique_ptr<PythonConnection> connect(const PythonLocation& location, const std::string& name,
                                          int exchange, int points) {
  std::vector<std::string> arguments{location.interpreter,
                                     "-u",
                                     location.worker,
                                     "--folder",
                                     location.folder,
                                     "--serve",
                                     name,
                                     "--exchange",
                                     std::to_string(exchange)};
  if (!location.plugin.empty()) {
    arguments.insert(arguments.end(), {"--plugin", location.plugin});
  }
  std::vector<int> inherited{exchange};
  if (points >= 0) {
    arguments.insert(arguments.end(), {"--points", std::to_string(points)});
    inherited.push_back(points);
  }
  return std::make_unique<PythonConnection>(name, std::move(arguments), std::move(inherited));
}

template <class T>
class PythonVariant final : public Variant<T> {
 public:
  PythonVariant(PythonLocation location, std::string name, Precision precision)
      : location_(std::move(location)), name_(std::move(name)), precision_(precision) {}

  void setup(const Problem<T>& problem) override {
    shape_ = problem.shape;
    const std::size_t centroid_bytes = count(shape_.k * shape_.d) * sizeof(T);
    labels_offset_ = (centroid_bytes + kLabelsAlignment - 1) / kLabelsAlignment * kLabelsAlignment;
    connection_.reset();
    exchange_ =
        std::make_unique<SharedMemory>(labels_offset_ + count(shape_.n) * sizeof(std::int32_t));
    std::unique_ptr<SharedMemory> points;  // needed until Python has its copy
    if (problem.points_file.empty()) {
      points = std::make_unique<SharedMemory>(count(shape_.n * shape_.d) * sizeof(T));
      std::memcpy(points->data(), problem.points, points->size());
    }
    connection_ =
        connect(location_, name_, exchange_->descriptor(), points ? points->descriptor() : -1);
    json request{{"n", shape_.n},
                 {"d", shape_.d},
                 {"k", shape_.k},
                 {"threads", problem.threads},
                 {"gpus", gpus_in_use()},  // the first that the process sees, as it sees them
                 {"precision", to_string(precision_)}};
    request["points_file"] = points ? json(nullptr) : json(valid_utf8(problem.points_file));
    connection_->call("setup", std::move(request));
  }

  void reset(const T* centroids) override {
    std::memcpy(exchange_->data(), centroids, count(shape_.k * shape_.d) * sizeof(T));
    connection_->call("reset");
  }

  void step(std::int64_t iterations) override {
    seconds_.reset();
    device_seconds_.reset();
    executed_.reset();
    const json answer = connection_->call("step", {{"iterations", iterations}});
    if (!answer.contains("seconds") || !answer["seconds"].is_number()) {
      throw std::runtime_error(name_ + ": the answer to step lacks its seconds");
    }
    seconds_ = answer["seconds"].get<double>();
    const auto device_seconds = answer.find("device_seconds");
    if (device_seconds != answer.end() && device_seconds->is_number()) {
      device_seconds_ = device_seconds->get<double>();
    }
    const auto executed = answer.find("executed");
    if (executed != answer.end() && executed->is_number_integer()) {
      executed_ = executed->get<std::int64_t>();
    }
  }

  void fetch(T* centroids, std::int32_t* labels) override {
    connection_->call("fetch");
    std::memcpy(centroids, exchange_->data(), count(shape_.k * shape_.d) * sizeof(T));
    std::memcpy(labels, exchange_->data() + labels_offset_, count(shape_.n) * sizeof(std::int32_t));
  }

  std::optional<double> remote_step_seconds() const override { return seconds_; }

  std::optional<double> remote_device_seconds() const override { return device_seconds_; }

  std::optional<std::int64_t> executed_iterations() const override { return executed_; }

  std::vector<std::pair<std::string, std::string>> library_info() const override {
    std::vector<std::pair<std::string, std::string>> info;
    if (connection_ == nullptr) return info;
    const json answer = connection_->call("library");
    const auto library = answer.find("library");
    if (library == answer.end() || !library->is_object()) return info;
    for (const auto& item : library->items()) {
      if (item.value().is_string()) info.emplace_back(item.key(), item.value());
    }
    return info;
  }

 private:
  static std::size_t count(std::int64_t value) { return static_cast<std::size_t>(value); }

  PythonLocation location_;
  std::string name_;
  Precision precision_;
  Shape shape_;
  std::size_t labels_offset_ = 0;
  std::unique_ptr<SharedMemory> exchange_;
  std::unique_ptr<PythonConnection> connection_;
  std::optional<double> seconds_;
  std::optional<double> device_seconds_;
  std::optional<std::int64_t> executed_;
};

}  // namespace

template <class T>
std::unique_ptr<Variant<T>> make_python_variant(const PythonLocation& location,
                                                const std::string& name, Precision precision) {
  return std::make_unique<PythonVariant<T>>(location, name, precision);
}

template std::unique_ptr<Variant<float>> make_python_variant(const PythonLocation&,
                                                             const std::string&, Precision);
template std::unique_ptr<Variant<double>> make_python_variant(const PythonLocation&,
                                                              const std::string&, Precision);

}  // namespace kmeans
