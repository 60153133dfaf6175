# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT with the commit of SOURCE_DIR, and whether the tree differs from it. The build compiles
# what lies in its folders (KmeansBackend.cmake), and the program loads what lies there, so a file that
# the commit does not know makes the tree another one just as a changed file does. Files that git
# ignores do not count. A copy of the tree without its .git, or next to that of another commit, may
# carry a file .source-manifest (tools/source_manifest.sh): the commit, then a SHA-256 sum and path of
# every tracked file. The sums are checked here, and the folders are searched for files that it does
# not name, so that a copy that was changed since does not pass for the commit.
cmake_policy(VERSION 3.25)

# Where an unknown file is compiled or loaded; tools/source_manifest.sh has the same list.
set(source_folders cmake datasets experiments harness implementations)
set(commit "unknown")
set(dirty "true")
set(differs "")

# A copy within a repository of something else is not of that repository's commit.
execute_process(COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C
                        git -C ${SOURCE_DIR} ls-files --error-unmatch -- CMakeLists.txt
                OUTPUT_QUIET ERROR_VARIABLE refusal RESULT_VARIABLE status)
if(status EQUAL 0)
  execute_process(COMMAND git -C ${SOURCE_DIR} rev-parse HEAD
                  OUTPUT_VARIABLE head RESULT_VARIABLE status ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(status EQUAL 0)
  set(commit "${head}")
  # Result files that a run has just written do not make its build dirty.
  execute_process(COMMAND git -C ${SOURCE_DIR} status --porcelain --untracked-files=no -- .
                          ":(exclude)results"
                  OUTPUT_VARIABLE changed RESULT_VARIABLE changed_status ERROR_QUIET)
  execute_process(COMMAND git -C ${SOURCE_DIR} status --porcelain --untracked-files=all --
                          ${source_folders}
                  OUTPUT_VARIABLE added RESULT_VARIABLE added_status ERROR_QUIET)
  set(differs "${changed}${added}")
  if(NOT changed_status EQUAL 0 OR NOT added_status EQUAL 0)
    set(differs "git cannot say which files")
  endif()
  if(differs STREQUAL "")
    set(dirty "false")
  endif()
  string(REGEX REPLACE "\n.*" "" differs "${differs}")
  string(STRIP "${differs}" differs)
endif()

# Sets `variable` to a file that is not as .source-manifest says or that it does not name, or to "".
function(find_difference_from_manifest lines variable)
  set(names "")
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^([0-9a-f]+)  (.+)$")
      set(${variable} ".source-manifest" PARENT_SCOPE)
      return()
    endif()
    set(expected "${CMAKE_MATCH_1}")
    set(file "${CMAKE_MATCH_2}")
    list(APPEND names "${file}")
    set(found "")
    if(EXISTS "${SOURCE_DIR}/${file}")
      file(SHA256 "${SOURCE_DIR}/${file}" found)
    endif()
    if(NOT found STREQUAL expected)
      set(${variable} "${file}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${variable} "" PARENT_SCOPE)
  foreach(folder IN LISTS source_folders)
    file(GLOB_RECURSE present RELATIVE ${SOURCE_DIR} ${SOURCE_DIR}/${folder}/*)
    foreach(file IN LISTS present)
      # Of what .gitignore names, only this is ever made within these folders.
      if(NOT file IN_LIST names AND NOT file MATCHES "(/__pycache__/|\\.pyc$)")
        set(${variable} "${file}" PARENT_SCOPE)
        return()
      endif()
    endforeach()
  endforeach()
endfunction()

if(dirty AND EXISTS ${SOURCE_DIR}/.source-manifest)
  file(STRINGS ${SOURCE_DIR}/.source-manifest lines)
  list(POP_FRONT lines first)
  if(first MATCHES "^commit ([0-9a-f]+)$")
    set(named "${CMAKE_MATCH_1}")
    find_difference_from_manifest("${lines}" differs)
    if(differs STREQUAL "")
      set(commit "${named}")
      set(dirty "false")
    elseif(NOT status EQUAL 0)
      set(commit "${named}")
    endif()
  endif()
endif()
set(text "#define KMEANS_GIT_COMMIT \"${commit}\"\n#define KMEANS_GIT_DIRTY ${dirty}\n")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT text STREQUAL before)
  # As where another user owns the folder, in a container or on a shared disk.
  if(commit STREQUAL "unknown" AND EXISTS ${SOURCE_DIR}/.git)
    set(remedy "")
    if(refusal MATCHES "dubious ownership")
      set(remedy "; `git config --global --add safe.directory ${SOURCE_DIR}` lets it")
    endif()
    string(REGEX REPLACE "\n.*" "" refusal "${refusal}")
    message(STATUS "The program will say 'commit unknown', since git refuses: ${refusal}${remedy}")
  endif()
  # Said once, not at every build of a tree that is being worked on.
  if(dirty AND NOT differs STREQUAL "")
    message(STATUS "The program will say 'with local changes' to commit ${commit}: ${differs}")
  endif()
  file(WRITE ${OUTPUT} "${text}")
endif()
