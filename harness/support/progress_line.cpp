// SPDX-License-Identifier: Apache-2.0
#include "harness/support/progress_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>

#include "harness/support/text.h"

namespace kmeans {
namespace {

std::size_t terminal_width(std::FILE* stream) {
  winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 20) return size.ws_col;
  return 80;
}

}  // namespace

ProgressLine::ProgressLine(std::FILE* stream)
    : stream_(stream), terminal_(::isatty(::fileno(stream)) != 0) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::clear() {
  if (!line_open_) return;
  std::fputs("\r\033[K", stream_);
  std::fflush(stream_);
  line_open_ = false;
}

void ProgressLine::update(std::size_t done, std::size_t total, const std::string& what,
                          double seconds_left) {
  std::string line =
      "[" + std::to_string(done) + "/" + std::to_string(total) + "] " + printable(what);
  if (seconds_left >= 0 && done < total) line += ", " + format_duration(seconds_left) + " left";
  if (!terminal_) {
    note(line);
    return;
  }
  const std::size_t width = terminal_width(stream_) - 1;
  if (line.size() > width) line = valid_utf8(line.substr(0, width - 3)) + "...";
  std::fprintf(stream_, "\r\033[K%s", line.c_str());
  std::fflush(stream_);
  line_open_ = true;
}

void ProgressLine::note(const std::string& text) {
  clear();
  std::fprintf(stream_, "%s\n", printable(text).c_str());
  std::fflush(stream_);
}

std::string format_duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(std::fmin(1e15, std::fmax(0, seconds))));
  if (whole >= 3600) {
    return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " min";
  }
  if (whole >= 60) {
    return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  }
  return std::to_string(whole) + " s";
}

}  // namespace kmeans
