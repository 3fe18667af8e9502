# Build options and the one INTERFACE target, cgpu::options, that carries every compile flag.
option(CGPU_WARNINGS_AS_ERRORS "Treat compiler warnings as errors (continuous integration)" OFF)
set(CGPU_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize= (address,undefined or thread)")
option(CGPU_FUZZ "Build the fuzz targets: libFuzzer's, so by clang with a sanitizer" OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# The folder that it is built in leaves no trace, in generated sources neither
# (tools/check_reproducible.sh).
add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
# ccache takes precompiled headers with these alone (its manual, "Precompiled headers"). They are there
# without it, too: debugging information names some flags, and a build is to give the same bytes.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
else()
  add_compile_options(-fpch-preprocess)
endif()

# CGPU_COLD: flags of code that no tenant's call, no time of a GPU, no metric and no question of a scheduler
# passes through; CGPU_TEST_FLAGS: of tests. A fourth less of the compiler's time is worth more there
# than faster code. Builds with sanitizers do not optimise, which is half of their time, but for
# CGPU_HOT: the folders whose tests go through very many inputs.
set(CGPU_COLD $<$<CONFIG:RelWithDebInfo>:-O1>)
set(CGPU_TEST_FLAGS $<IF:$<CONFIG:RelWithDebInfo>,-O1,-O0>)
set(CGPU_HOT $<$<CONFIG:Debug>:-O1>)

add_library(cgpu_options INTERFACE)
add_library(cgpu::options ALIAS cgpu_options)
target_compile_definitions(cgpu_options INTERFACE _GNU_SOURCE _GLIBCXX_ASSERTIONS)
target_compile_options(cgpu_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast
  -fstack-protector-strong -fstack-clash-protection -fcf-protection)
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Other files' names are no faults: the release build reads each file alone.
  target_compile_options(cgpu_options INTERFACE -Wno-shadow -Wno-subobject-linkage)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo" AND NOT CGPU_SANITIZE)
  target_compile_definitions(cgpu_options INTERFACE _FORTIFY_SOURCE=3)
endif()
target_link_options(cgpu_options INTERFACE -Wl,-z,relro,-z,now)
if(NOT CGPU_SANITIZE)
  # All files that a program was linked of, for tools/sbom.py.
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/link)
  target_link_options(cgpu_options INTERFACE
    "-Wl,--dependency-file=${CMAKE_BINARY_DIR}/link/$<TARGET_PROPERTY:NAME>.d")
endif()
if(CGPU_WARNINGS_AS_ERRORS)
  target_compile_options(cgpu_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(cgpu_options INTERFACE -Wthread-safety -Wthread-safety-beta)
endif()
if(CGPU_SANITIZE)
  target_compile_options(cgpu_options INTERFACE -fsanitize=${CGPU_SANITIZE}
    -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(cgpu_options INTERFACE -fsanitize=${CGPU_SANITIZE})
endif()
if(CGPU_FUZZ)
  target_compile_options(cgpu_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
