// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/program.h"

int main(int argc, char** argv) { return kmeans::run_program(argc, argv); }
