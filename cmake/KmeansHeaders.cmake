# SPDX-License-Identifier: Apache-2.0
# Every header of the host compiles on its own. Where a source file of its name includes it first,
# clang-tidy compiles it so, since it knows no precompiled header (tools/tidy.py;
# tests/python/test_rooms.py holds source files to that). For each of the others there is a source file
# that includes it and nothing else, in OBJECT libraries that nobody links. Headers of CUDA (.cuh) are
# left out.

# Does the header, or one that it includes, include the JSON library?
function(kmeans_includes_json header result)
  get_property(known GLOBAL PROPERTY kmeans_includes_json_${header})
  if("${known}" STREQUAL "")
    set(known no)
    file(STRINGS ${PROJECT_SOURCE_DIR}/${header} includes REGEX "^#include ")
    foreach(line IN LISTS includes)
      if("${line}" MATCHES "<nlohmann/")
        set(known yes)
      elseif(NOT known AND line MATCHES "\"(.+)\"" AND EXISTS ${PROJECT_SOURCE_DIR}/${CMAKE_MATCH_1})
        kmeans_includes_json(${CMAKE_MATCH_1} known)
      endif()
    endforeach()
    set_property(GLOBAL PROPERTY kmeans_includes_json_${header} ${known})
  endif()
  set(${result} ${known} PARENT_SCOPE)
endfunction()

function(kmeans_test_headers)
  file(GLOB headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
       ${PROJECT_SOURCE_DIR}/datasets/*.h
       ${PROJECT_SOURCE_DIR}/harness/*.h ${PROJECT_SOURCE_DIR}/harness/*/*.h
       ${PROJECT_SOURCE_DIR}/implementations/*.h ${PROJECT_SOURCE_DIR}/implementations/*/*.h
       ${PROJECT_SOURCE_DIR}/experiments/studies/*.h)
  # Included several times, inside namespaces: no header of its own.
  list(REMOVE_ITEM headers implementations/cpu/_simd_kernel.h
       implementations/openmp/_int8_kernel.h implementations/openmp/_int8_survivors.h
       implementations/openmp/_int8_tiles.h)
  get_property(backends GLOBAL PROPERTY KMEANS_BACKENDS)
  # Precompiled, the JSON library adds nothing to a header that includes it, itself or through another;
  # headers that do not are compiled without, since it would hide what they forgot.
  foreach(library kmeans_headers kmeans_headers_json)
    add_library(${library} OBJECT)
    target_link_libraries(${library} PRIVATE kmeans_options kmeans_harness)
  endforeach()
  target_compile_options(kmeans_headers_json PRIVATE -ffp-contract=off)  # as what it shares
  kmeans_optimise_only(kmeans_headers_json)
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
    set(library kmeans_headers)
    kmeans_includes_json(${header} includes_json)
    if(includes_json)
      set(library kmeans_headers_json)
    endif()
    set(source ${PROJECT_BINARY_DIR}/generated/headers/${header}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n")
    target_sources(${library} PRIVATE ${source})
  endforeach()
endfunction()
