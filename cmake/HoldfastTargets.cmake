# The functions that every CMakeLists.txt below uses.

# holdfast_warnings(<target>): flags that stay private to our own sources.
function(holdfast_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
    -Wno-missing-field-initializers  # designated initialisers leave out what keeps its default
    $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
    $<$<BOOL:${HOLDFAST_SYNTAX_ONLY}>:-fsyntax-only>)
  if(HOLDFAST_SANITIZE)
    list(JOIN HOLDFAST_SANITIZE "," flags)
    target_compile_options(${target} PUBLIC -fsanitize=${flags} -fno-sanitize-recover=all -fno-omit-frame-pointer)
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

# holdfast_executable(<name> SRCS ... DEPS ...): a program of this tree.
function(holdfast_executable name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_features(${name} PRIVATE cxx_std_20)
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF)
  holdfast_warnings(${name})
endfunction()

# holdfast_add_test(<name> LABEL ... [TIMEOUT seconds] COMMAND ...): add_test with what all tests share.
function(holdfast_add_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "COMMAND" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  add_test(NAME ${name} COMMAND ${ARG_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
  if(HOLDFAST_SANITIZE STREQUAL "thread")
    # RocksDB is not instrumented; the file says what of it is left out.
    set_property(TEST ${name} PROPERTY ENVIRONMENT
      "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp second_deadlock_stack=1 ignore_noninstrumented_modules=1")
  endif()
endfunction()

# holdfast_test(<name> LABEL unit|sim|crash|golden|stress|gpu [TIMEOUT seconds] SRCS ... DEPS ...)
function(holdfast_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SRCS;DEPS" ${ARGN})
  holdfast_executable(${name} SRCS ${ARG_SRCS} DEPS ${ARG_DEPS} GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE HOLDFAST_TRACE_DIR="${HOLDFAST_TRACE_DIR}")
  holdfast_add_test(${name} LABEL ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} COMMAND ${name})
endfunction()
