# SPDX-License-Identifier: Apache-2.0
# What a result file says about the build: harness/support/build_info.h is implemented by a generated file.

string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type_upper)
string(STRIP "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type_upper}}" kmeans_cxx_flags)
string(JOIN " " kmeans_variant_flags ${kmeans_cxx_flags} -std=c++20 ${kmeans_march_flags})

# The commit is looked up at every build, since configuring happens rarely; the file is only
# rewritten when it changes, so that an unchanged tree rebuilds nothing.
add_custom_target(kmeans_git_info
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR}
          -DOUTPUT=${PROJECT_BINARY_DIR}/generated/git_info.inc
          -P ${PROJECT_SOURCE_DIR}/cmake/GitInfo.cmake
  BYPRODUCTS ${PROJECT_BINARY_DIR}/generated/git_info.inc
  COMMENT "")
configure_file(${PROJECT_SOURCE_DIR}/cmake/build_info.cpp.in
               ${PROJECT_BINARY_DIR}/generated/build_info.cpp @ONLY)
