// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/columns.h"

#include <algorithm>
#include <cstddef>

namespace kmeans {

std::string aligned(const std::vector<std::vector<std::string>>& lines) {
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const auto& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], line[c].size());
  }
  std::string text;
  for (const auto& line : lines) {
    text += " ";
    for (std::size_t c = 0; c < line.size(); ++c) {
      const std::string room(widths[c] - line[c].size(), ' ');
      const bool left = c < 2 || c + 1 == line.size();
      text += " " + (left ? line[c] + (c + 1 < line.size() ? room : "") : room + line[c]) +
              (c + 1 < line.size() ? " " : "");
    }
    text += "\n";
  }
  return text;
}

}  // namespace kmeans
