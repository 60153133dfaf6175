// SPDX-License-Identifier: Apache-2.0
#include "harness/variants/python_variant.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "harness/machine/gpu.h"
#include "harness/support/python_process.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

constexpr std::size_t kLabelsAlignment = 64;  // as in worker.py
constexpr std::size_t kLongestAnswer = std::size_t{1}
                                       << 20;  // an answer is a line of JSON, never data

/// A served Python process: one question, one answer.
class PythonConnection {
 public:
  PythonConnection(const PythonLocation& location, const std::string& name, int exchange,
                   int points)
      : name_(name) {
    auto [ours, theirs] = make_socket_pair();
    std::vector<std::string> arguments{location.interpreter,
                                       "-u",
                                       location.worker,
                                       "--folder",
                                       location.folder,
                                       "--serve",
                                       name,
                                       "--control",
                                       std::to_string(theirs.get()),
                                       "--exchange",
                                       std::to_string(exchange)};
    if (!location.plugin.empty()) {
      arguments.insert(arguments.end(), {"--plugin", location.plugin});
    }
    std::vector<int> inherited{theirs.get(), exchange};
    if (points >= 0) {
      arguments.insert(arguments.end(), {"--points", std::to_string(points)});
      inherited.push_back(points);
    }
    process_ = std::make_unique<ChildProcess>(arguments, inherited);
    socket_ = std::move(ours);
  }

  /// Sends {"command": command, ...} and returns the answer. Throws std::runtime_error.
  json call(const std::string& command, json request = json::object()) {
    if (process_ == nullptr) throw std::runtime_error(name_ + ": its Python process has ended");
    request["command"] = command;
    if (!send_line(request.dump()) || !receive_line()) {
      const std::string end = process_->wait_for_end();
      process_.reset();
      throw std::runtime_error(name_ + ": the Python process ended with " + end + " in " + command);
    }
    const json answer = json::parse(line_, nullptr, false);
    if (!answer.is_object() || !answer.contains("ok") || !answer["ok"].is_boolean()) {
      throw std::runtime_error(name_ + ": no valid answer to " + command + ": '" +
                               valid_utf8(line_.substr(0, 80)) + "'");
    }
    if (!answer["ok"].get<bool>()) {
      throw std::runtime_error(name_ + ": " + answer.value("type", "error") + " in " + command +
                               ": " + answer.value("message", "") + " (" +
                               answer.value("where", "") + ")");
    }
    return answer;
  }

 private:
  bool send_line(std::string text) {
    text += '\n';
    std::size_t sent = 0;
    while (sent < text.size()) {
      const auto count = send(socket_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      sent += static_cast<std::size_t>(count);
    }
    return true;
  }

  bool receive_line() {
    line_.clear();
    std::array<char, 4096> buffer{};
    while (line_.empty() || line_.back() != '\n') {
      const auto count = recv(socket_.get(), buffer.data(), buffer.size(), 0);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      line_.append(buffer.data(), static_cast<std::size_t>(count));
      if (line_.size() > kLongestAnswer) {
        throw std::runtime_error(name_ + ": an answer is longer than a megabyte");
      }
    }
    return true;
  }

  std::string name_;
  FileDescriptor socket_;
  std::unique_ptr<ChildProcess> process_;
  std::string line_;
};

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
    connection_ = std::make_unique<PythonConnection>(location_, name_, exchange_->descriptor(),
                                                     points ? points->descriptor() : -1);
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
