// SPDX-License-Identifier: Apache-2.0
#include "harness/record/refusals.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "harness/support/formatted.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

/// The number after `before`, which leaves `text`; absent, and the text as it was, where it does not begin so.
std::optional<std::int64_t> number_after(std::string_view& text, std::string_view before) {
  if (!text.starts_with(before)) return std::nullopt;
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + before.size(), end, value);
  if (error != std::errc() || value <= 0) return std::nullopt;
  text = {rest, static_cast<std::size_t>(end - rest)};
  return value;
}

std::string said(const char* size, std::int64_t own, std::int64_t refused) {
  return std::string(size) + " = " + std::to_string(own) + ": it refused " +
         std::to_string(refused);
}

/// Bytes of float32 coordinates and of a label of all points, over the multiprocessors.
double bytes_of_points(const Sizes& s, double multiprocessors) {
  return 4 * s.n * (s.d + 1) / multiprocessors;
}

/// Of float32 centroids and of 64-bit sums and counts.
double bytes_of_centroids(const Sizes& s) { return 4 * s.k * s.d + 8 * s.k * (s.d + 1); }

}  // namespace

void Refusals::add(const Shape& shape, const std::string& reason) {
  std::string_view text = reason;
  if (const auto d = number_after(text, "d = ")) {
    if (*d != shape.d) return;
    if (const auto most = number_after(text, " exceeds ")) {
      d_most_ = d_most_ == 0 ? *most : std::min(d_most_, *most);
    } else if (const auto k = number_after(text, ", k = ")) {
      dk_.emplace_back(*d, *k);
    } else {
      d_.push_back(*d);
    }
  } else if (const auto few = number_after(text, "k = ")) {
    dk_.emplace_back(1, *few);
  } else if (const auto need = number_after(text, "points, centroids and sums need ")) {
    const auto of = number_after(text, " bytes of shared memory on each of ");
    const auto there = number_after(text, " multiprocessors, and there are ");
    if (!of || !there) return;
    chip_ = {static_cast<double>(*there), static_cast<double>(*of), 1, 1};
    needed_.push_back({shape, static_cast<double>(*need)});
  }
}

void Refusals::close(const std::vector<std::int64_t>& taken) {
  std::ranges::sort(d_);
  if (!taken.empty()) {
    const auto [least, most] = std::ranges::minmax(taken);
    const auto from = std::ranges::upper_bound(d_, most);
    if (from != d_.end()) d_from_ = *from;
    const auto below = std::ranges::lower_bound(d_, least);
    if (below != d_.begin()) d_below_ = *std::prev(below);
  }
  if (d_most_ > 0 && (d_from_ == 0 || d_most_ < d_from_)) d_from_ = d_most_ + 1;
  std::ranges::sort(dk_);
  // Of pairs the smallest alone.
  std::vector<std::pair<std::int64_t, std::int64_t>> least;
  for (const auto& one : dk_) {
    const auto covers = [&](const auto& other) { return other.second <= one.second; };
    if (std::ranges::none_of(least, covers)) least.push_back(one);
  }
  dk_ = std::move(least);
  if (chip_) fit_chip();
}

/// Least squares of relative errors. One cell does not separate the two factors: they stay near 1, below which
/// neither can be.
void Refusals::fit_chip() {
  constexpr double kRidge = 1e-3;
  double pp = kRidge;
  double pc = 0;
  double cc = kRidge;
  double p = kRidge;
  double c = kRidge;
  for (const auto& one : needed_) {
    const Sizes s(one.shape);
    const double points = bytes_of_points(s, chip_->multiprocessors) / one.bytes;
    const double centroids = bytes_of_centroids(s) / one.bytes;
    pp += points * points;
    pc += points * centroids;
    cc += centroids * centroids;
    p += points;
    c += centroids;
  }
  const double determinant = pp * cc - pc * pc;
  chip_->points = std::max(1.0, (cc * p - pc * c) / determinant);
  chip_->centroids = std::max(1.0, (pp * c - pc * p) / determinant);
}

double Refusals::chip_need(const Shape& shape) const {
  const Sizes s(shape);
  return chip_->points * bytes_of_points(s, chip_->multiprocessors) +
         chip_->centroids * bytes_of_centroids(s);
}

std::string Refusals::reason_against(const Shape& shape) const {
  if (d_from_ > 0 && shape.d >= d_from_) return said("d", shape.d, d_from_);
  if (shape.d <= d_below_) return said("d", shape.d, d_below_);
  for (const auto& [d, k] : dk_) {
    if (shape.d < d || shape.k < k) continue;
    return "d = " + std::to_string(shape.d) + ", " + said("k", shape.k, k) +
           (d > 1 ? " of d = " + std::to_string(d) : "");
  }
  if (chip_ && chip_need(shape) > chip_->bytes) {
    return "needs about " + format_bytes(chip_need(shape)) + " on each of " +
           formatted("%.0f", chip_->multiprocessors) + " multiprocessors, that GPU has " +
           format_bytes(chip_->bytes);
  }
  return "";
}

json Refusals::numbers() const {
  json pairs = json::array();
  for (const auto& [d, k] : dk_) pairs.push_back({d, k});
  json chip = nullptr;
  if (chip_) {
    const double point = 4 * chip_->points / chip_->multiprocessors;
    const double centroid = chip_->centroids;
    const auto short_of = [](double value) { return std::stod(formatted("%.6g", value)); };
    chip = {{"bytes", chip_->bytes},
            {"needs",
             {{short_of(point), 1, 1, 0},
              {short_of(point), 1, 0, 0},
              {short_of(12 * centroid), 0, 1, 1},
              {short_of(8 * centroid), 0, 0, 1}}}};
  }
  return {{"d", {d_below_, d_from_}}, {"dk", std::move(pairs)}, {"chip", std::move(chip)}};
}

}  // namespace kmeans
