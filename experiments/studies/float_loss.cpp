// SPDX-License-Identifier: Apache-2.0
//
// Question:  after how many iterations does the article's program stop, and how far off is its
//            loss, by the way in which a million distances are added up? It reports 33 iterations
//            on the CPU and 22 on the GPU, and suspects the GPU's single precision. These are the
//            lines that it prints: its loop leaves before the line of the iteration that stops it,
//            when that has already updated the centroids, so 34 and 23 are executed
// Method:    trajectories from the same first centroids. `cpu` and the three `gpu` ones are in
//            float32, each distance summed as printed; `float64` is right. In every iteration the
//            same distances are summed in five ways, and each way has the printed stopping rule: a
//            change below the threshold. `cpu` with one float is the article's CPU program, a `gpu`
//            with two steps is its GPU program. There the means are added atomically, in no order
//            that anybody knows: tried are the points' order, windows of points in an order that a
//            seed shuffles again in each iteration, and exact sums that are rounded once. The
//            printed losses and final centroids, if given, are held against each iteration's
// Source:    zhihu2023, sections 3.3 to 3.5, 3.7 and 4.2 to 4.5; threshold and most iterations:
//            appendix
#include <array>

#include "experiments/studies/_common.h"
#include "harness/support/parallel.h"

namespace kmeans::studies::float_loss {
namespace {

enum Trajectory { kCpu, kGpu, kGpuShuffled, kGpuExact, kFloat64, kTrajectories };
constexpr std::array<const char*, kTrajectories> kTrajectoryNames = {"cpu", "gpu", "gpu_shuffled",
                                                                     "gpu_exact", "float64"};
enum Way { kOneFloat, kTwoSteps, kPairwise, kKahan, kDouble, kWays };
constexpr std::array<const char*, kWays> kWayNames = {"one float", "two steps", "pairwise", "Kahan",
                                                      "double"};
constexpr std::array<const char*, kWays> kWayKeys = {"one_float", "two_steps", "pairwise", "kahan",
                                                     "double"};

constexpr std::size_t kFeatureThreads = 128;  // of the kernel of the distances, one a feature
constexpr std::size_t kLossThreads = 256;     // of the kernel of the loss, in as many blocks
constexpr std::size_t kLanes = 64;            // points side by side on the CPU

/// The sum that a block forms: the upper half of the slots is added to the lower half.
template <class Slot, std::size_t kCount, class Add>
void halve(std::array<Slot, kCount>& slots, const Add& add) {
  for (std::size_t offset = kCount / 2; offset > 0; offset /= 2) {
    for (std::size_t thread = 0; thread < offset; ++thread) {
      add(slots[thread], slots[thread + offset]);
    }
  }
}

float halved(std::array<float, kLossThreads>& slots) {
  halve(slots, [](float& low, float high) { low += high; });
  return slots[0];
}

template <class T>
struct State {
  std::vector<T> centroids;          // k x d
  std::vector<std::int32_t> labels;  // n
  std::vector<T> distances;          // n: of each point to its centroid, square root taken
};

template <class T>
using Lanes = std::array<T, kLanes>;

/// Squared distances of points side by side, feature after feature. columns: d x kLanes.
template <class T>
Lanes<T> squares_in_order(const std::vector<Lanes<T>>& columns, const T* centroid) {
  Lanes<T> squares{};
  for (std::size_t t = 0; t < columns.size(); ++t) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const T difference = columns[t][lane] - centroid[t];
      squares[lane] += difference * difference;
    }
  }
  return squares;
}

/// The same, summed as by a block with a thread a feature.
Lanes<float> squares_in_blocks(const std::vector<Lanes<float>>& columns, const float* centroid) {
  std::array<Lanes<float>, kFeatureThreads> slots{};
  for (std::size_t t = 0; t < columns.size(); ++t) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float difference = columns[t][lane] - centroid[t];
      slots[t][lane] = difference * difference;
    }
  }
  halve(slots, [](Lanes<float>& low, const Lanes<float>& high) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) low[lane] += high[lane];
  });
  return slots[0];
}

