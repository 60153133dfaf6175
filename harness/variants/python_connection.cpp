// SPDX-License-Identifier: Apache-2.0
#include "harness/variants/python_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestAnswer = std::size_t{1}
                                       << 20;  // an answer is a line of JSON, never data

}  // namespace

PythonConnection::PythonConnection(std::string name, std::vector<std::string> arguments,
                                   std::vector<int> inherited)
    : name_(std::move(name)) {
  auto [ours, theirs] = make_socket_pair();
  arguments.insert(arguments.end(), {"--control", std::to_string(theirs.get())});
  inherited.push_back(theirs.get());
  process_ = std::make_unique<ChildProcess>(arguments, inherited);
  socket_ = std::move(ours);
}

json PythonConnection::call(const std::string& command, json request, double timeout_seconds) {
  if (process_ == nullptr) throw std::runtime_error(name_ + ": its Python process has ended");
  request["command"] = command;
  if (!send_line(request.dump()) || !receive_line(timeout_seconds)) {
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
                             ": " + answer.value("message", "") + " (" + answer.value("where", "") +
                             ")");
  }
  return answer;
}

bool PythonConnection::send_line(std::string text) {
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

bool PythonConnection::receive_line(double timeout_seconds) {
  const auto begin = std::chrono::steady_clock::now();
  line_.clear();
  std::array<char, 4096> buffer{};
  while (line_.empty() || line_.back() != '\n') {
    if (timeout_seconds > 0) {
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      const double left = std::clamp(timeout_seconds - waited.count(), 0.0, 1e6);
      pollfd waiting{socket_.get(), POLLIN, 0};
      const int ready = poll(&waiting, 1, static_cast<int>(1e3 * left));
      if (ready < 0 && errno == EINTR) continue;
      if (ready == 0) {
        process_.reset();
        throw NoAnswerInTime(name_ + ": no answer within " + format_seconds(timeout_seconds));
      }
    }
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

}  // namespace kmeans
