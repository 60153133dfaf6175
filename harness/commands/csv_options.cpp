// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/csv_options.h"

#include <cstdio>

#include "harness/support/errors.h"
#include "harness/support/option_checks.h"
#include "harness/support/text.h"

namespace kmeans {

void add_csv_options(CLI::App& command, CsvColumns& csv) {
  auto* first =
      command
          .add_option("--drop-first", csv.drop_first,
                      "Columns of a csv to leave out at the beginning (row names, a label)")
          ->transform(whole_number(0));
  auto* last = command
                   .add_option("--drop-last,--drop-last-columns", csv.drop_last,
                               "Columns of a csv to leave out at the end (1 for a label column)")
                   ->transform(whole_number(0));
  command
      .add_option_function<std::string>(
          "--columns", [&csv](const std::string& text) { csv.kept = parse_columns(text); },
          "Columns of a csv to read, counted from 1: 2-5,7")
      ->type_name("LIST")
      ->excludes(first)
      ->excludes(last);
  command
      .add_option_function<std::string>(
          "--header",
          [&csv](const std::string& text) {
            csv.header = text == "yes" ? CsvColumns::Header::yes : CsvColumns::Header::no;
          },
          "yes or no: the first line of a csv is a header, or a point; default: by what it holds")
      ->check(CLI::IsMember({"yes", "no"}));
}

std::string csv_arguments(const CsvColumns& csv) {
  std::string text;
  if (csv.drop_first > 0) text += " --drop-first " + std::to_string(csv.drop_first);
  if (csv.drop_last > 0) text += " --drop-last " + std::to_string(csv.drop_last);
  if (!csv.kept.empty()) text += " --columns " + columns_text(csv);
  if (csv.header != CsvColumns::Header::automatic) {
    text += csv.header == CsvColumns::Header::yes ? " --header yes" : " --header no";
  }
  return text;
}

void print_notes(const std::vector<std::string>& notes, const std::string& rounded) {
  for (const auto& note : notes) {
    std::fprintf(stderr, "kmeans-bench: note: %s\n", printable(note).c_str());
  }
  if (!rounded.empty())
    std::fprintf(stderr, "kmeans-bench: note: %s\n", printable(rounded).c_str());
}

}  // namespace kmeans
