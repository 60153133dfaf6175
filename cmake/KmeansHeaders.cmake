# SPDX-License-Identifier: Apache-2.0
# Every header of the host compiles on its own. Where a source file of its name includes it first
# (tests/python/test_rooms.py holds source files to that), it does so where sources are compiled one at a
# time: in the presets dev and tsan, and in clang-tidy, which knows no precompiled header (tools/tidy.py),
# with one of them. Of sources that are compiled together only the first one shows it. For each of the other
# headers there is a source file that includes it and nothing else, in an OBJECT library that nobody links.
# Headers of CUDA (.cuh) are left out.

function(kmeans_test_headers)
  file(GLOB headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
       ${PROJECT_SOURCE_DIR}/datasets/*.h
       ${PROJECT_SOURCE_DIR}/harness/*.h ${PROJECT_SOURCE_DIR}/harness/*/*.h
       ${PROJECT_SOURCE_DIR}/implementations/*.h ${PROJECT_SOURCE_DIR}/implementations/*/*.h
       ${PROJECT_SOURCE_DIR}/experiments/studies/*.h)
  # Included several times, inside namespaces: not a header of its own.
  list(REMOVE_ITEM headers implementations/cpu/_simd_kernel.h
       implementations/openmp/_int8_kernel.h implementations/openmp/_int8_survivors.h
       implementations/openmp/_int8_tiles.h)
  get_property(backends GLOBAL PROPERTY KMEANS_BACKENDS)
  add_library(kmeans_headers OBJECT)
  target_link_libraries(kmeans_headers PRIVATE kmeans_options kmeans_harness)
  target_compile_options(kmeans_headers PRIVATE -O0)  # nothing runs
  foreach(target OpenMP::OpenMP_CXX OpenBLAS::OpenBLAS)
    if(TARGET ${target})
      target_link_libraries(kmeans_headers PRIVATE ${target})
    endif()
  endforeach()
  foreach(header IN LISTS headers)
    # Those of a backend that is left out need what is missing here.
    if(header MATCHES "^implementations/([^/]+)/" AND NOT CMAKE_MATCH_1 IN_LIST backends)
      continue()
    endif()
    string(REGEX REPLACE "h$" "cpp" source ${header})
    if(EXISTS ${PROJECT_SOURCE_DIR}/${source})
      continue()
    endif()
    set(source ${PROJECT_BINARY_DIR}/generated/headers/${header}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n")
    target_sources(kmeans_headers PRIVATE ${source})
  endforeach()
endfunction()
