// SPDX-License-Identifier: Apache-2.0
//
// The cache: <label>-<scalar>-<hash of the description>.npy with a record of the same name, .json,
// that holds the checksums, and a .lock file. A file without a record that fits is worth nothing:
// it is discarded and made again, under the lock, so that two processes do not both do it.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "datasets/arrow.h"
#include "datasets/catalogue.h"
#include "datasets/dataset.h"
#include "datasets/generate.h"
#include "datasets/npy.h"
#include "datasets/python_sets.h"
#include "datasets/readers.h"
#include "harness/support/atomic_file.h"
#include "harness/support/errors.h"
#include "harness/support/mapped_file.h"
#include "harness/support/sha256.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const char* descr_of(ScalarType scalar) { return scalar == ScalarType::f32 ? "<f4" : "<f8"; }

std::span<const std::byte> coordinates_of(const MappedFile& file, const MatrixLayout& layout) {
  return file.bytes().subspan(static_cast<std::size_t>(layout.offset));
}

// A hash of samples spread over the file: finds most damage without reading gigabytes.
std::string probe(const MappedFile& file) {
  constexpr std::size_t kSamples = 16;
  constexpr std::size_t kBytes = 4096;
  const auto bytes = file.bytes();
  Sha256 hash;
  if (bytes.size() <= kSamples * kBytes) {
    hash.add(bytes.data(), bytes.size());
  } else {
    for (std::size_t sample = 0; sample < kSamples; ++sample) {
      const std::size_t begin = (bytes.size() - kBytes) / (kSamples - 1) * sample;
      hash.add(bytes.data() + begin, kBytes);
    }
    hash.add(bytes.data() + (bytes.size() - kBytes), kBytes);
  }
  return hash.hex();
}

std::optional<MatrixLayout> plain_layout(const FileBytes& file, ScalarType scalar) {
  const MatrixLayout layout = read_npy_layout(file);
  const Element wanted = scalar == ScalarType::f32 ? Element::f32 : Element::f64;
  const bool plain = layout.element == wanted && !layout.big_endian &&
                     layout.row_stride == layout.d * size_of(scalar) &&
                     layout.column_stride == size_of(scalar) && layout.offset % 8 == 0;
  return plain ? std::optional(layout) : std::nullopt;
}

/// What only the making of an entry shows.
struct Made {
  std::int64_t points_dropped = 0;
  std::vector<std::string> notes{};
  std::string rounded{};
};

void say_once(const std::vector<std::string>& notes) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  for (const auto& note : notes) {
    if (!said.insert(note).second) continue;
    std::fprintf(stderr, "kmeans-bench: note: %s\n", printable(note).c_str());
  }
}

/// A data file with its record. The data file lies in the cache, or is the user's own npy.
class CacheEntry {
 public:
  CacheEntry(const fs::path& cache, const std::string& label, ScalarType scalar, json key)
      : scalar_(scalar), key_(std::move(key)) {
    const std::string text = key_.dump(-1, ' ', false, json::error_handler_t::replace);
    const std::string name =
        label + "-" + to_string(scalar) + "-" + sha256_hex(text.data(), text.size()).substr(0, 16);
    data_ = cache / (name + ".npy");
    record_ = cache / (name + ".json");
    lock_ = cache / (name + ".lock");
  }

  void use_file_in_place(fs::path file) { data_ = std::move(file); }

  [[nodiscard]] const fs::path& data() const { return data_; }

  /// Holds the lock while making the entry, unless another process has made it meanwhile.
  StoredDataset get(const std::function<Made()>& make) const {
    if (auto stored = valid(Reporting::quiet)) return *stored;
    std::error_code error;
    fs::create_directories(record_.parent_path(), error);
    if (error) {
      throw OutputError(record_.parent_path().string() +
                        ": the cache folder cannot be created: " + error.message());
    }
    make_way(lock_);
    const FileLock lock(lock_);
    make_way(record_);
    // The user's own file is not ours to move.
    if (data_.parent_path() == record_.parent_path()) make_way(data_);
    if (auto stored = valid(Reporting::aloud)) return *stored;
    fs::remove(record_, error);
    remove_stale_temporaries(data_);
    remove_stale_temporaries(record_);
    return describe(make());
  }

  void discard() const {
    std::error_code ignored;
    fs::remove(record_, ignored);
    fs::remove(data_, ignored);
  }

