// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <clocale>
#include <cmath>
#include <limits>

#include "datasets/npy.h"
#include "datasets/points.h"
#include "harness/support/atomic_file.h"
#include "tests/datasets/test_tools.h"
#include "tests/support/says.h"

namespace kmeans {
namespace {

using test::bytes_of;
using test::message_of;
using test::Says;
using test::TemporaryFolder;
using test::values_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Readers : public ::testing::Test {
 protected:
  [[nodiscard]] Points load(const std::string& name, const std::string& content,
                            const LoadOptions& options = {}) const {
    return load_points(folder_.write(name, content), options);
  }
  /// Why the file is refused; every message begins with the file's name.
  [[nodiscard]] std::string refusal(const std::string& name, const std::string& content,
                                    const LoadOptions& options = {}) const {
    const auto file = folder_.write(name, content);
    auto message = message_of([&] { load_points(file, options); });
    EXPECT_THAT(message, StartsWith(file.string() + ": "));
    return message;
  }

  TemporaryFolder folder_;
};

std::string npy(const std::string& descr, const std::string& shape, const std::string& data,
                int version = 1, const std::string& fortran = "False") {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
  header.append(63 - (header.size() + 10) % 64, ' ');
  header += '\n';
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  file += static_cast<char>(header.size());
  file += '\0';
  if (version > 1) file.append(2, '\0');
  return file + header + data;
}

const std::string kSix = bytes_of<float>({1, 2, 3, 4, 5, 6});
const std::string kSixDoubles = bytes_of<double>({1, 2, 3, 4, 5, 6});

std::string reversed_elements(std::string data, std::size_t size) {
  for (std::size_t i = 0; i < data.size(); i += size) {
    std::reverse(data.begin() + static_cast<std::ptrdiff_t>(i),
                 data.begin() + static_cast<std::ptrdiff_t>(i + size));
  }
  return data;
}

// ---- npy ----

TEST_F(Readers, NpyFloatIsMapped) {
  const Points points = load("a.npy", npy("<f4", "(2, 3)", kSix));
  EXPECT_EQ(points.n(), 2);
  EXPECT_EQ(points.d(), 3);
  EXPECT_EQ(points.scalar(), ScalarType::f32);
  EXPECT_THAT(values_of<float>(points), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(Readers, NpyVersionsAndDoubles) {
  for (const int version : {1, 2, 3}) {
    const Points points = load("a.npy", npy("<f8", "(3, 2)", kSixDoubles, version));
    EXPECT_EQ(points.scalar(), ScalarType::f64);
    EXPECT_THAT(values_of<double>(points), ElementsAre(1, 2, 3, 4, 5, 6));
  }
}

TEST_F(Readers, NpyConvertsOnRequest) {
  LoadOptions options;
  options.scalar = ScalarType::f32;
  EXPECT_THAT(values_of<float>(load("a.npy", npy("<f8", "(3, 2)", kSixDoubles), options)),
              ElementsAre(1, 2, 3, 4, 5, 6));
  options.scalar = ScalarType::f64;
  options.max_points = 1;
  EXPECT_THAT(values_of<double>(load("a.npy", npy("<f4", "(2, 3)", kSix), options)),
              ElementsAre(1, 2, 3));
}

TEST_F(Readers, NpyFortranOrderAndByteOrder) {
  EXPECT_THAT(values_of<float>(load("a.npy", npy("<f4", "(2, 3)", kSix, 1, "True"))),
              ElementsAre(1, 3, 5, 2, 4, 6));
  EXPECT_THAT(values_of<float>(load("a.npy", npy(">f4", "(2, 3)", reversed_elements(kSix, 4)))),
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(values_of<double>(load(
                  "a.npy", npy(">f8", "(3, 2)", reversed_elements(kSixDoubles, 8), 1, "True"))),
              ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST_F(Readers, NpyIntegersAndHalf) {
  EXPECT_THAT(
      values_of<float>(load("a.npy", npy("|u1", "(1, 2)", bytes_of<std::uint8_t>({0, 255})))),
      ElementsAre(0, 255));
  EXPECT_THAT(
      values_of<float>(load("a.npy", npy("|i1", "(2,)", bytes_of<std::int8_t>({-128, 127})))),
      ElementsAre(-128, 127));
  EXPECT_THAT(
      values_of<float>(load("a.npy", npy("<i2", "(2,)", bytes_of<std::int16_t>({-32768, 32767})))),
      ElementsAre(-32768, 32767));
  EXPECT_THAT(values_of<double>(load("a.npy", npy("<i4", "(1,)", bytes_of<std::int32_t>({-7})))),
              ElementsAre(-7));
  EXPECT_THAT(values_of<double>(load(
                  "a.npy", npy("<u8", "(1,)", bytes_of<std::uint64_t>({std::uint64_t{1} << 63})))),
              ElementsAre(0x1p63));
  constexpr std::int64_t kLast = std::int64_t{1} << 53;
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  EXPECT_THAT(
      values_of<double>(load(
          "a.npy", npy("<i8", "(4,)", bytes_of<std::int64_t>({kLast, -kLast, kLeast, kLast + 2})))),
      ElementsAre(0x1p53, -0x1p53, -0x1p63, 0x1p53 + 2));
  for (const std::int64_t beyond : {kLast + 1, -kLast - 1, ~kLeast}) {
    EXPECT_THAT(refusal("a.npy", npy("<i8", "(2,)", bytes_of<std::int64_t>({1, beyond}))),
                Says({"point 1, coordinate 0", "integer", "float64"}));
  }
  // 1, -2, the largest, the smallest subnormal
  EXPECT_THAT(
      values_of<float>(
          load("a.npy", npy("<f2", "(4,)", bytes_of<std::uint16_t>({0x3C00, 0xC000, 0x7BFF, 1})))),
      ElementsAre(1, -2, 65504, 0x1p-24F));
}

TEST_F(Readers, NpyOneDimensionalHasOneCoordinate) {
  const Points points = load("a.npy", npy("<f4", "(6,)", kSix));
  EXPECT_EQ(points.n(), 6);
  EXPECT_EQ(points.d(), 1);
}

TEST_F(Readers, NpyUnalignedDataAreCopied) {
  std::string header = "{'descr':'<f8','fortran_order':False,'shape':(1,2)}";
  std::string file = "\x93NUMPY\x01";
  file += '\0';
  file += static_cast<char>(header.size());
  file += '\0';
  EXPECT_THAT(values_of<double>(load("a.npy", file + header + bytes_of<double>({0.5, -1}))),
              ElementsAre(0.5, -1));
}

TEST_F(Readers, NpyRefusals) {
  const auto whole = npy("<f4", "(2, 3)", kSix);
  EXPECT_THAT(refusal("a.npy", whole.substr(0, whole.size() - 1)),
              AllOf(HasSubstr("cut short"), HasSubstr("need 152 bytes, the file has 151")));
  EXPECT_THAT(refusal("a.npy", whole + "x"),
              AllOf(HasSubstr("too many"), HasSubstr("need 152 bytes, the file has 153")));
  EXPECT_THAT(refusal("a.npy", "not numpy at all"), HasSubstr("byte 0: is not an npy file"));
  EXPECT_THAT(refusal("a.npy", npy("<f4", "(2, 3)", kSix, 4)), HasSubstr("npy version 4"));
  EXPECT_THAT(refusal("a.npy", std::string("\x93NUMPY\x02\x00\xFF\xFF\xFF\x7F{", 13)),
              HasSubstr("claims 2147483647 bytes; at most 10000"));
  EXPECT_THAT(refusal("a.npy", npy("<f4", "(4611686018427387904, 4)", kSix)),
              HasSubstr("more than 2^62 bytes"));
  EXPECT_THAT(refusal("a.npy", npy("<f4", "(1000000000000, 1000)", kSix)),
              HasSubstr("the file has 152"));
  EXPECT_THAT(refusal("a.npy", npy("<f4", "(99999999999999999999, 4)", kSix)),
              HasSubstr("lengths must be integers"));
  EXPECT_THAT(refusal("a.npy", npy("<f4", "(-2, 3)", kSix)), HasSubstr("lengths must be"));
  EXPECT_THAT(refusal("a.npy", npy("<f4", "(0, 3)", "")), HasSubstr("has no points"));
  EXPECT_THAT(refusal("a.npy", npy("<f4", "(2, 0)", "")), HasSubstr("has no points"));
  EXPECT_THAT(refusal("a.npy", npy("<f4", "(2, 3, 1)", kSix)), HasSubstr("is not a matrix"));
  EXPECT_THAT(refusal("a.npy", npy("<f4", "()", kSix)), HasSubstr("is not a matrix"));
  for (const std::string type : {"|O", "<c8", "|b1", "<U1", "<M8[D]", "|V8"}) {
    EXPECT_THAT(refusal("a.npy", npy(type, "(1, 3)", kSix)),
                HasSubstr("type '" + type + "' is not read"));
  }
  EXPECT_THAT(refusal("a.npy", npy("<f4", "(2, 3)", kSix, 1, "Maybe")), HasSubstr("True or False"));
  EXPECT_THAT(refusal("a.npy", npy("<f4", "(2, 3), 'evil': '__import__'", kSix)),
              HasSubstr("key 'evil' is repeated or unknown"));
}

TEST_F(Readers, NonFiniteCoordinatesAreRefusedWithTheirPlace) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto file = npy("<f4", "(2, 3)", bytes_of<float>({1, 2, 3, 4, nan, nan}));
  EXPECT_THAT(refusal("a.npy", file), Says({"point 1, coordinate 1", "NaN"}));
  LoadOptions options;
  options.scalar = ScalarType::f64;
  EXPECT_THAT(refusal("a.npy", file, options), HasSubstr("point 1, coordinate 1"));
  options.check_finite = false;
  EXPECT_TRUE(std::isnan(values_of<double>(load("a.npy", file, options))[4]));

  options = {};
  options.scalar = ScalarType::f32;
  EXPECT_THAT(refusal("a.npy", npy("<f8", "(1, 2)", bytes_of<double>({1, 1e300})), options),
              AllOf(HasSubstr("point 0, coordinate 1"),
                    HasSubstr("1e+300 is outside the range of float32")));
}

TEST_F(Readers, LargeFilesNameTheFirstBadCoordinate) {
  // Several threads look at several ranges; the first bad index must win.
  std::vector<float> values(3'000'000, 1.0F);
  values[1'500'001] = std::numeric_limits<float>::infinity();
  values[2'900'000] = std::numeric_limits<float>::infinity();
  write_npy(folder_ / "large.npy", make_points(values.data(), 1'000'000, 3));
  EXPECT_THAT(message_of([&] { load_points(folder_ / "large.npy"); }),
              Says({"point 500000, coordinate 1", "infinite"}));
}

TEST_F(Readers, WrittenNpyComesBack) {
  const std::vector<double> values{0.1, -2, 1e300, 4, 5, 6};
  write_npy(folder_ / "a.npy", make_points(values.data(), 2, 3));
  const Points points = load_points(folder_ / "a.npy");
  EXPECT_EQ(points.n(), 2);
  EXPECT_EQ(values_of<double>(points), values);
  EXPECT_EQ(test::content_of(folder_ / "a.npy").size() % 64, 48U);  // header of 128 + 48

  const std::vector<std::int32_t> labels{3, 0, 2};
  AtomicFile out(folder_ / "l.npy");
  write_npy_labels(out, labels.data(), 3);
  out.commit();
  EXPECT_THAT(values_of<double>(load_points(folder_ / "l.npy")), ElementsAre(3, 0, 2));
  EXPECT_THAT(test::content_of(folder_ / "l.npy"), HasSubstr("'<i4', 'fortran_order': False, "
                                                             "'shape': (3,), }"));
}

TEST_F(Readers, UnwritablePlacesAreOutputErrors) {
  const std::vector<float> values{1};
  const auto points = make_points(values.data(), 1, 1);
  EXPECT_THAT(message_of<OutputError>([&] { write_npy(folder_ / "no/such/a.npy", points); }),
              HasSubstr("cannot be created: No such file"));
}

// ---- csv ----

TEST_F(Readers, CsvForms) {
  EXPECT_THAT(values_of<double>(load("a.csv", "1,2\n3,4\n")), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values_of<double>(load("a.csv", "\xEF\xBB\xBFx,y\r\n1.5, -2e3\r\n+3,.5\r\n\r\n")),
              ElementsAre(1.5, -2000, 3, 0.5));
  EXPECT_THAT(values_of<double>(load("a.txt", "# x y z\n 1  2\n3 4 \n")), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values_of<double>(load("a.tsv", "1\t2\n3\t4")), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values_of<double>(load("a.csv", "1;2\n3;4\n")), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values_of<double>(load("a.csv", "\"a, b\",c\n1,2\n")), ElementsAre(1, 2));
  EXPECT_EQ(load("a.csv", "1\n2\n3\n").d(), 1);
  EXPECT_THAT(values_of<double>(load("a.csv", "1e-999,-1e-400,4e-320\n")),
              ElementsAre(0, 0, 4e-320));
}

TEST_F(Readers, CsvDropsLabelColumns) {
  LoadOptions options;
  options.csv.drop_last = 1;
  options.scalar = ScalarType::f32;
  // As numpy.savetxt writes it, and with labels that are text.
  const Points points =
      load("a.csv",
           "1.056947344653077000e+00,-4.516524503680925400e-01,1.000000000000000000e+00\n"
           "2.5e-01,1.0e+00,setosa\n",
           options);
  EXPECT_EQ(points.d(), 2);
  EXPECT_THAT(values_of<float>(points),
              ElementsAre(1.056947344653077F, -0.45165245036809254F, 0.25F, 1));
  options.csv.drop_last = 3;
  EXPECT_THAT(refusal("a.csv", "1,2,3\n", options), HasSubstr("nothing is left"));
  options.csv.drop_last = 1;
  EXPECT_THAT(refusal("a.npy", npy("<f4", "(2, 3)", kSix), options),
              HasSubstr("columns can only be chosen"));
}

TEST_F(Readers, CsvAsPandasAndRWriteIt) {
  std::vector<std::string> notes;
  LoadOptions options;
  options.notes = &notes;
  const auto read = [&](const std::string& text, const std::string& name = "a.csv") {
    notes.clear();
    return values_of<double>(load(name, text, options));
  };
  // DataFrame.to_csv() with an index, without and with names of columns; index=False without names.
  EXPECT_THAT(read(",x,y\n0,.5,1\n1,9,2\n"), ElementsAre(.5, 1, 9, 2));
  EXPECT_THAT(notes, ElementsAre(HasSubstr("column 1 is taken for row names")));
  EXPECT_THAT(read(",0,1\n0,5,1\n1,9,2\n"), ElementsAre(5, 1, 9, 2));
  EXPECT_THAT(read("0,1\n.5,1\n9,2\n"), ElementsAre(.5, 1, 9, 2));
  EXPECT_THAT(notes, ElementsAre(HasSubstr("taken for a header")));
  EXPECT_THAT(read("x,y\n.5,1\n"), ElementsAre(.5, 1));
  EXPECT_THAT(notes, ElementsAre());
  // Whole numbers below could be points as well as the line itself.
  EXPECT_THAT(read("0,1\n5,1\n"), ElementsAre(0, 1, 5, 1));
  EXPECT_THAT(notes, ElementsAre(HasSubstr("taken for a point (--header yes")));
  options.csv.header = CsvColumns::Header::yes;
  EXPECT_THAT(read("0,1\n5,1\n"), ElementsAre(5, 1));
  options.csv.header = CsvColumns::Header::no;
  EXPECT_THAT(read("0,1\n.5,1\n"), ElementsAre(0, 1, .5, 1));
  EXPECT_THAT(notes, ElementsAre());
  options.csv.header = CsvColumns::Header::automatic;
  // One column: 0 stays a point, with a note only where it looks like a header.
  EXPECT_THAT(read("0\n.5\n9\n"), ElementsAre(0, .5, 9));
  EXPECT_THAT(notes, ElementsAre(HasSubstr("line 1 reads 0, as pandas")));
  EXPECT_THAT(read("0\n0\n1\n"), ElementsAre(0, 0, 1));
  EXPECT_THAT(notes, ElementsAre());
  // R: write.csv, write.csv2's separator, write.table.
  EXPECT_THAT(read("\"\",\"x\",\"y\"\n\"1\",5.1,3\n\"b\",4,2\n"), ElementsAre(5.1, 3, 4, 2));
  EXPECT_THAT(read("\"\";\"x\"\n\"1\";5.1\n"), ElementsAre(5.1));
  EXPECT_THAT(read("\"x\" \"y\"\n\"1\" 5.1 3\n\"2\" 4 2\n", "a.txt"), ElementsAre(5.1, 3, 4, 2));
  EXPECT_THAT(read("\"1\",\"2.5\"\n\"3\",4\n"), ElementsAre(1, 2.5, 3, 4));
  EXPECT_THAT(notes, ElementsAre());
  EXPECT_THAT(read("\"1\",5.1,3\n\"2\",4,2\n"), ElementsAre(1, 5.1, 3, 2, 4, 2));
  EXPECT_THAT(notes, ElementsAre(HasSubstr("column 1 alone stands in quotes")));
  EXPECT_THAT(read("# one two three\n1 2 3 4 5\n", "a.txt"), ElementsAre(1, 2, 3, 4, 5));
  // Who says which columns are coordinates gets those.
  options.csv.kept = parse_columns("1-3");
  EXPECT_THAT(read(",x,y\n0,.5,1\n1,9,2\n"), ElementsAre(0, .5, 1, 1, 9, 2));
  EXPECT_THAT(notes, ElementsAre());
}

TEST_F(Readers, CsvColumnsThatAreNoCoordinates) {
  std::vector<std::string> notes;
  LoadOptions options;
  options.notes = &notes;
  EXPECT_THAT(values_of<double>(load("a.csv", "label,x\n7,1\n", options)), ElementsAre(7, 1));
  EXPECT_THAT(notes, ElementsAre(HasSubstr("column 1 is called 'label'")));
  EXPECT_THAT(values_of<double>(load("a.csv", "x,Species\n7,1\n", options)), ElementsAre(7, 1));
  EXPECT_THAT(notes.back(), HasSubstr("--drop-last 1 leaves it out"));
  EXPECT_THAT(refusal("a.csv", "a,1\nb,2\n"), HasSubstr("--drop-first 1"));
  EXPECT_THAT(refusal("a.csv", "1,a\n2,b\n"), HasSubstr("--drop-last 1"));
  options.csv.drop_first = 1;
  EXPECT_THAT(values_of<double>(load("a.csv", "a,1,2\nb,3,4\n", options)), ElementsAre(1, 2, 3, 4));
  options.csv.drop_last = 1;
  EXPECT_THAT(values_of<double>(load("a.csv", "a,1,2\nb,3,4\n", options)), ElementsAre(1, 3));
  options.csv = {};
  options.csv.kept = parse_columns("3,1");
  EXPECT_EQ(columns_text(options.csv), "3,1");
  EXPECT_THAT(values_of<double>(load("a.csv", "1,x,2\n3,y,4\n", options)), ElementsAre(2, 1, 4, 3));
  options.csv.kept = parse_columns("2-4");
  EXPECT_THAT(refusal("a.csv", "1,2,3\n", options), HasSubstr("column 4 was asked for"));
  options.csv.kept = parse_columns("1-2,2");
  EXPECT_THAT(refusal("a.csv", "1,2,3\n", options), HasSubstr("column 2 is asked for twice"));
  for (const char* wrong :
       {"", "0", "2-1", "a", "1-", "-1", "1,,2", "1.5", "99999999999999999999"}) {
    EXPECT_THAT(message_of([&] { parse_columns(wrong); }), HasSubstr("columns count from 1"))
        << wrong;
  }
}

// Float32 keeps 24 bits: whoever reads more learns of the first coordinate that loses some.
TEST_F(Readers, WhatFloat32RoundsIsSaid) {
  const auto said = [&](const std::string& name, const std::string& content) {
    std::string rounded;
    LoadOptions options;
    options.scalar = ScalarType::f32;
    options.rounded = &rounded;
    static_cast<void>(load(name, content, options));
    return rounded;
  };
  constexpr std::int32_t kOdd = (1 << 24) + 1;
  EXPECT_THAT(said("a.npy", npy("<i4", "(2, 1)", bytes_of<std::int32_t>({1, kOdd}))),
              Says({"a.npy", "int32", "float32", "point 1", "16777217", "column 0", "16777216",
                    "--precision f64"}));
  EXPECT_THAT(said("a.npy", npy("<u4", "(1, 2)", bytes_of<std::uint32_t>({1, kOdd}))),
              Says({"uint32", "float32", "point 0", "16777217", "column 1"}));
  EXPECT_THAT(said("a.npy", npy("<i8", "(1, 1)", bytes_of<std::int64_t>({-kOdd}))),
              HasSubstr("holds int64"));
  EXPECT_THAT(said("a.npy", npy("<f8", "(1, 1)", bytes_of<double>({0.1}))),
              HasSubstr("holds float64"));
  EXPECT_THAT(said("a.svm", "1 1:16777217\n"), Says({"point 0", "16777217", "column 0"}));
  EXPECT_THAT(said("a.csv", "1,2\n3,16777217\n"), Says({"point 1", "16777217", "column 1"}));
  EXPECT_EQ(said("a.npy", npy("<i4", "(2, 1)", bytes_of<std::int32_t>({1 << 24, -2048}))), "");
  EXPECT_EQ(said("a.npy", npy("<i2", "(1, 1)", bytes_of<std::int16_t>({32767}))), "");
  EXPECT_EQ(said("a.npy", npy("<f8", "(1, 1)", bytes_of<double>({0.5}))), "");
  EXPECT_EQ(said("a.csv", "0.1,2.5e-3\n"), "");
}

// Of a text, float64 is taken for all numbers; the integers of binary files that it cannot hold are refused.
TEST_F(Readers, IntegersOfATextThatFloat64RoundsAreSaid) {
  const auto said = [&](const std::string& name, const std::string& content,
                        ScalarType scalar = ScalarType::f64) {
    std::string rounded;
    LoadOptions options;
    options.scalar = scalar;
    options.rounded = &rounded;
    static_cast<void>(load(name, content, options));
    return rounded;
  };
  // 2^53 + 1, and what is nearest to it.
  EXPECT_THAT(said("a.csv", "1,2\n3,-9007199254740993\n"),
              Says({"a.csv", "float64", "2^53", "point 1", "-9007199254740993", "column 1",
                    "-9007199254740992"}));
  EXPECT_THAT(said("a.svm", "1 2:9007199254740993\n"),
              Says({"point 0", "9007199254740993", "column 1", "9007199254740992"}));
  EXPECT_THAT(said("a.csv", "9007199254740993\n", ScalarType::f32),
              Says({"float32", "point 0", "9007199254740993", "column 0"}));
  EXPECT_THAT(said("a.csv", "1\n+0018446744073709551617\n"), HasSubstr("18446744073709551616"));
  for (const char* held :
       {"9007199254740992", "9007199254740994", "-9223372036854775808",
        "1152921504606846976",  // 2^60
        "1152921504606847000",  // the same in the digits that distinguish it from its neighbours
        "100000000000000000000000", "9007199254740993.0", "9007199254740993e0", "0.1"}) {
    EXPECT_EQ(said("a.csv", std::string(held) + "\n"), "") << held;
    EXPECT_EQ(said("a.svm", "1 1:" + std::string(held) + "\n"), "") << held;
  }
}

TEST_F(Readers, CsvReadsOnlyTheFirstPoints) {
  LoadOptions options;
  options.max_points = 2;
  EXPECT_THAT(values_of<double>(load("a.csv", "x\n1\n2\nnot read\n", options)), ElementsAre(1, 2));
}

TEST_F(Readers, CsvRefusals) {
  EXPECT_THAT(refusal("a.csv", "1,2\n3\n4,5\n"), HasSubstr("line 2: has 1 columns, line 1 has 2"));
  EXPECT_THAT(refusal("a.csv", "1,2\n3,4,5\n"), HasSubstr("line 2: has 3 columns"));
  EXPECT_THAT(refusal("a.csv", "x,y\n1,2\n3,abc\n"),
              HasSubstr("line 3: column 2: 'abc' is not a number"));
  EXPECT_THAT(refusal("a.csv", "1,x\n3,4\n"), HasSubstr("line 1: column 2: 'x' is not a number"));
  EXPECT_THAT(refusal("a.csv", "1,\n"),
              HasSubstr("line 1: column 2: '' is not a number: the cell is empty"));
  EXPECT_THAT(refusal("a.csv", "1,2\n\n3,4\n"), HasSubstr("line 2: is empty"));
  EXPECT_THAT(refusal("a.csv", "1,5;2,5\n"), HasSubstr("with a decimal point, not a comma"));
  EXPECT_THAT(refusal("a.tsv", "1,5\t2,5\n"), HasSubstr("with a decimal point, not a comma"));
  EXPECT_THAT(refusal("a.csv", "1,2\n3,nan\n"),
              HasSubstr("line 2: column 2: 'nan' is not a finite"));
  EXPECT_THAT(refusal("a.csv", "1,2\n1e999,3\n"),
              HasSubstr("line 2: column 1: '1e999' is not a finite"));
  EXPECT_THAT(refusal("a.csv", "\n\n"), HasSubstr("has no points"));
  EXPECT_THAT(refusal("a.csv", "x,y\n"),
              HasSubstr("has no points: no cell of its only line is a number"));
  EXPECT_THAT(refusal("a.csv",
                      "\xFF\xFE"
                      "1\n"),
              HasSubstr("UTF-16"));
  EXPECT_THAT(refusal("a.csv", "1,0x1A\n"), HasSubstr("'0x1A' is not a number"));
  EXPECT_THAT(refusal("a.csv", "1,2\n\"3\"x,4\n"), HasSubstr("quotes surround a whole cell"));
  EXPECT_THAT(refusal("a.csv", "1,2\n\"3,4\n"), HasSubstr("column 1: '\"3' is not a number"));
  EXPECT_THAT(refusal("a.csv", "1,2\r3,4\r"), HasSubstr("lines end in CR alone"));
  EXPECT_THAT(refusal("a.csv", "x,y\r1,2\r3,4\r\n"), HasSubstr("lines end in CR alone"));
  EXPECT_THAT(refusal("a.svm", "1 1:2\r-1 1:3\r"), HasSubstr("lines end in CR alone"));
  EXPECT_THAT(refusal("a.csv", "x,y\n1,2\n3,4,5\n"),
              HasSubstr("line 3: has 3 columns, line 2 has 2"));
  EXPECT_THAT(refusal("a.csv", "1,2\n\x1b[31m\xff,3\n"),
              HasSubstr("line 2: column 1: '?[31m?' is not a number"));
  LoadOptions options;
  options.scalar = ScalarType::f32;
  EXPECT_THAT(refusal("a.csv", "1,2\n1e300,3\n", options),
              HasSubstr("line 2: column 1: '1e300' is outside the range of float32"));
  // More columns than the rest of the file can hold: nothing of that size is allocated.
  EXPECT_THAT(
      refusal("a.csv", "1" + std::string(200'000, ',') + "\n" + std::string(200'000, '\n') + "1"),
      HasSubstr("line 1: column 2: '' is not a number"));
}

TEST_F(Readers, CsvIsParsedInParallelWithRightLineNumbers) {
  std::string text;
  for (int i = 0; i < 400'000; ++i) text += std::to_string(i) + ",0.5\n";
  const Points points = load("a.csv", text);
  ASSERT_EQ(points.n(), 400'000);
  EXPECT_EQ(points.data<double>()[799'998], 399'999);
  text += "oops,1\n" + text;
  EXPECT_THAT(refusal("a.csv", text), HasSubstr("line 400001: column 1: 'oops'"));
}

TEST_F(Readers, LocaleDoesNotMatter) {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  // Where no such locale is installed the test still checks the plain case.
  for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "C"}) {
    if (std::setlocale(LC_ALL, name) != nullptr) break;
  }
  EXPECT_THAT(values_of<double>(load("a.csv", "1.5,2.5\n")), ElementsAre(1.5, 2.5));
  EXPECT_THAT(values_of<double>(load("a.svm", "1 1:1.5 2:2.5\n")), ElementsAre(1.5, 2.5));
  std::setlocale(LC_ALL, before.c_str());
}

// ---- fvecs, bvecs, fbin, IDX ----

std::string fvecs_record(const std::vector<float>& values) {
  return bytes_of<std::int32_t>({static_cast<std::int32_t>(values.size())}) + bytes_of(values);
}

TEST_F(Readers, Vecs) {
  const Points points = load("a.fvecs", fvecs_record({1, 2, 3}) + fvecs_record({4, 5, 6}));
  EXPECT_EQ(points.n(), 2);
  EXPECT_THAT(values_of<float>(points), ElementsAre(1, 2, 3, 4, 5, 6));
  const std::string three = bytes_of<std::int32_t>({3});
  EXPECT_THAT(values_of<float>(load("a.bvecs", three + "\x01\x02\xFF" + three + "\x04\x05\x06")),
              ElementsAre(1, 2, 255, 4, 5, 6));
}

TEST_F(Readers, VecsRefusals) {
  const auto good = fvecs_record({1, 2, 3});
  EXPECT_THAT(refusal("a.fvecs", good + bytes_of<std::int32_t>({2}) + bytes_of<float>({1, 2, 3})),
              HasSubstr("byte 16: record 1 gives d = 2, the records before it d = 3"));
  EXPECT_THAT(refusal("a.fvecs", good + good.substr(1)),
              AllOf(HasSubstr("16 bytes each"), HasSubstr("after 1 of them (16 bytes) 15 bytes")));
  EXPECT_THAT(refusal("a.fvecs", bytes_of<std::int32_t>({0, 0})),
              HasSubstr("record 0 gives d = 0"));
  EXPECT_THAT(refusal("a.fvecs", bytes_of<std::int32_t>({-1, 0})), HasSubstr("gives d = -1"));
  EXPECT_THAT(refusal("a.fvecs", bytes_of<std::int32_t>({0x7FFFFFFF, 0})),
              HasSubstr("needs 8589934592 bytes, the file has 8"));
  EXPECT_THAT(refusal("a.fvecs", "abc"), HasSubstr("cut short"));
}

TEST_F(Readers, Bin) {
  EXPECT_THAT(values_of<float>(load("a.fbin", bytes_of<std::uint32_t>({2, 3}) + kSix)),
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(values_of<float>(load("a.fbin", bytes_of<std::uint64_t>({2, 3}) + kSix)),
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(values_of<float>(load("a.u8bin", bytes_of<std::uint32_t>({1, 2}) + "\x01\xFF")),
              ElementsAre(1, 255));
  EXPECT_THAT(values_of<float>(load("a.i8bin", bytes_of<std::uint32_t>({1, 2}) + "\x01\xFF")),
              ElementsAre(1, -1));
}

TEST_F(Readers, BinRefusals) {
  const auto header = bytes_of<std::uint32_t>({2, 3});
  EXPECT_THAT(refusal("a.fbin", header + kSix.substr(1)),
              Says({"two uint32 2 x 3", "32 bytes", "two uint64", "31"}));
  EXPECT_THAT(refusal("a.fbin", bytes_of<std::uint64_t>({2, 3}) + kSix + "x"),
              Says({"two uint32 2 x 0", "two uint64 2 x 3", "40 bytes", "41"}));
  EXPECT_THAT(refusal("a.fbin", bytes_of<std::uint64_t>({(1ULL << 32) + 3, 1}) + kSix),
              Says({"two uint64 4294967299 x 1", "17179869212 bytes"}));
  EXPECT_THAT(refusal("a.fbin", bytes_of<std::uint32_t>({0, 3})),
              Says({"two uint32 0 x 3", "no points", "8"}));
  EXPECT_THAT(refusal("a.fbin", bytes_of<std::uint32_t>({0xFFFFFFFF, 0xFFFFFFFF}) + kSix),
              HasSubstr("which need more bytes than a file can have"));
  EXPECT_THAT(refusal("a.fbin", "abc"), HasSubstr("cut short"));
}

TEST_F(Readers, Idx) {
  const std::string pictures = std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x02", 16) +
                               std::string("\x01\x02\x03\x04\x05\x06\x07\xFF", 8);
  const Points points = load("train-images-idx3-ubyte", pictures);
  EXPECT_EQ(points.n(), 2);
  EXPECT_EQ(points.d(), 4);
  EXPECT_THAT(values_of<float>(points), ElementsAre(1, 2, 3, 4, 5, 6, 7, 255));
  EXPECT_THAT(values_of<double>(load("a.idx", std::string("\0\0\x0E\x01\0\0\0\x01", 8) +
                                                  reversed_elements(bytes_of<double>({0.1}), 8))),
              ElementsAre(0.1));
  EXPECT_THAT(values_of<float>(load("a.idx", std::string("\0\0\x0B\x01\0\0\0\x01\xFF\xFE", 10))),
              ElementsAre(-2));
}

TEST_F(Readers, IdxRefusals) {
  EXPECT_THAT(refusal("a.idx", std::string("\0\x01\x08\x01\0\0\0\x01x", 9)),
              HasSubstr("is not an IDX file"));
  EXPECT_THAT(refusal("a.idx", std::string("\0\0\x07\x01\0\0\0\x01x", 9)), HasSubstr("IDX type 7"));
  EXPECT_THAT(refusal("a.idx", std::string("\0\0\x08\xFF", 4)),
              HasSubstr("255 axes needs 1024 bytes"));
  EXPECT_THAT(refusal("a.idx", std::string("\0\0\x08\x01\0\0\0\x02x", 9)),
              HasSubstr("need 10 bytes, the file has 9"));
  EXPECT_THAT(refusal("a.idx", std::string("\0\0\x08\x02\0\0\0\x02\0\0\0\0", 12)),
              HasSubstr("has no points"));
  EXPECT_THAT(refusal("a.idx", std::string("\0\0\x0D\x03", 4) + std::string(12, '\xFF')),
              HasSubstr("more than 2^62 bytes"));
}

// ---- LIBSVM ----

TEST_F(Readers, Libsvm) {
  const Points points = load("a.svm", "+1 1:0.5 3:-2\n-1 2:1e3 # note\n0\n");
  EXPECT_EQ(points.n(), 3);
  EXPECT_EQ(points.d(), 3);
  EXPECT_THAT(values_of<double>(points), ElementsAre(0.5, 0, -2, 0, 1000, 0, 0, 0, 0));
}

TEST_F(Readers, LibsvmRefusals) {
  EXPECT_THAT(refusal("a.svm", "1 1:1\n1 0:1\n"),
              HasSubstr("line 2: '0:1': index 0; indices count from 1"));
  EXPECT_THAT(refusal("a.svm", "1 2:1 1:1\n"), HasSubstr("line 1: '1:1': index 1 follows 2"));
  EXPECT_THAT(refusal("a.svm", "1 2:1 2:1\n"), HasSubstr("indices must ascend"));
  EXPECT_THAT(refusal("a.svm", "1 -1:1\n"), HasSubstr("line 1: '-1:1'"));
  EXPECT_THAT(refusal("a.svm", "1 a:1\n"), HasSubstr("'a:1' is not an index:value pair"));
  EXPECT_THAT(refusal("a.svm", "1 1:x\n"), HasSubstr("the value is not a number"));
  EXPECT_THAT(refusal("a.svm", "one 1:1\n"), HasSubstr("'one' is not a label"));
  EXPECT_THAT(refusal("a.svm", "1 1:1\n\n1 1:1\n"), HasSubstr("line 2: is empty"));
  EXPECT_THAT(refusal("a.svm", "1 1:nan\n"), HasSubstr("is not a finite number"));
  EXPECT_THAT(refusal("a.svm", "1 2000000000:1\n"), HasSubstr("too sparse"));
  EXPECT_THAT(refusal("a.svm", "1\n2\n"), HasSubstr("no index:value pair"));
}

// ---- files ----

TEST_F(Readers, FormatIsFoundByContent) {
  EXPECT_EQ(load("points.dat", npy("<f4", "(2, 3)", kSix)).d(), 3);
  EXPECT_EQ(load("points.dat", "1 2\n").d(), 2);
  EXPECT_EQ(load("points.dat", "1 1:2 2:3\n").d(), 2);
  EXPECT_EQ(load("points.dat", std::string("\0\0\x08\x01\0\0\0\x01x", 9)).n(), 1);
  EXPECT_THAT(refusal("points.dat", "\x01\x02\x03\x04"),
              AllOf(HasSubstr("neither by the name nor by the first bytes"), HasSubstr(".fvecs")));
  EXPECT_THAT(refusal("points.csv.gz", "\x1F\x8B"), HasSubstr("unpack it first"));
  EXPECT_THAT(refusal("points.h5", "\x89HDF"), HasSubstr("numpy.save"));
  LoadOptions options;
  options.format = FileFormat::fvecs;
  EXPECT_EQ(load("points.dat", fvecs_record({1, 2}), options).d(), 2);
}

TEST_F(Readers, OnlyRegularFiles) {
  EXPECT_THAT(message_of([&] { load_points(folder_ / "missing.npy"); }),
              HasSubstr("missing.npy: cannot be opened: No such file"));
  EXPECT_THAT(message_of([&] { load_points(folder_.path()); }), HasSubstr("is a directory"));
  ASSERT_EQ(mkfifo((folder_ / "pipe.npy").c_str(), 0600), 0);
  EXPECT_THAT(message_of([&] { load_points(folder_ / "pipe.npy"); }), HasSubstr("is a pipe"));
  EXPECT_THAT(message_of([&] { load_points("/dev/zero"); }), HasSubstr("is a device"));
  EXPECT_THAT(refusal("a.npy", ""), HasSubstr("is empty"));
  folder_.write("real.csv", "1,2\n");
  std::filesystem::create_symlink(folder_ / "real.csv", folder_ / "link.csv");
  EXPECT_EQ(load_points(folder_ / "link.csv").d(), 2);
}

TEST_F(Readers, EveryPrefixOfAGoodFileIsReadOrRefused) {
  const std::vector<std::pair<std::string, std::string>> files{
      {"a.npy", npy("<f4", "(2, 3)", kSix)},
      {"a.fvecs", fvecs_record({1, 2, 3}) + fvecs_record({4, 5, 6})},
      {"a.fbin", bytes_of<std::uint32_t>({2, 3}) + kSix},
      {"a.idx", std::string("\0\0\x08\x02\0\0\0\x02\0\0\0\x02\x01\x02\x03\x04", 16)}};
  for (const auto& [name, content] : files) {
    int read = 0;
    for (std::size_t size = 0; size < content.size(); ++size) {
      const auto file = folder_.write(name, content.substr(0, size));
      try {
        load_points(file);
        ++read;
      } catch (const InputError&) {
      }
    }
    // The only whole file among the prefixes is the first fvecs record.
    EXPECT_EQ(read, name == "a.fvecs" ? 1 : 0) << name;
  }
}

}  // namespace
}  // namespace kmeans