/// Labels and distances. The article's CPU class compares squares with <=, from 1e8 on; its GPU
/// class compares square roots with <; right is < of squares, from infinity on.
template <class T>
void assign(const StudyInput& input, Trajectory trajectory, State<T>& state) {
  const std::int64_t d = input.d;
  const std::int64_t k = input.k;
  for_blocks(input.n, input.threads, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    std::vector<Lanes<T>> columns(static_cast<std::size_t>(d));
    for (std::int64_t first = begin; first < end; first += kLanes) {
      const auto lanes = static_cast<std::size_t>(std::min<std::int64_t>(kLanes, end - first));
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const float* point = input.points + (first + static_cast<std::int64_t>(lane)) * d;
        for (std::int64_t t = 0; t < d; ++t) columns[t][lane] = static_cast<T>(point[t]);
      }
      Lanes<T> smallest;
      Lanes<std::int32_t> label;
      smallest.fill(trajectory == kCpu ? T{1e8} : std::numeric_limits<T>::infinity());
      label.fill(-1);
      for (std::int64_t j = 0; j < k; ++j) {
        const T* centroid = state.centroids.data() + j * d;
        Lanes<T> compared;
        if constexpr (std::is_same_v<T, float>) {
          if (trajectory == kCpu) {
            compared = squares_in_order(columns, centroid);
          } else {
            compared = squares_in_blocks(columns, centroid);
            for (auto& value : compared) value = std::sqrt(value);
          }
        } else {
          compared = squares_in_order(columns, centroid);
        }
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
          const bool nearer = trajectory == kCpu ? compared[lane] <= smallest[lane]
                                                 : compared[lane] < smallest[lane];
          smallest[lane] = nearer ? compared[lane] : smallest[lane];
          label[lane] = nearer ? static_cast<std::int32_t>(j) : label[lane];
        }
      }
      const bool squares = trajectory == kCpu || trajectory == kFloat64;
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const auto i = first + static_cast<std::int64_t>(lane);
        if (label[lane] < 0) {  // too far for 1e8: the article reads before its array
          throw InputError("float_loss: point " + std::to_string(i) +
                           " is farther than 10 000 from every centroid");
        }
        state.labels[i] = label[lane];
        state.distances[i] = squares ? std::sqrt(smallest[lane]) : smallest[lane];
      }
    }
  });
}

/// Means of clusters, each in the order of the points; an empty cluster keeps its centroid. Add
/// takes a sum, a coordinate and the cluster's size; Finish makes the mean of the sum.
template <class Sum, class T, class Order, class Add, class Finish>
void update_in_order(const StudyInput& input, const Order& order, const Add& add,
                     const Finish& finish, State<T>& state) {
  const std::int64_t d = input.d;
  for_each_part(input.k, input.threads, [&](std::int64_t j) {
    const auto count = std::count(state.labels.begin(), state.labels.end(), j);
    if (count == 0) return;
    std::vector<Sum> sums(static_cast<std::size_t>(d));
    for (std::int64_t place = 0; place < input.n; ++place) {
      const std::int64_t i = order(place);
      if (state.labels[i] != j) continue;
      const float* point = input.points + i * d;
      for (std::int64_t t = 0; t < d; ++t) sums[t] = add(sums[t], point[t], count);
    }
    for (std::int64_t t = 0; t < d; ++t) {
      state.centroids[j * d + t] = static_cast<T>(finish(sums[t], count));
    }
  });
}

template <class T>
void update(const StudyInput& input, Trajectory trajectory, std::int64_t window,
            const CounterRandom& random, State<T>& state) {
  const auto in_order = [](std::int64_t place) { return place; };
  const auto plain = [](auto sum, float x, std::int64_t) { return sum + x; };
  const auto divide = [](auto sum, std::int64_t count) {
    return sum / static_cast<decltype(sum)>(count);
  };
  // The GPU class divides each coordinate by the cluster's size before it adds it.
  const auto divided = [](float sum, float x, std::int64_t count) {
    return sum + x / static_cast<float>(count);
  };
  const auto as_it_is = [](float sum, std::int64_t) { return sum; };
  switch (trajectory) {
    case kCpu: return update_in_order<float>(input, in_order, plain, divide, state);
    case kGpu: return update_in_order<float>(input, in_order, divided, as_it_is, state);
    case kGpuShuffled: {
      std::vector<std::int64_t> order(static_cast<std::size_t>(input.n));
      for (std::int64_t begin = 0; begin < input.n; begin += window) {
        const std::int64_t size = std::min(window, input.n - begin);
        for (std::int64_t i = 0; i < size; ++i) order[begin + i] = begin + i;
        for (std::int64_t i = size - 1; i > 0; --i) {
          const auto number = static_cast<std::uint64_t>(begin + i);
          std::swap(order[begin + i], order[begin + random.below(number, i + 1)]);
        }
      }
      return update_in_order<float>(
          input, [&](std::int64_t place) { return order[place]; }, divided, as_it_is, state);
    }
    default: return update_in_order<double>(input, in_order, plain, divide, state);
  }
}

