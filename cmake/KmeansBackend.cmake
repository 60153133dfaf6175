# SPDX-License-Identifier: Apache-2.0
# A backend is a folder under implementations/ that shares one dependency.
#
#   kmeans_backend(<folder> [LANGUAGE CXX|CUDA] [REQUIRES <imported target>...]
#                  [MISSING <why it is left out when a required target does not exist>]
#                  [ALONE <CUDA source that is never compiled with others>...])
#
# The library alone (KMEANS_LIBRARY_ONLY) has of a backend's sources those that are never compiled with
# others, for any processor.
#
# Every source file in the folder is one variant (files beginning with '_' are shared code). They
# are found by a glob, so a new variant needs no edit here, and go into an OBJECT library: the
# registering initialisers of a static library could be dropped by the linker. A variant may ask for
# its own options with a line "// Flags: ..." in its banner; with "// Architectures: ..." a CUDA variant
# is compiled for these alone, whatever GPUs the others are compiled for; quickly (KmeansCuda.cmake), for
# the first of them, with PTX for newer ones.

set_property(GLOBAL PROPERTY KMEANS_BACKENDS "")
set_property(GLOBAL PROPERTY KMEANS_MISSING "")
set_property(GLOBAL PROPERTY KMEANS_MISSING_SUMMARY "")

# Makes files that include several CUDA sources each, and puts them in place of those in the list: of a
# plain variant, nvcc spends two thirds of its time on headers, and CMake 3.25 has no unity build for CUDA.
# All headers come first, so that what a source includes is nothing new; its names are in a namespace of
# its own, since others have the same.
function(kmeans_compile_together folder list)
  set(at_once ${KMEANS_SOURCES_AT_ONCE})
  if(at_once GREATER 7)  # so that two processors have something to do
    set(at_once 7)
  endif()
  set(files "")
  while(${list})
    list(SUBLIST ${list} 0 ${at_once} part)
    list(REMOVE_ITEM ${list} ${part})
    set(headers "")
    set(bodies "")
    foreach(source IN LISTS part)
      file(STRINGS ${source} includes REGEX "^#include ")
      list(APPEND headers ${includes})
      get_filename_component(stem ${source} NAME_WE)
      string(APPEND bodies "namespace of_${stem} {\n#include \"${source}\"\n}\n")
    endforeach()
    list(REMOVE_DUPLICATES headers)
    list(JOIN headers "\n" headers)
    list(LENGTH files number)
    list(APPEND files ${PROJECT_BINARY_DIR}/generated/${folder}_${number}.cu)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/${folder}_${number}.cu
         CONTENT "${headers}\n${bodies}")
  endwhile()
  set(${list} ${files} PARENT_SCOPE)
endfunction()

# Those of the sources whose first lines have a word of this kind ("// Flags: ...").
function(kmeans_sources_that_say word list)
  set(found "")
  foreach(source IN LISTS ARGN)
    file(STRINGS ${source} line LIMIT_COUNT 1 REGEX "^// ${word}: ")
    if(line)
      list(APPEND found ${source})
    endif()
  endforeach()
  set(${list} ${found} PARENT_SCOPE)
endfunction()

