// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace kmeans {

/// The whole program: reads the words of the command line, does what they ask for, and gives the exit code.
int run_program(int argc, char** argv);

}  // namespace kmeans