float pairwise(const float* values, std::int64_t count) {
  if (count == 1) return values[0];
  const std::int64_t half = count / 2;
  return pairwise(values, half) + pairwise(values + half, count - half);
}

float kahan(const std::vector<float>& values) {
  float sum = 0;
  float lost = 0;
  for (const float value : values) {
    const float corrected = value - lost;
    const float next = sum + corrected;
    lost = (next - sum) - corrected;
    sum = next;
  }
  return sum;
}

/// 256 blocks of 256 threads, each of which adds every 65536th value; then one block over them.
float two_steps(const std::vector<float>& values) {
  std::array<float, kLossThreads> blocks;
  for (std::size_t block = 0; block < kLossThreads; ++block) {
    std::array<float, kLossThreads> slots{};
    for (std::size_t begin = block * kLossThreads; begin < values.size();
         begin += kLossThreads * kLossThreads) {
      const std::size_t threads = std::min(kLossThreads, values.size() - begin);
      for (std::size_t thread = 0; thread < threads; ++thread) {
        slots[thread] += values[begin + thread];
      }
    }
    blocks[block] = halved(slots);
  }
  return halved(blocks);
}

/// The losses in each way, of the distances as floats; the last of the distances as they are.
template <class T>
std::array<double, kWays> losses(const std::vector<T>& distances, int threads) {
  const std::vector<float> values(distances.begin(), distances.end());
  std::array<double, kWays> loss{};
  for_each_part(kWays, threads, [&](std::int64_t way) {
    float one = 0;
    switch (way) {
      case kOneFloat:
        for (const float value : values) one += value;
        break;
      case kTwoSteps: one = two_steps(values); break;
      case kPairwise:
        one = pairwise(values.data(), static_cast<std::int64_t>(values.size()));
        break;
      case kKahan: one = kahan(values); break;
      default:
        for (const T value : distances) loss[way] += static_cast<double>(value);
        return;
    }
    loss[way] = static_cast<double>(one);
  });
  return loss;
}

struct Rule {
  std::int64_t iterations = 0;  // the most
  double threshold = 0;
  std::int64_t window = 0;
  std::int64_t seed = 0;
  std::vector<double> printed_cpu;  // losses that the article prints, to six digits
  std::vector<double> printed_gpu;
  std::vector<double> centroids_cpu;  // k x d, likewise; empty: not given
  std::vector<double> centroids_gpu;
};

/// The article's CPU program is `cpu` with one float, its GPU program a `gpu` with two steps.
bool is_printed(Trajectory trajectory, std::int64_t way) {
  return trajectory == kCpu ? way == kOneFloat : trajectory != kFloat64 && way == kTwoSteps;
}

/// The loss that the article prints for the row.
std::optional<double> printed(const Rule& rule, Trajectory trajectory, std::int64_t way,
                              std::int64_t iteration) {
  if (!is_printed(trajectory, way)) return {};
  const auto& values = trajectory == kCpu ? rule.printed_cpu : rule.printed_gpu;
  if (iteration > static_cast<std::int64_t>(values.size())) return {};
  return values[static_cast<std::size_t>(iteration - 1)];
}

/// Does the value become the printed one, in the six digits of a C++ stream?
bool same_in_six_digits(double value, double printed_value) {
  if (value == 0) return printed_value == 0;
  double unit = 1;
  while (std::abs(value) >= unit * 1e6) unit *= 10;
  while (std::abs(value) < unit * 1e5) unit /= 10;
  return std::abs(value - printed_value) <= unit * (0.5 + 1e-9);
}

