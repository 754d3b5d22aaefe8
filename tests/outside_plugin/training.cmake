# Included by tests that train: makes images in WORK, and defines train(). Sets `skipped` if nothing can be trained. PREFIX,
# SOURCE, WORK, PLUGINS, SIMULATED, BUILT
set(skipped FALSE)
if(NOT EXISTS ${PREFIX}/bin/pipeline-data)
  message("skipped: pipeline-data is not built here")
  set(skipped TRUE)
  return()
endif()
set(ENV{MILLRACE_PLUGIN_PATH} ${PLUGINS}:${SIMULATED})
execute_process(COMMAND ${PREFIX}/bin/pipeline-inspect devices OUTPUT_VARIABLE devices)
if(NOT devices MATCHES "cpu:0")
  message("skipped: there is no device to train on")
  set(skipped TRUE)
  return()
endif()

get_filename_component(test ${CMAKE_PARENT_LIST_FILE} NAME_WE)
set(images ${WORK}/images_of_${test})
file(REMOVE_RECURSE ${images})
execute_process(COMMAND ${PREFIX}/bin/pipeline-data shapes ${images} --size 16 --count 40 --validation 10
  COMMAND_ERROR_IS_FATAL ANY)

# train(RESULT DEVICE PRECISION SETTING...): trains the pipeline with these settings. RESULT: the losses of the first and last
# step, which must decrease. The simulated GPU runs with the programs of its build.
function(train result device precision)
  list(TRANSFORM ARGN PREPEND "--set=" OUTPUT_VARIABLE settings)
  set(program ${PREFIX}/bin/pipeline-run)
  if(device STREQUAL simulated)
    set(program ${BUILT}/pipeline-run)
  endif()
  execute_process(COMMAND ${program} ${SOURCE}/sepia.toml --json --set data.path=${images} --set run.devices=${device}
    --set run.precision=${precision} ${settings} OUTPUT_VARIABLE events COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "\"event\": *\"step\"[^\n]*\"loss\": *[0-9.]+" losses "${events}")
  list(TRANSFORM losses REPLACE ".*\"loss\": *" "")
  list(GET losses 0 first)
  list(GET losses -1 last)
  if(NOT last LESS first)
    message(FATAL_ERROR "on ${device} in ${precision} the loss went from ${first} to ${last}:\n${events}")
  endif()
  set(${result} ${first} ${last} PARENT_SCOPE)
endfunction()

# train_everywhere(SETTING...): on the CPU in its available precisions and on the simulated GPU, which checks the kernels' memory
# accesses and must give the CPU's losses.
function(train_everywhere)
  train(on_cpu cpu fp32 ${ARGN})
  if(devices MATCHES "AVX-512 +yes")  # required for bf16
    train(in_bf16 cpu bf16 ${ARGN})
  endif()
  train(simulated simulated fp32 ${ARGN})
  foreach(at 0 1)
    list(GET on_cpu ${at} here)
    list(GET simulated ${at} there)
    string(SUBSTRING ${here} 0 6 here)
    string(SUBSTRING ${there} 0 6 there)
    if(NOT here STREQUAL there)
      message(FATAL_ERROR "the CPU's loss is ${here}, the simulated GPU's ${there}")
    endif()
  endforeach()
endfunction()
