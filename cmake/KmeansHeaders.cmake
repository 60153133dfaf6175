# SPDX-License-Identifier: Apache-2.0
# Every header of the host compiles on its own: for each one a source file that includes it, and
# nothing else. They are compiled into OBJECT libraries that nobody links. Headers of CUDA (.cuh) are
# left out.

# Two libraries take most of the time to parse. Precompiled they add nothing to a header that includes
# them, itself or through another; headers that do not are compiled without, since a precompiled header
# would hide what they forgot.
set(kmeans_slow_headers nlohmann/json.hpp CLI/CLI.hpp)

# Does the header, or one that it includes, include <slow>?
function(kmeans_includes header slow result)
  set(property kmeans_includes_${slow}_${header})
  get_property(known GLOBAL PROPERTY ${property})
  if("${known}" STREQUAL "")
    set(known no)
    file(STRINGS ${PROJECT_SOURCE_DIR}/${header} includes REGEX "^#include ")
    foreach(line IN LISTS includes)
      if("${line}" STREQUAL "#include <${slow}>")
        set(known yes)
      elseif(NOT known AND line MATCHES "\"(.+)\"")
        set(included ${CMAKE_MATCH_1})
        if(EXISTS ${PROJECT_SOURCE_DIR}/${included})
          kmeans_includes(${included} ${slow} known)
        endif()
      endif()
    endforeach()
    set_property(GLOBAL PROPERTY ${property} ${known})
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
  set(libraries "")
  foreach(header IN LISTS headers)
    # Those of a backend that is left out need what is missing here.
    if(header MATCHES "^implementations/([^/]+)/")
      set(backend ${CMAKE_MATCH_1})
      if(NOT backend IN_LIST backends)
        continue()
      endif()
    endif()
    set(library kmeans_headers)
    set(precompiled "")
    foreach(slow IN LISTS kmeans_slow_headers)
      kmeans_includes(${header} ${slow} includes_it)
      if(includes_it)
        get_filename_component(stem ${slow} NAME_WE)
        string(APPEND library _${stem})
        list(APPEND precompiled <${slow}>)
      endif()
    endforeach()
    if(NOT TARGET ${library})
      add_library(${library} OBJECT)
      target_compile_options(${library} PRIVATE -O0)  # nothing runs
      target_link_libraries(${library} PRIVATE kmeans_options kmeans_harness CLI11::CLI11)
      foreach(target OpenMP::OpenMP_CXX OpenBLAS::OpenBLAS)
        if(TARGET ${target})
          target_link_libraries(${library} PRIVATE ${target})
        endif()
      endforeach()
      if(precompiled)
        target_precompile_headers(${library} PRIVATE ${precompiled})
      endif()
    endif()
    set(source ${PROJECT_BINARY_DIR}/generated/headers/${header}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n")
    target_sources(${library} PRIVATE ${source})
  endforeach()
endfunction()