struct Summary {
  std::array<std::int64_t, kWays> executed{};  // iterations, with the one that stops; -1: no stop
  std::array<double, kWays> largest_error{};   // relative
  std::array<double, kWays> largest_absolute_error{};
  std::int64_t printed = 0;            // losses of the article to compare with
  std::int64_t agree = 0;              // of these
  std::int64_t labels_settled = -1;    // the first iteration without a changed label; -1: none
  std::int64_t centroids_nearest = 0;  // the iteration whose centroids are nearest to the printed
  std::int64_t centroids_agree = 0;    // coordinates of these
  double centroids_difference = std::numeric_limits<double>::infinity();
};

/// Holds the centroids after an iteration against the printed ones; returns the largest difference.
template <class T>
double compare_centroids(const std::vector<T>& centroids, const std::vector<double>& printed_ones,
                         std::int64_t iteration, Summary& summary) {
  double difference = 0;
  std::int64_t agree = 0;
  for (std::size_t at = 0; at < printed_ones.size(); ++at) {
    const auto value = static_cast<double>(centroids[at]);
    difference = std::max(difference, std::abs(value - printed_ones[at]));
    agree += same_in_six_digits(value, printed_ones[at]) ? 1 : 0;
  }
  if (difference < summary.centroids_difference) {
    summary.centroids_difference = difference;
    summary.centroids_nearest = iteration;
    summary.centroids_agree = agree;
  }
  return difference;
}

template <class T>
Summary follow(const StudyInput& input, const Rule& rule, Trajectory trajectory,
               std::vector<nlohmann::json>& rows) {
  State<T> state;
  state.centroids.assign(input.centroids, input.centroids + input.k * input.d);
  state.labels.assign(static_cast<std::size_t>(input.n), -1);
  state.distances.resize(static_cast<std::size_t>(input.n));
  Summary summary;
  summary.executed.fill(-1);
  std::array<bool, kWays> stopped{};
  std::array<double, kWays> before;
  before.fill(trajectory == kCpu ? 1e7 : 0);  // as the two classes start
  for (std::int64_t iteration = 1; iteration <= rule.iterations; ++iteration) {
    const auto old_labels = state.labels;
    assign(input, trajectory, state);
    std::int64_t changed = 0;
    for (std::int64_t i = 0; i < input.n; ++i) changed += state.labels[i] != old_labels[i];
    if (changed == 0 && summary.labels_settled < 0) summary.labels_settled = iteration;
    const auto loss = losses(state.distances, input.threads);
    const CounterRandom random(static_cast<std::uint64_t>(rule.seed),
                               static_cast<std::uint64_t>(iteration));
    update(input, trajectory, rule.window, random, state);
    const auto& printed_ones = trajectory == kCpu ? rule.centroids_cpu : rule.centroids_gpu;
    nlohmann::json off;  // from the printed centroids
    if (!printed_ones.empty() && trajectory != kFloat64) {
      off = compare_centroids(state.centroids, printed_ones, iteration, summary);
    }
    for (std::int64_t way = 0; way < kWays; ++way) {
      const double error = loss[way] / loss[kDouble] - 1;
      const double change = loss[way] - before[way];  // exact where both are floats
      const bool now = !stopped[way] && std::abs(change) < rule.threshold;
      if (now) {
        stopped[way] = true;
        summary.executed[way] = iteration;
      }
      if (!stopped[way] || now) {
        summary.largest_error[way] = std::max(summary.largest_error[way], std::abs(error));
        summary.largest_absolute_error[way] =
            std::max(summary.largest_absolute_error[way], std::abs(loss[way] - loss[kDouble]));
      }
      const auto line = printed(rule, trajectory, way, iteration);
      if (line) {
        summary.printed += 1;
        summary.agree += same_in_six_digits(loss[way], *line) ? 1 : 0;
      }
      rows.push_back({{"trajectory", kTrajectoryNames[trajectory]},
                      {"iteration", iteration},
                      {"way", kWayNames[way]},
                      {"loss", loss[way]},
                      {"printed", line ? nlohmann::json(*line) : nlohmann::json()},
                      {"relative_error", error},
                      {"absolute_error", std::abs(loss[way] - loss[kDouble])},
                      {"absolute_change",
                       iteration == 1 ? nlohmann::json() : nlohmann::json(std::abs(change))},
                      {"changed_labels", changed},
                      {"centroids_off", is_printed(trajectory, way) ? off : nlohmann::json()},
                      {"stops_here", now},
                      {"executed_iterations", now ? nlohmann::json(iteration) : nlohmann::json()},
                      {"lines", now ? nlohmann::json(iteration - 1) : nlohmann::json()}});
    }
    before = loss;
    if (std::all_of(stopped.begin(), stopped.end(), [](bool value) { return value; })) break;
  }
  return summary;
}