 private:
  enum class Reporting { quiet, aloud };

  // The entry, if data and record fit each other. The whole data are hashed only when the file's
  // time has changed since its record was written; else size, header and samples are compared.
  [[nodiscard]] std::optional<StoredDataset> valid(Reporting reporting) const {
    std::error_code ignored;
    if (!fs::is_regular_file(record_, ignored)) return std::nullopt;  // a pipe would not end
    std::ifstream in(record_);
    if (!in) return std::nullopt;
    try {
      json record = json::parse(in);
      if (record.at("key") != key_) return std::nullopt;
      // Of a file that an earlier program converted nobody knows what there was to say.
      if (key_.contains("path") && !record.contains("notes")) return std::nullopt;
      const MappedFile file(data_);
      const FileBytes bytes{data_.string(), file.bytes(), file.memory()};
      const auto layout = plain_layout(bytes, scalar_);
      StoredDataset stored{data_,
                           record.at("sha256").get<std::string>(),
                           record.at("n").get<std::int64_t>(),
                           record.at("d").get<std::int64_t>(),
                           scalar_,
                           record.value("points_dropped", std::int64_t{0}),
                           record.value("notes", std::vector<std::string>{}),
                           record.value("rounded", std::string())};
      if (!layout || layout->n != stored.n || layout->d != stored.d ||
          probe(file) != record.at("probe_sha256").get<std::string>()) {
        throw InputError("size, shape or samples do not fit the record");
      }
      if (record.at("modified_ns") != file.modified()) {
        const auto coordinates = coordinates_of(file, *layout);
        if (sha256_hex(coordinates.data(), coordinates.size()) != stored.sha256) {
          throw InputError("its SHA-256 does not fit the record");
        }
        record["modified_ns"] = file.modified();
        try {
          write_record(record);
        } catch (const OutputError&) {
          // A cache that others provide read-only: it is hashed again next time.
        }
      }
      return stored;
    } catch (const std::exception& error) {
      // Half a file, a record cut short, a changed byte: whatever it is, it is made again.
      if (reporting == Reporting::aloud) {
        std::fprintf(stderr, "kmeans-bench: %s is made again: %s\n",
                     printable(data_.filename().string()).c_str(), printable(error.what()).c_str());
      }
      return std::nullopt;
    }
  }

  void write_record(const json& record) const {
    const std::string text = record.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
    AtomicFile out(record_);
    out.write(text.data(), text.size());
    out.commit();
  }

  // Hashes the finished data file and writes its record.
  [[nodiscard]] StoredDataset describe(const Made& made) const {
    const MappedFile file(data_);
    const FileBytes bytes{data_.string(), file.bytes(), file.memory()};
    const auto layout = plain_layout(bytes, scalar_);
    if (!layout) bytes.refuse("is not the npy file that was to be made");
    const auto coordinates = coordinates_of(file, *layout);
    StoredDataset stored{data_,      sha256_hex(coordinates.data(), coordinates.size()),
                         layout->n,  layout->d,
                         scalar_,    made.points_dropped,
                         made.notes, made.rounded};
    write_record({{"key", key_},
                  {"n", stored.n},
                  {"d", stored.d},
                  {"points_dropped", stored.points_dropped},
                  {"notes", stored.notes},
                  {"rounded", stored.rounded},
                  {"bytes", file.bytes().size()},
                  {"sha256", stored.sha256},
                  {"probe_sha256", probe(file)},
                  {"modified_ns", file.modified()}});
    return stored;
  }

  ScalarType scalar_;
  json key_;
  fs::path data_;
  fs::path record_;
  fs::path lock_;
};

void write_generated(const DatasetSpec& spec, ScalarType scalar, const fs::path& file) {
  const FillRows fill = prepare_rows(spec);
  const auto n = spec.json.at("n").get<std::int64_t>();
  const auto d = spec.json.at("d").get<std::int64_t>();
  const std::int64_t row_bytes = d * size_of(scalar);
  constexpr std::int64_t kChunkBytes = std::int64_t{32} << 20;
  const std::int64_t rows = std::clamp<std::int64_t>(kChunkBytes / row_bytes, 1, n);
  const auto chunk = allocate_bytes(rows * row_bytes);
  AtomicFile out(file);
  const std::string header = npy_header(descr_of(scalar), {n, d});
  out.write(header.data(), header.size());
  for (std::int64_t begin = 0; begin < n; begin += rows) {
    const std::int64_t end = std::min(n, begin + rows);
    fill_rows(fill, d, scalar, begin, end, chunk.get());
    out.write(chunk.get(), static_cast<std::size_t>((end - begin) * row_bytes));
  }
  out.commit();
}