function(kmeans_backend name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LANGUAGE;MISSING" "REQUIRES;ALONE")
  if(NOT arg_LANGUAGE)
    set(arg_LANGUAGE CXX)
  endif()
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/${name})
  if(arg_LANGUAGE STREQUAL "CUDA")
    file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cu ${folder}/*.cpp)
  else()
    file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  endif()
  if(NOT sources OR (KMEANS_LIBRARY_ONLY AND NOT arg_ALONE))
    return()
  endif()

  set(missing "")
  foreach(target IN LISTS arg_REQUIRES)
    if(NOT TARGET ${target})
      set(missing "${arg_MISSING}")
    endif()
  endforeach()
  if(missing)
    set(names "")
    foreach(source IN LISTS sources)
      get_filename_component(stem ${source} NAME_WE)
      if(NOT stem MATCHES "^_")
        string(APPEND names "\"${stem}\", ")
      endif()
    endforeach()
    set_property(GLOBAL APPEND_STRING PROPERTY KMEANS_MISSING
                 "      {\"${name}\", \"${missing}\", {${names}}},\n")
    set_property(GLOBAL APPEND PROPERTY KMEANS_MISSING_SUMMARY "${name}, since ${missing}")
    return()
  endif()

  kmeans_sources_that_say("Architectures" of_own_architectures ${sources})
  if(of_own_architectures)
    list(REMOVE_ITEM sources ${of_own_architectures})
  endif()
  set(together ${sources})
  list(FILTER together INCLUDE REGEX "\\.cu$")
  list(TRANSFORM arg_ALONE PREPEND ${folder}/)
  list(REMOVE_ITEM together ${arg_ALONE})
  kmeans_sources_that_say("Flags" of_own_flags ${together})
  list(REMOVE_ITEM together ${of_own_flags})
  set(alone ${sources})
  list(REMOVE_ITEM alone ${together})
  set(march_flags ${kmeans_march_flags})
  if(KMEANS_LIBRARY_ONLY)
    list(REMOVE_ITEM alone ${of_own_flags})
    set(together "")
    set(march_flags "")
  endif()
  kmeans_compile_together(${name} together)
  add_library(kmeans_variants_${name} OBJECT ${alone} ${together})
  target_link_libraries(kmeans_variants_${name} PRIVATE kmeans_options ${arg_REQUIRES})
  target_compile_options(kmeans_variants_${name} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:${march_flags}>)
  set_property(GLOBAL APPEND PROPERTY KMEANS_VARIANT_LIBRARIES kmeans_variants_${name})
  foreach(source IN LISTS of_own_architectures)
    get_filename_component(stem ${source} NAME_WE)
    file(STRINGS ${source} architectures LIMIT_COUNT 1 REGEX "^// Architectures: ")
    string(REGEX REPLACE "^// Architectures: *" "" architectures "${architectures}")
    separate_arguments(architectures)
    list(LENGTH architectures count)
    if(count GREATER 1 AND kmeans_cuda_quick)
      list(GET architectures 0 architectures)
      string(REGEX REPLACE "-.*" "" architectures ${architectures})
    endif()
    add_library(kmeans_variants_${stem} OBJECT ${source})
    set_target_properties(kmeans_variants_${stem} PROPERTIES CUDA_ARCHITECTURES "${architectures}")
    if(architectures MATCHES "^[0-9]+a")
      set_target_properties(kmeans_variants_${stem} PROPERTIES KMEANS_OPTIMISED ON)
    endif()
    target_link_libraries(kmeans_variants_${stem} PRIVATE kmeans_options ${arg_REQUIRES})
    set_property(GLOBAL APPEND PROPERTY KMEANS_VARIANT_LIBRARIES kmeans_variants_${stem})
  endforeach()
  foreach(source IN LISTS sources of_own_architectures)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(STRINGS ${source} flags LIMIT_COUNT 1 REGEX "^// Flags: ")
    if(flags)
      string(REGEX REPLACE "^// Flags: *" "" flags "${flags}")
      separate_arguments(flags UNIX_COMMAND "${flags}")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${flags}")
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY KMEANS_BACKENDS ${name})
endfunction()

# Links every backend's variants, and the studies, into a program.
function(kmeans_link_variants target)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:kmeans_studies>
                                   $<TARGET_OBJECTS:kmeans_computing_studies>)
  get_property(libraries GLOBAL PROPERTY KMEANS_VARIANT_LIBRARIES)
  foreach(library IN LISTS libraries)
    target_link_libraries(${target} PRIVATE ${library})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${library}>)
  endforeach()
endfunction()

# missing_backends() is generated: see harness/variants/registry.h.
function(kmeans_write_missing_backends output)
  get_property(rows GLOBAL PROPERTY KMEANS_MISSING)
  file(CONFIGURE OUTPUT ${output} CONTENT
"// Generated by cmake/KmeansBackend.cmake.
#include \"harness/variants/registry.h\"

namespace kmeans {
const std::vector<MissingBackend>& missing_backends() {
  static const std::vector<MissingBackend> missing{
${rows}  };
  return missing;
}
}  // namespace kmeans
")
endfunction()

function(kmeans_print_summary)
  get_property(backends GLOBAL PROPERTY KMEANS_BACKENDS)
  get_property(missing GLOBAL PROPERTY KMEANS_MISSING_SUMMARY)
  message(STATUS "kmeans-bench ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE}, -march=${KMEANS_MARCH}")
  message(STATUS "  backends: ${backends}")
  set(lines "")
  foreach(row IN LISTS missing)
    message(STATUS "  left out: ${row}")
    string(APPEND lines "left out: ${row}\n")
  endforeach()
  if(kmeans_cuda_note)
    message(STATUS "  ${kmeans_cuda_note}")
    string(APPEND lines "${kmeans_cuda_note}\n")
  endif()
  # tools/build.sh says it again at the end, where it is seen.
  file(WRITE ${PROJECT_BINARY_DIR}/left-out.txt "${lines}")
endfunction()