StudyOutput run(const StudyInput& input) {
  Parameters parameters(input);
  Rule rule;
  rule.iterations = parameters.integer("iterations", 50, 1, 10000);
  rule.threshold = parameters.real("threshold", 0.1, 0, 1e9);
  rule.window = parameters.integer("window", 2048, 1, 1 << 30);
  rule.seed = parameters.integer("seed", 1, 0, 1 << 30);
  rule.printed_cpu = parameters.reals("printed_cpu", {}, 0, 1e30);
  rule.printed_gpu = parameters.reals("printed_gpu", {}, 0, 1e30);
  rule.centroids_cpu = parameters.reals("printed_centroids_cpu", {}, -1e30, 1e30);
  rule.centroids_gpu = parameters.reals("printed_centroids_gpu", {}, -1e30, 1e30);
  const auto names =
      parameters.texts("trajectories", {kTrajectoryNames.begin(), kTrajectoryNames.end()});
  parameters.finish();
  if (input.d > static_cast<std::int64_t>(kFeatureThreads)) {
    throw InputError("float_loss: d = " + std::to_string(input.d) +
                     ", but the article's kernel sums at most 128 features");
  }
  for (const auto* values : {&rule.centroids_cpu, &rule.centroids_gpu}) {
    if (values->empty() || static_cast<std::int64_t>(values->size()) == input.k * input.d) continue;
    throw InputError(
        "float_loss: " + std::to_string(values->size()) +
        " coordinates of printed centroids, but k d = " + std::to_string(input.k * input.d));
  }

  StudyOutput output;
  for (int at = 0; at < kTrajectories; ++at) {
    const auto trajectory = static_cast<Trajectory>(at);
    if (std::find(names.begin(), names.end(), kTrajectoryNames[at]) == names.end()) continue;
    const auto summary = trajectory == kFloat64
                             ? follow<double>(input, rule, trajectory, output.rows)
                             : follow<float>(input, rule, trajectory, output.rows);
    const std::string name = kTrajectoryNames[at];
    const auto or_null = [](std::int64_t value) {
      return value < 0 ? nlohmann::json() : nlohmann::json(value);
    };
    for (std::int64_t way = 0; way < kWays; ++way) {
      const std::string key = name + "_" + kWayKeys[way];
      const std::int64_t executed = summary.executed[way];
      output.findings["executed_iterations_" + key] = or_null(executed);
      output.findings["lines_" + key] = or_null(executed < 0 ? executed : executed - 1);
      output.findings["largest_error_" + key] = summary.largest_error[way];
      output.findings["largest_absolute_error_" + key] = summary.largest_absolute_error[way];
    }
    output.findings["labels_settled_" + name] = or_null(summary.labels_settled);
    if (summary.printed > 0) {
      output.findings["losses_compared_" + name] = summary.printed;
      output.findings["losses_equal_" + name] = summary.agree;
    }
    if (summary.centroids_nearest > 0) {
      output.findings["centroids_nearest_" + name] = summary.centroids_nearest;
      output.findings["centroids_off_" + name] = summary.centroids_difference;
      output.findings["coordinates_equal_" + name] = summary.centroids_agree;
    }
  }
  output.notes = {
      "executed_iterations counts the iteration that stops the loop, lines leaves it out: the "
      "article's loop ends before it prints that line, and after it has updated the centroids.",
      "Both are null where " + std::to_string(rule.iterations) + " iterations did not suffice.",
      "Errors are taken against the same distances summed in float64, up to the iteration that "
      "stops the loop.",
      "centroids_nearest: the executed iteration after which the centroids differ least from the "
      "printed ones; centroids_off: by how much, coordinates_equal: how many agree to six digits."};
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "float_loss",
             .summary =
                 "what the order of adding a million float distances does to the loss and to "
                 "the iterations until it stops changing",
             .source = "zhihu2023", .needs_data = true, .run = run);

}  // namespace kmeans::studies::float_loss
