# Installs the build into an empty prefix and lets a project that knows nothing else use it. Then the
# same project takes the source tree as a part of itself; that one is only configured, which is where
# names that do not resolve outside their folder show.
set(work ${BUILD_DIR}/install_consumer)
file(REMOVE_RECURSE ${work})
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
set(configure ${CMAKE_COMMAND} -G Ninja -S ${CMAKE_CURRENT_LIST_DIR} -DCMAKE_CXX_COMPILER=${CXX_COMPILER})
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${work}/prefix)
run(${configure} -B ${work}/build -DCMAKE_PREFIX_PATH=${work}/prefix)
run(${CMAKE_COMMAND} --build ${work}/build)
run(${work}/build/consumer)
run(${configure} -B ${work}/part -DHOLDFAST_SOURCE_DIR=${HOLDFAST_SOURCE_DIR})
