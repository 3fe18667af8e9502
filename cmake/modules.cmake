# cgpu_allow_in_shared(TARGET): it can be linked into a shared library, which does not export its names.
function(cgpu_allow_in_shared target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# cgpu_precompile(TARGET HEADERS): the target's files find these headers compiled: PRECOMPILED,
# PRECOMPILED_TESTS, or PRECOMPILED_SHARED for what shared libraries use. They include what they use all
# the same: `make lint` reads them without, and finds a library's file that lacks an include.
set(PRECOMPILED <algorithm> <array> <atomic> <charconv> <chrono> <cstdint> <cstring> <functional> <map>
    <memory> <optional> <set> <span> <string> <string_view> <thread> <utility> <vector>)
set(PRECOMPILED_TESTS ${PRECOMPILED} <gmock/gmock.h> <gtest/gtest.h>)
set(PRECOMPILED_SHARED ${PRECOMPILED})
function(cgpu_precompile target headers)
  # An optimised file cannot use headers that were compiled without: clang says so.
  if(CGPU_SANITIZE AND CGPU_FOLDER_IS_HOT AND NOT headers STREQUAL "PRECOMPILED_TESTS")
    return()
  endif()
  string(TOLOWER cgpu_${headers} owner)
  if(NOT TARGET ${owner})
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/empty.cc CONTENT "")
    add_library(${owner} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/empty.cc)
    target_link_libraries(${owner} PRIVATE cgpu::options)
    if(headers STREQUAL "PRECOMPILED_TESTS")
      target_link_libraries(${owner} PRIVATE GTest::gmock GTest::gtest_main)
      target_compile_options(${owner} PRIVATE ${CGPU_TEST_FLAGS})
    elseif(headers STREQUAL "PRECOMPILED_SHARED")
      cgpu_allow_in_shared(${owner})
    endif()
    target_precompile_headers(${owner} PRIVATE ${${headers}})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
  # With precompiled headers g++ 12 finds its own std::string out of bounds (github.com/canonical/mir,
  # issue 2987, has such a case). The builds of the sanitizers look for the real ones.
  if(NOT CGPU_SANITIZE)
    target_compile_options(${target} PRIVATE
      -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
endfunction()

# cgpu_add_library(NAME [SHARED] sources...): one static library per folder, alias cgpu::NAME.
# Link its dependencies with target_link_libraries(cgpu_NAME PUBLIC cgpu::...). With SHARED it can be
# linked into a shared library.
function(cgpu_add_library name)
  cmake_parse_arguments(ARG "SHARED" "" "" ${ARGN})
  add_library(cgpu_${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  add_library(cgpu::${name} ALIAS cgpu_${name})
  target_include_directories(cgpu_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(cgpu_${name} PUBLIC cgpu::options)
  if(ARG_SHARED)
    cgpu_allow_in_shared(cgpu_${name})
    cgpu_precompile(cgpu_${name} PRECOMPILED_SHARED)
  else()
    cgpu_precompile(cgpu_${name} PRECOMPILED)
  endif()
endfunction()

# cgpu_add_unit_test(NAME module [SANITIZED VARIABLE=VALUE] sources...): GoogleTest cases of one module,
# label "unit". The target unit_tests builds them all and nothing else. `make test` compiles them for the
# sanitizers alone: whose programs take long to begin, so there all cases of a program run in one
# process. With SANITIZED the program goes through more inputs than there is time for with a sanitizer:
# it runs there with this environment, and as a whole natively, label "unit-whole".
add_custom_target(unit_tests)
function(cgpu_add_unit_test name module)
  cmake_parse_arguments(ARG "" "SANITIZED" "" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  add_dependencies(unit_tests ${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/unit)
  target_compile_options(${name} PRIVATE ${CGPU_TEST_FLAGS})
  target_link_libraries(${name} PRIVATE cgpu::${module} GTest::gmock GTest::gtest_main)
  cgpu_precompile(${name} PRECOMPILED_TESTS)
  if(CGPU_SANITIZE)
    add_test(NAME unit.${name} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(unit.${name} PROPERTIES
      LABELS unit TIMEOUT 900 ENVIRONMENT "${ARG_SANITIZED}")
  elseif(ARG_SANITIZED)
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS unit-whole TIMEOUT 300)
  else()
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS unit TIMEOUT 300)
  endif()
endfunction()

# A program that loads a library while it runs cannot be linked statically: it needs libc, which every
# machine with such a library has, and nothing else. What is not used is left out, since it would ask
# for a newer libc: 2.35 will do.
function(cgpu_link_against_libc_alone target)
  if(NOT CGPU_SANITIZE)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc -Wl,--gc-sections)
  endif()
endfunction()

# Statically linked programs need nothing from the machine or container they run on. A sanitizer's
# runtime cannot be linked statically, so sanitized builds are dynamic.
function(cgpu_link_statically target)
  if(NOT CGPU_SANITIZE)
    target_link_options(${target} PRIVATE -static)
  endif()
endfunction()

# Adds a shared library of a simulated node, lib<NAME>.so.1 in the build folder's <FOLDER>, of the
# given sources. It exports none of the names that it is linked with: not ours, and not libstdc++'s, which
# the program may have itself.
function(cgpu_add_simulated_library target name folder)
  add_library(${target} SHARED ${ARGN})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${name} SUFFIX .so.1 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${folder})
  cgpu_allow_in_shared(${target})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE cgpu::rmclient)
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL)
endfunction()