void write_from_python(const DatasetSpec& spec, ScalarType scalar, const fs::path& cache,
                       const fs::path& file) {
  json description = spec.json;
  description.erase("n");
  const DatasetSpec whole = parse_dataset(description);
  if (spec.json == whole.json && scalar == ScalarType::f64) {
    const fs::path made = file.parent_path() / ("." + file.filename().string() + ".tmp-made");
    make_with_python(spec, made);
    write_npy(file, load_points(made, {.format = FileFormat::npy, .scalar = scalar}));
    std::error_code ignored;
    fs::remove(made, ignored);
    return;
  }
  // Everything else is cut or rounded from the whole set.
  const StoredDataset stored = materialise(whole, ScalarType::f64, cache);
  write_npy(file, load_points(stored.file, {.scalar = scalar,
                                            .max_points = spec.json.at("n").get<std::int64_t>()}));
}

CacheEntry entry_of_generated(const DatasetSpec& spec, ScalarType scalar, const fs::path& cache) {
  return {cache, spec.label(), scalar,
          json{{"spec", spec.json}, {"scalar", to_string(scalar)}, {"version", kGeneratorVersion}}};
}

StoredDataset materialise_file(const DatasetSpec& spec, ScalarType scalar, const fs::path& cache) {
  const fs::path file = spec.json.at("file").get<std::string>();
  LoadOptions options = load_options(spec);
  options.scalar = scalar;
  const MappedFile mapped(file);
  const json key{{"spec", spec.json},
                 {"scalar", to_string(scalar)},
                 {"path", fs::absolute(file).lexically_normal().string()},
                 {"source_bytes", mapped.bytes().size()},
                 {"source_modified_ns", mapped.modified()}};
  CacheEntry entry(cache, spec.label(), scalar, key);
  // Converted only where the cache does not have it.
  const bool arrow = is_arrow(file);
  const FileBytes bytes{file.string(), mapped.bytes(), mapped.memory()};
  const bool npy = bytes.text().substr(0, 6) == "\x93NUMPY";
  const bool in_place = npy && options.max_points == 0 && options.csv.plain() &&
                        !options.drop_nonfinite && plain_layout(bytes, scalar).has_value();
  if (in_place) entry.use_file_in_place(fs::absolute(file));
  StoredDataset stored = entry.get([&] {
    Made made;
    options.points_dropped = &made.points_dropped;
    options.notes = &made.notes;
    options.rounded = &made.rounded;
    // Also refuses NaN and infinity.
    const Points points = arrow ? load_points(file, options) : read_points(bytes, options);
    if (!in_place) write_npy(entry.data(), points);
    return made;
  });
  say_once(stored.notes);
  return stored;
}

}  // namespace

bool is_in_cache(const DatasetSpec& spec, ScalarType scalar, const std::filesystem::path& cache) {
  // Of a file the size is asked for first, and then it is mapped, or was converted into the cache.
  if (spec.json.contains("file")) return true;
  std::error_code ignored;
  return fs::is_regular_file(entry_of_generated(spec, scalar, cache).data(), ignored);
}

StoredDataset materialise(const DatasetSpec& spec, ScalarType scalar,
                          const std::filesystem::path& cache) {
  if (spec.json.contains("file")) return materialise_file(spec, scalar, cache);
  const CacheEntry entry = entry_of_generated(spec, scalar, cache);
  StoredDataset stored = entry.get([&] {
    if (!require_generator(spec.json.at("generator")).prepare) {
      write_from_python(spec, scalar, cache, entry.data());
    } else {
      write_generated(spec, scalar, entry.data());
    }
    return Made{};
  });
  if (const auto* known = find_in_catalogue(spec, scalar)) {
    if (stored.sha256 == known->sha256) return stored;
    const auto difference = difference_from(*known, stored.sha256, load_points(stored.file));
    if (!difference.empty()) {
      entry.discard();
      throw EnvironmentError("data set " + spec.label() + " (" + to_string(scalar) +
                             ") does not come out as the catalogue says: " + difference +
                             doubt_about_package(spec));
    }
  }
  return stored;
}

}  // namespace kmeans
