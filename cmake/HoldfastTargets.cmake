# Three functions; every CMakeLists.txt below uses only these.

# holdfast_warnings(<target>): flags that stay private to our own sources.
function(holdfast_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
    $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)
  if(HOLDFAST_SYNTAX_ONLY)
    # -fsyntax-only writes no object; an empty one keeps the build system content.
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/syntax_only)
  endif()
  if(HOLDFAST_SANITIZE)
    list(JOIN HOLDFAST_SANITIZE "," flags)
    target_compile_options(${target} PUBLIC -fsanitize=${flags} -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${flags})
  endif()
endfunction()

# holdfast_library(<name> PUBLIC_HEADERS ... SRCS ... DEPS ... PRIVATE_DEPS ...)
# Only PUBLIC_HEADERS are installed.
function(holdfast_library name)
  cmake_parse_arguments(ARG "" "" "PUBLIC_HEADERS;SRCS;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SRCS})
  add_library(holdfast::${name} ALIAS ${name})
  if(ARG_PUBLIC_HEADERS)
    target_sources(${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${ARG_PUBLIC_HEADERS})
  endif()
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_features(${name} PUBLIC cxx_std_20)
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  holdfast_warnings(${name})
endfunction()

# holdfast_installed(<name>): the library goes into the package, with its public headers.
function(holdfast_installed name)
  install(TARGETS ${name} EXPORT holdfastTargets FILE_SET HEADERS)
endfunction()

# holdfast_test(<name> LABEL unit|sim|crash|golden|stress|gpu SRCS ... DEPS ...)
function(holdfast_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SRCS;DEPS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE HOLDFAST_TRACE_DIR="${HOLDFAST_TRACE_DIR}")
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF)
  holdfast_warnings(${name})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
endfunction()
